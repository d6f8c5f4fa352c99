package cluster

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/controlplane"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/dratest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/kubelettest"
)

// partitions maps each partition of gpu-1 to its number of slices. The board has seven slices.
var partitions = map[string]int64{"gpu-1-mig-4g40gb-0-0": 4, "gpu-1-mig-3g40gb-0-4": 3}

// claimNode is a node with four NVIDIA boards and other vendors' cards. gpu-0 is always allocated
// as a whole. gpu-1 is allocated as a whole or in partitions, which exist only while they are
// allocated. gpu-2 can be shared by several claims. gpu-3 is behind a fabric and must be attached
// by its driver.
type claimNode struct {
	// boards contains the hw.id of each NVIDIA board.
	boards [4]string
	// others maps each of the other vendors' drivers to the hw.id of the vendor's card.
	others map[string]string
	name   string
	joined bool
	// If tainted is true, the drivers publish taints for gpu-0 and for the cards.
	tainted bool
	// published is the generation of the node's pools.
	published int64
	// instances maps each allocated partition to its instance number.
	instances map[string]int
	// The next field is the next instance number.
	next      int
	kubelet   *kubelettest.Kubelet
	observers map[string]*claimObserver

	// The observe method sets the following fields.

	// listed contains the entries that the kubelet lists, including those with administrative
	// access.
	listed []kube.ContainerResources
	// nvidia is true if the kubelet lists NVIDIA devices.
	nvidia bool
	// devices contains the expected holders of each device in the telemetry. The holders of other
	// vendors' devices are unknown, because the telemetry does not identify these devices.
	devices map[string]dratest.Verdict
}

func newClaimNode(t *testing.T, number int) *claimNode {
	t.Helper()
	n := &claimNode{kubelet: kubelettest.Start(t), others: map[string]string{}}
	for i := range n.boards {
		n.boards[i] = fmt.Sprintf("GPU-%08d-0000-0000-0000-%012d", number, i)
	}
	for _, driver := range []string{dratest.AMD, dratest.Intel} {
		n.others[driver] = fmt.Sprint("card-", driver, "-", number)
	}
	return n
}

// The list method sets the entries that the kubelet lists.
func (n *claimNode) list(resources []kube.ContainerResources) {
	n.listed = resources
	n.kubelet.Set(resources...)
}

// join adds node n to the cluster under the given name and starts its observers. Pods and claims of
// an earlier node with the same name may still exist in the API server.
func (c *claimCluster) join(n *claimNode, name, kubeConfig string) {
	n.name, n.joined, n.instances = name, true, map[string]int{}
	c.plane.CreateNode(c.t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	c.publish(n)
	n.observers = map[string]*claimObserver{
		"kubelet and claims": observe(c.t, name, kubeConfig, n.kubelet.Socket(), true),
		"claims":             observe(c.t, name, kubeConfig, "/nowhere/kubelet.sock", true),
		"kubelet":            observe(c.t, name, kubeConfig, n.kubelet.Socket(), false),
	}
}

// removeNode removes a node and its ResourceSlices from the cluster.
func (c *claimCluster) removeNode(n *claimNode) {
	c.seen["node left"]++
	n.joined, n.observers = false, nil
	require.NoError(c.t, c.plane.Admin().CoreV1().Nodes().Delete(c.t.Context(), n.name, metav1.DeleteOptions{}))
	c.withdraw(n)
}

func (c *claimCluster) withdraw(n *claimNode) {
	require.NoError(c.t, c.plane.Admin().ResourceV1().ResourceSlices().DeleteCollection(c.t.Context(), metav1.DeleteOptions{},
		metav1.ListOptions{FieldSelector: resourcev1.ResourceSliceSelectorNodeName + "=" + n.name}))
}

// publish replaces a node's ResourceSlices.
func (c *claimCluster) publish(n *claimNode) {
	c.withdraw(n)
	n.published++
	devices := controlplane.NVIDIASlice(n.name, n.boards[:]...)
	devices.Spec.Pool.Generation, devices.Spec.Pool.ResourceSliceCount = n.published, 2
	counters := devices.DeepCopy()
	const set, counter = "gpu-1-counters", "memory-slices"
	amount := func(n int64) map[string]resourcev1.Counter {
		return map[string]resourcev1.Counter{counter: {Value: *resource.NewQuantity(n, resource.DecimalSI)}}
	}
	counters.Name += "-counters"
	counters.Spec.Devices, counters.Spec.SharedCounters = nil, []resourcev1.CounterSet{{Name: set, Counters: amount(7)}}
	devices.Spec.Devices[1].ConsumesCounters = []resourcev1.DeviceCounterConsumption{{CounterSet: set, Counters: amount(7)}}
	for partition, slices := range partitions {
		devices.Spec.Devices = append(devices.Spec.Devices, resourcev1.Device{
			Name: partition,
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
				"type": {StringValue: new("mig")}, "parentUUID": {StringValue: &n.boards[1]}, "profile": {StringValue: new(profile(partition))},
			},
			ConsumesCounters: []resourcev1.DeviceCounterConsumption{{CounterSet: set, Counters: amount(slices)}},
		})
	}
	devices.Spec.Devices[2].AllowMultipleAllocations = new(true)
	devices.Spec.Devices[2].Capacity = map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{
		"memory": {Value: resource.MustParse("80Gi"), RequestPolicy: &resourcev1.CapacityRequestPolicy{Default: new(resource.MustParse("30Gi"))}},
	}
	fabric := &devices.Spec.Devices[3]
	fabric.Attributes["fabric"] = resourcev1.DeviceAttribute{StringValue: new("f0")}
	fabric.BindingConditions, fabric.BindingFailureConditions = []string{attached}, []string{broken}
	all := []*resourcev1.ResourceSlice{devices, counters}
	for driver, attributes := range map[string]map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
		dratest.AMD:   {"type": {StringValue: new("amdgpu")}, "pciAddr": {StringValue: new("0000:03:00.0")}},
		dratest.Intel: {"model": {StringValue: new("B60")}, "pciAddress": {StringValue: new("0000:04:00.0")}},
	} {
		s := devices.DeepCopy()
		s.Name, s.Spec.Driver, s.Spec.Pool.ResourceSliceCount = n.name+"-"+driver, driver, 1
		s.Spec.Devices = []resourcev1.Device{{Name: "card-0", Attributes: attributes}}
		all = append(all, s)
	}
	for _, s := range all {
		if n.tainted && len(s.Spec.Devices) > 0 {
			s.Spec.Devices[0].Taints = []resourcev1.DeviceTaint{{Key: "example.com/hot", Effect: resourcev1.DeviceTaintEffectNoSchedule}}
		}
		c.plane.Create(c.t, s)
	}
}

func profile(partition string) string { return fmt.Sprintf("%dg.40gb", partitions[partition]) }

// id returns the hw.id of one of the node's devices.
func (n *claimNode) id(driver, device string) string {
	if number, exists := n.instances[device]; exists {
		return fmt.Sprint(n.boards[1], "/gi", number)
	}
	if id, other := n.others[driver]; other {
		return id
	}
	i, err := strconv.Atoi(strings.TrimPrefix(device, "gpu-"))
	if err != nil {
		return ""
	}
	return n.boards[i]
}

// observe reads the objects from the API server and derives from them which entries the kubelets
// list and which containers hold devices. observe returns the nonzero values that gpu_cluster is
// expected to report.
func (c *claimCluster) observe() map[string]float64 {
	claims, pods := c.claims(), c.pods()
	for _, n := range c.nodes {
		if n.joined {
			n.observe(c, claims, pods)
		}
	}
	c.recordSituations(claims, pods)
	return c.count(claims, pods)
}

func (n *claimNode) observe(c *claimCluster, claims map[string]*resourcev1.ResourceClaim, pods []corev1.Pod) {
	n.updateInstances(claims)
	n.listed, n.nvidia, n.devices = nil, false, map[string]dratest.Verdict{}
	for i, id := range n.boards {
		if i != 1 || len(n.instances) == 0 {
			n.devices[id] = dratest.Verdict{Known: true, Board: id, Slices: 7}
		}
	}
	for partition := range n.instances {
		n.devices[n.id("", partition)] = dratest.Verdict{Known: true, Board: n.boards[1], Slices: float64(partitions[partition])}
	}
	for _, id := range n.others {
		n.devices[id] = dratest.Verdict{Board: id, Slices: 7}
	}
	for i := range pods {
		p := &pods[i]
		claim := claims[claimOf(p)]
		if p.Spec.NodeName != n.name || len(allocation(claim)) == 0 {
			continue
		}
		if !isReservedFor(claim, p) {
			c.seen["stranger"]++
			continue
		}
		r := kube.ContainerResources{Namespace: c.namespace, Pod: p.Name, Container: "main"}
		for _, given := range allocation(claim) {
			r.Claims = append(r.Claims, kube.ClaimDevice{
				Namespace: c.namespace, Claim: claim.Name, Driver: given.Driver, Pool: given.Pool, Device: given.Device, ShareID: string(ptr.Deref(given.ShareID, "")),
			})
			n.nvidia = n.nvidia || given.Driver == controlplane.NVIDIADriver
			id := n.id(given.Driver, given.Device)
			if v := n.devices[id]; v.Known && given.AdminAccess == nil {
				v.Holders = append(v.Holders, dratest.Holder{Namespace: c.namespace, Pod: p.Name, UID: string(p.UID), Container: "main"})
				n.devices[id] = v
			}
		}
		n.listed = append(n.listed, r)
	}
	for id, v := range n.devices {
		v.Holders = sorted(v.Holders)
		n.devices[id] = v
	}
}

// updateInstances creates instances for newly allocated partitions and deletes the instances of
// partitions that are no longer allocated.
func (n *claimNode) updateInstances(claims map[string]*resourcev1.ResourceClaim) {
	allocated := map[string]bool{}
	for _, claim := range claims {
		for _, r := range allocation(claim) {
			if r.Pool == n.name && r.AdminAccess == nil {
				allocated[r.Device] = true
			}
		}
	}
	for partition := range partitions {
		switch _, exists := n.instances[partition]; {
		case allocated[partition] && !exists:
			n.instances[partition] = n.next
			n.next++
		case !allocated[partition]:
			delete(n.instances, partition)
		}
	}
}

func sorted(holders []dratest.Holder) []dratest.Holder {
	slices.SortFunc(holders, func(a, b dratest.Holder) int { return strings.Compare(a.UID, b.UID) })
	return slices.Compact(holders)
}

// recordSituations records which situations currently occur, according to the claims and pods.
func (c *claimCluster) recordSituations(claims map[string]*resourcev1.ResourceClaim, pods []corev1.Pod) {
	uids, joined := map[string]bool{}, map[string]*claimNode{}
	see := func(present bool, situation string) {
		if present {
			c.seen[situation]++
		}
	}
	for _, n := range c.nodes {
		if !n.joined {
			continue
		}
		joined[n.name] = n
		see(n.tainted, "published taint")
		for _, v := range n.devices {
			see(len(v.Holders) > 1, "several holders")
		}
		for sources := range n.observers {
			for _, v := range n.verdicts(sources) {
				see(!v.Known && slices.Contains(n.boards[:], v.Board), "unknown holders")
			}
		}
	}
	for i := range pods {
		p := &pods[i]
		uids[string(p.UID)] = true
		claim := claims[claimOf(p)]
		waits := p.Spec.NodeName == "" && claim != nil && binds(claim) && isReservedFor(claim, p)
		see(waits, "waits for its device")
		c.waited[p.UID] = c.waited[p.UID] || waits
		see(p.Spec.NodeName != "" && c.waited[p.UID], "bound after its device was attached")
		see(p.Spec.NodeName != "" && joined[p.Spec.NodeName] == nil, "pod of a previous node")
		if joined[p.Spec.NodeName] == nil || claim == nil || !isReservedFor(claim, p) {
			continue
		}
		see(claim.Annotations[resourcev1.PodResourceClaimAnnotation] != "", "template")
		see(isExtended(claim), "extended resource")
		for _, r := range allocation(claim) {
			see(r.AdminAccess != nil, "administrative access")
			see(r.ShareID != nil, "share")
			see(partitions[r.Device] > 0, "partition")
			see(r.Device == "gpu-1" && r.AdminAccess == nil, "board without partitions")
			see(r.Driver == controlplane.NVIDIADriver, "NVIDIA")
			see(r.Driver == dratest.AMD, "AMD")
			see(r.Driver == dratest.Intel, "Intel")
		}
	}
	for _, claim := range claims {
		see(claim.Status.Allocation == nil, "pending")
		see(claim.Status.Allocation != nil && len(claim.Status.ReservedFor) == 0, "outlives its pods")
		see(len(claim.Status.ReservedFor) > 1, "several pods")
		for _, r := range claim.Status.ReservedFor {
			see(r.Resource == "podgroups", "claim of a PodGroup")
			see(r.Resource == "pods" && !uids[string(r.UID)], "reserved for a deleted pod")
		}
	}
}

// count returns the expected numbers of claims and requested devices by class and state, the
// devices of each pod, the number of devices in ResourceSlices, and the devices' taints from
// drivers and rules. count ignores claims for extended resources and devices with administrative
// access.
func (c *claimCluster) count(claims map[string]*resourcev1.ResourceClaim, pods []corev1.Pod) map[string]float64 {
	counts := map[string]float64{}
	// boards maps each pool/device to the board's hw.id.
	boards := map[string]string{}
	// unnamed maps each pool/device to the number of devices without an hw.id.
	unnamed := map[string]float64{}
	for _, n := range c.nodes {
		if n.joined {
			counts["k8s.resourceslice.devices"] += float64(len(n.boards) + len(partitions) + len(n.others))
			for i, id := range n.boards {
				boards[fmt.Sprint(n.name, "/gpu-", i)] = " " + id
			}
			for partition := range partitions {
				unnamed[n.name+"/"+partition] = 1
			}
			unnamed[n.name+"/card-0"] = float64(len(n.others))
		}
	}
	for _, n := range c.nodes {
		if n.joined && n.tainted {
			counts["k8s.resourceslice.device.taint "+n.boards[0]+" example.com/hot"]++
			counts["k8s.resourceslice.device.taint example.com/hot"] += float64(len(n.others))
		}
	}
	for taint := range c.ruleTaints() {
		if id := boards[taint.device]; id != "" {
			counts["k8s.resourceslice.device.taint"+id+" example.com/broken"]++
		}
		if n := unnamed[taint.device]; n > 0 {
			counts["k8s.resourceslice.device.taint example.com/broken"] += n
		}
	}
	for _, claim := range claims {
		request := requestOf(claim)
		if request.AdminAccess != nil {
			continue
		}
		state, devices := "reserved", len(allocation(claim))
		switch {
		case claim.Status.Allocation == nil:
			state, devices = "pending", int(request.Count)
		case len(claim.Status.ReservedFor) == 0:
			state = "allocated"
		}
		if !isExtended(claim) {
			counts["k8s.resourceclaim.count "+request.DeviceClassName+" "+state]++
			counts["k8s.resourceclaim.requested "+request.DeviceClassName+" "+state] += float64(devices)
		}
		var reserving []string
		for _, r := range claim.Status.ReservedFor {
			if r.Resource == "pods" {
				reserving = append(reserving, r.Name)
			}
		}
		for i := range pods {
			if p := &pods[i]; claimOf(p) == claim.Name && groupOf(p) != "" && isReservedFor(claim, p) {
				reserving = append(reserving, p.Name)
			}
		}
		for _, r := range allocation(claim) {
			for _, pod := range reserving {
				counts["k8s.resourceclaim.device "+request.DeviceClassName+boards[r.Pool+"/"+r.Device]+" of "+pod]++
			}
		}
	}
	return counts
}

// ruleTaint is a taint that a DeviceTaintRule sets. device has the form pool/device.
type ruleTaint struct {
	device string
	effect resourcev1beta2.DeviceTaintEffect
}

// ruleTaints returns the distinct taints of all DeviceTaintRules. More than one rule can set the
// same taint.
func (c *claimCluster) ruleTaints() map[ruleTaint]bool {
	rules, err := c.plane.Admin().ResourceV1beta2().DeviceTaintRules().List(c.t.Context(), metav1.ListOptions{})
	require.NoError(c.t, err)
	taints := map[ruleTaint]bool{}
	for i := range rules.Items {
		spec := &rules.Items[i].Spec
		taints[ruleTaint{*spec.DeviceSelector.Pool + "/" + *spec.DeviceSelector.Device, spec.Taint.Effect}] = true
	}
	return taints
}

// counts returns gpu_cluster's nonzero values of the metrics that [claimCluster.count] also
// computes.
func counts(values map[string]float64) map[string]float64 {
	out := map[string]float64{}
	for key, v := range values {
		metric, _, _ := strings.Cut(key, " ")
		switch metric {
		case "k8s.resourceclaim.count", "k8s.resourceclaim.requested", "k8s.resourceclaim.device", "k8s.resourceslice.devices", "k8s.resourceslice.device.taint":
			if v != 0 {
				out[key] = v
			}
		}
	}
	return out
}

// verdicts returns the holders that an observer with the given sources must report. If the kubelet
// lists no NVIDIA devices, it might not support DRA, so an observer that uses only the kubelet
// cannot know the holders.
func (n *claimNode) verdicts(sources string) map[string]dratest.Verdict {
	if sources != "kubelet" || n.nvidia {
		return n.devices
	}
	unknown := map[string]dratest.Verdict{}
	for id, v := range n.devices {
		unknown[id] = dratest.Verdict{Board: v.Board, Slices: v.Slices}
	}
	return unknown
}

// For each device in verdicts whose holders are known, holdersIn returns the holders.
func holdersIn(verdicts map[string]dratest.Verdict) map[string][]dratest.Holder {
	out := map[string][]dratest.Holder{}
	for id, v := range verdicts {
		if v.Known {
			out[id] = append([]dratest.Holder{}, v.Holders...)
		}
	}
	return out
}

func (n *claimNode) allBoards() []string {
	all := slices.Clone(n.boards[:])
	for _, id := range n.others {
		all = append(all, id)
	}
	return all
}

// telemetry returns one sample for each device on the node. The samples of partitions have
// attributes that identify the DRA device.
func (n *claimNode) telemetry(cluster string, now time.Time) pmetric.Metrics {
	md := pmetric.NewMetrics()
	rm := md.ResourceMetrics().AppendEmpty()
	rm.Resource().Attributes().PutStr(signal.K8sClusterName, cluster)
	rm.Resource().Attributes().PutStr(signal.K8sNodeName, n.name)
	m := rm.ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
	m.SetName(signal.GPUEngineActive.Name)
	m.SetUnit(signal.GPUEngineActive.Unit)
	m.SetEmptyGauge()
	add := func(id, vendor string) pcommon.Map {
		dp := m.Gauge().DataPoints().AppendEmpty()
		dp.SetTimestamp(pcommon.NewTimestampFromTime(now))
		dp.SetDoubleValue(0.5)
		dp.Attributes().PutStr(signal.HardwareID, id)
		dp.Attributes().PutStr(signal.HardwareVendor, vendor)
		return dp.Attributes()
	}
	for _, id := range n.boards {
		add(id, signal.VendorNVIDIA)
	}
	add(n.others[dratest.AMD], "AMD")
	add(n.others[dratest.Intel], "Intel")
	for partition, number := range n.instances {
		attributes := add(n.id("", partition), signal.VendorNVIDIA)
		attributes.PutStr(signal.HardwareParent, n.boards[1])
		attributes.PutStr(signal.MIGProfile, profile(partition))
		attributes.PutStr(signal.MIGInstanceID, strconv.Itoa(number))
		attributes.PutStr(signal.DRADriver, controlplane.NVIDIADriver)
		attributes.PutStr(signal.DRAPool, n.name)
		attributes.PutStr(signal.DRADevice, partition)
	}
	return md
}

// claimObserver is a running gpu_k8s processor. want contains the seconds that the processor must
// charge, and got contains the seconds that the processor has charged.
type claimObserver struct {
	processor processor.Metrics
	sink      *consumertest.MetricsSink
	last      time.Time // time of the last sample
	want      *dratest.Charged
	got       *dratest.Counters
}

func observe(t *testing.T, node, kubeConfig, socket string, claims bool) *claimObserver {
	t.Helper()
	o := &claimObserver{sink: &consumertest.MetricsSink{}, want: dratest.NewCharged(), got: dratest.NewCounters()}
	o.processor = gpuK8sOn(t, node, newHost(), o.sink, kubeConfig, socket, claims)
	return o
}

// process sends telemetry to the processor and returns the processor's output.
func (o *claimObserver) process(t *testing.T, telemetry pmetric.Metrics) pmetric.Metrics {
	t.Helper()
	o.sink.Reset()
	require.NoError(t, o.processor.ConsumeMetrics(t.Context(), telemetry))
	require.Len(t, o.sink.AllMetrics(), 1)
	return o.sink.AllMetrics()[0]
}

// charge sends a sample for each device. The new samples end the interval since the previous
// samples. charge then checks the seconds charged for all intervals so far.
func (o *claimObserver) charge(t *testing.T, n *claimNode, verdicts map[string]dratest.Verdict, sources string) {
	t.Helper()
	now := time.Now()
	md := o.process(t, n.telemetry("cluster", now))
	require.Equal(t, holdersIn(verdicts), holders(md), "node %s, observed by %s", n.name, sources)
	// The first sample does not end an interval.
	if !o.last.IsZero() {
		// Use UnixNano, because points are timestamped in nanoseconds since the epoch.
		o.want.Charge(verdicts, n.allBoards(), time.Duration(now.UnixNano()-o.last.UnixNano()))
	}
	o.last = now
	o.got.Read(md)
	require.Empty(t, o.want.Differences(&o.got.Charged), "node %s, observed by %s", n.name, sources)
}

// holders returns the holders that a batch reports for each device. The result omits devices with
// unknown holders, and boards that have instances.
func holders(md pmetric.Metrics) map[string][]dratest.Holder {
	held, partitioned := map[string][]dratest.Holder{}, map[string]bool{}
	text := func(attributes pcommon.Map, key string) string {
		v, _ := attributes.Get(key)
		return v.Str()
	}
	for point := range points.All(md) {
		id := text(point.Attributes(), signal.HardwareID)
		if parent, isInstance := point.Attributes().Get(signal.HardwareParent); isInstance {
			partitioned[parent.Str()] = true
		}
		of := point.Resource.Attributes()
		switch h := (dratest.Holder{
			Namespace: text(of, signal.K8sNamespaceName), Pod: text(of, signal.K8sPodName), UID: text(of, signal.K8sPodUID), Container: text(of, signal.K8sContainerName),
		}); {
		case point.Metric.Name() == signal.GPUSharingClients.Name && held[id] == nil:
			held[id] = []dratest.Holder{} // the holders are known
		case point.Metric.Name() == signal.GPUDeviceHolder.Name && h.Pod != "":
			held[id] = append(held[id], h)
		}
	}
	for id, all := range held {
		held[id] = sorted(all)
		if partitioned[id] {
			delete(held, id)
		}
	}
	return held
}
