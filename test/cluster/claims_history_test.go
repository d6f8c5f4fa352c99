package cluster

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
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
	"k8s.io/client-go/util/retry"

	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/controlplane"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/kubelettest"
)

// The boards of the history's node. gpu0 is allocated as a whole. gpu1 is allocated as a whole or in
// partitions, which exist only while they are allocated. Several claims can have shares of gpu2.
const (
	gpu2     = "GPU-00000000-0000-0000-0000-000000000002"
	amdBoard = "amd-board"

	amdDriver = "gpu.amd.com"
	migClass  = "mig.nvidia.com"
	extended  = "nvidia.com/gpu"

	// monitor begins the names of the pods with administrative access. Without permission to read
	// claims, only these names show that the pods do not hold the devices.
	monitor = "nvidia-dcgm-exporter-dra-"
)

// partitions are the partitions of gpu1 with their memory slices, of which the board has seven.
var partitions = map[string]int64{"gpu-1-mig-4g40gb-0-0": 4, "gpu-1-mig-3g40gb-0-4": 3}

// claimCluster is a cluster in which pods with claims are created and deleted, devices are tainted,
// and the node restarts. The test acts as the kubelet and as the controllers.
type claimCluster struct {
	t         *testing.T
	plane     *controlplane.Plane
	namespace string
	random    *rand.Rand
	serial    int
	node      string         // the current name of the only node
	starts    int            // how often the node has started
	instances map[string]int // the number of the instance of each allocated partition
	next      int            // the number of the next instance
	seen      map[string]int // how often something happened
}

func newClaim(namespace, name string, admin bool) *resourcev1.ResourceClaim {
	request := &resourcev1.ExactDeviceRequest{DeviceClassName: controlplane.NVIDIADriver}
	if admin {
		request.AdminAccess, request.AllocationMode = &admin, resourcev1.DeviceAllocationModeAll
	}
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{Name: "gpu", Exactly: request}}}},
	}
}

func (c *claimCluster) pods() []corev1.Pod {
	list, err := c.plane.Admin().CoreV1().Pods(c.namespace).List(c.t.Context(), metav1.ListOptions{})
	require.NoError(c.t, err)
	return list.Items
}

// claims returns the claims by name.
func (c *claimCluster) claims() map[string]*resourcev1.ResourceClaim {
	list, err := c.plane.Admin().ResourceV1().ResourceClaims(c.namespace).List(c.t.Context(), metav1.ListOptions{})
	require.NoError(c.t, err)
	claims := map[string]*resourcev1.ResourceClaim{}
	for i := range list.Items {
		claims[list.Items[i].Name] = &list.Items[i]
	}
	return claims
}

// claimOf returns the name of a pod's claim, or "" if the pod has none yet.
func claimOf(p *corev1.Pod) string {
	switch {
	case p.Status.ExtendedResourceClaimStatus != nil:
		return p.Status.ExtendedResourceClaimStatus.ResourceClaimName
	case len(p.Spec.ResourceClaims) == 0:
		return ""
	case p.Spec.ResourceClaims[0].ResourceClaimName != nil:
		return *p.Spec.ResourceClaims[0].ResourceClaimName
	}
	for _, s := range p.Status.ResourceClaimStatuses {
		return *s.ResourceClaimName
	}
	return ""
}

// change deletes a pod, replaces one by another pod of the same name, taints a device, or creates a
// pod with a claim.
func (c *claimCluster) change() {
	pods := c.pods()
	c.serial++
	name := fmt.Sprint("p", c.serial)
	action := c.random.IntN(12)
	if len(pods) > 6 {
		action = 0
	}
	switch {
	case action < 2 && len(pods) > 0:
		p := &pods[c.random.IntN(len(pods))]
		c.delete(p)
		if action == 1 && !strings.HasPrefix(p.Name, monitor) {
			c.create(p.Name)
		}
	case action == 2 || action == 4:
		c.changeTaints()
	case action == 3:
		c.seen["admin"]++
		claim := newClaim(c.namespace, name, true)
		claim.Spec.Devices.Requests[0].Exactly.Tolerations = []resourcev1.DeviceToleration{{Operator: resourcev1.DeviceTolerationOpExists}}
		c.plane.Create(c.t, claim)
		c.plane.Create(c.t, boundPod(c.namespace, fmt.Sprintf(monitor+"%05d", c.serial), name))
	default:
		c.create(name)
	}
}

// create creates a pod with a new claim, with an existing claim, with a claim from a template, or
// with an extended resource for which the scheduler creates a claim.
func (c *claimCluster) create(name string) {
	pod := boundPod(c.namespace, name, "claim-"+strconv.Itoa(c.serial))
	claim := newClaim(c.namespace, "claim-"+strconv.Itoa(c.serial), false)
	request := claim.Spec.Devices.Requests[0].Exactly
	if c.random.IntN(3) == 0 {
		request.Tolerations = []resourcev1.DeviceToleration{{Operator: resourcev1.DeviceTolerationOpExists}}
	}
	switch c.random.IntN(7) {
	case 0:
		request.DeviceClassName = migClass
	case 1:
		request.DeviceClassName = amdDriver
	case 2:
		request.Count = 2
	case 3:
		for _, existing := range c.claims() {
			if existing.Annotations[resourcev1.ExtendedResourceClaimAnnotation] == "" && existing.Spec.Devices.Requests[0].Exactly.AdminAccess == nil &&
				len(existing.OwnerReferences) == 0 {
				*pod.Spec.ResourceClaims[0].ResourceClaimName = existing.Name
				c.plane.Create(c.t, pod)
				return
			}
		}
	case 4:
		pod.Spec.ResourceClaims, pod.Spec.Containers[0].Resources.Claims = nil, nil
		pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{extended: resource.MustParse("1")}
		c.plane.Create(c.t, pod)
		return
	case 5: // as the claim controller does
		pod.Spec.ResourceClaims[0].ResourceClaimName = nil
		pod.Spec.ResourceClaims[0].ResourceClaimTemplateName = new("template")
		c.plane.Create(c.t, pod)
		claim.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))}
		claim.Annotations = map[string]string{resourcev1.PodResourceClaimAnnotation: "gpu"}
		c.plane.Create(c.t, claim)
		pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: &claim.Name}}
		_, err := c.plane.Admin().CoreV1().Pods(c.namespace).UpdateStatus(c.t.Context(), pod, metav1.UpdateOptions{})
		require.NoError(c.t, err)
		return
	}
	c.plane.Create(c.t, claim)
	c.plane.Create(c.t, pod)
}

// changeTaints adds a DeviceTaintRule for one device, or removes all rules.
func (c *claimCluster) changeTaints() {
	rules := c.plane.Admin().ResourceV1beta2().DeviceTaintRules()
	present, err := rules.List(c.t.Context(), metav1.ListOptions{})
	require.NoError(c.t, err)
	if len(present.Items) > 1 {
		for i := range present.Items {
			require.NoError(c.t, rules.Delete(c.t.Context(), present.Items[i].Name, metav1.DeleteOptions{}))
		}
		return
	}
	effects := []resourcev1beta2.DeviceTaintEffect{
		resourcev1beta2.DeviceTaintEffectNone, resourcev1beta2.DeviceTaintEffectNoSchedule, resourcev1beta2.DeviceTaintEffectNoExecute,
	}
	c.taint(fmt.Sprint("gpu-", c.random.IntN(3)), effects[c.random.IntN(len(effects))])
}

// taint adds a DeviceTaintRule for a device of the node. If the device must not be used anymore,
// taint deletes the pods that do not tolerate this, as the eviction controller does.
func (c *claimCluster) taint(device string, effect resourcev1beta2.DeviceTaintEffect) {
	c.serial++
	c.plane.Create(c.t, &resourcev1beta2.DeviceTaintRule{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("rule-", c.serial)},
		Spec: resourcev1beta2.DeviceTaintRuleSpec{
			DeviceSelector: &resourcev1beta2.DeviceTaintSelector{Pool: new(c.node), Device: &device},
			Taint:          resourcev1beta2.DeviceTaint{Key: "example.com/broken", Effect: effect},
		},
	})
	if effect != resourcev1beta2.DeviceTaintEffectNoExecute {
		return
	}
	claims, pods := c.claims(), c.pods()
	for i := range pods {
		claim := claims[claimOf(&pods[i])]
		if claim != nil && slices.Contains(c.intolerant(claim), device) {
			c.delete(&pods[i])
			c.seen["eviction"]++
		}
	}
}

// intolerant returns the devices of the node that a claim has and that it loses if they are tainted.
func (c *claimCluster) intolerant(claim *resourcev1.ResourceClaim) (devices []string) {
	if claim.Status.Allocation == nil {
		return nil
	}
	for _, r := range claim.Status.Allocation.Devices.Results {
		if r.Pool == c.node && len(r.Tolerations) == 0 {
			devices = append(devices, r.Device)
		}
	}
	return devices
}

// evict taints a device that a pod has, if there is one.
func (c *claimCluster) evict() {
	claims := c.claims()
	for _, p := range c.pods() {
		if claim := claims[claimOf(&p)]; claim != nil && p.Spec.NodeName == c.node && len(c.intolerant(claim)) > 0 {
			c.taint(c.intolerant(claim)[0], resourcev1beta2.DeviceTaintEffectNoExecute)
			return
		}
	}
}

// start removes the node and its slices, and lets it join again with the same or another name. Pods
// and claims of the old name are still in the API.
func (c *claimCluster) start(name string) {
	resourceSlices := c.plane.Admin().ResourceV1().ResourceSlices()
	if c.node != "" {
		require.NoError(c.t, c.plane.Admin().CoreV1().Nodes().Delete(c.t.Context(), c.node, metav1.DeleteOptions{}))
		require.NoError(c.t, resourceSlices.DeleteCollection(c.t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	}
	c.node = name
	c.starts++
	c.instances = map[string]int{}
	c.plane.CreateNode(c.t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})

	devices := controlplane.NVIDIASlice(name, gpu0, gpu1, gpu2)
	devices.Spec.Pool.Generation, devices.Spec.Pool.ResourceSliceCount = int64(c.starts), 2
	counters := devices.DeepCopy()
	const set, counter = "gpu-1-counters", "memory-slices"
	amount := func(n int64) map[string]resourcev1.Counter {
		return map[string]resourcev1.Counter{counter: {Value: *resource.NewQuantity(n, resource.DecimalSI)}}
	}
	counters.Name += "-counters"
	counters.Spec.Devices, counters.Spec.SharedCounters = nil, []resourcev1.CounterSet{{Name: set, Counters: amount(7)}}
	devices.Spec.Devices[1].ConsumesCounters = []resourcev1.DeviceCounterConsumption{{CounterSet: set, Counters: amount(7)}}
	for partition, n := range partitions {
		mig, parent, profile := "mig", gpu1, fmt.Sprintf("%dg.40gb", n)
		devices.Spec.Devices = append(devices.Spec.Devices, resourcev1.Device{
			Name: partition,
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
				"type": {StringValue: &mig}, "parentUUID": {StringValue: &parent}, "profile": {StringValue: &profile},
			},
			ConsumesCounters: []resourcev1.DeviceCounterConsumption{{CounterSet: set, Counters: amount(n)}},
		})
	}
	devices.Spec.Devices[2].AllowMultipleAllocations = new(true)
	devices.Spec.Devices[2].Capacity = map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{
		"memory": {Value: resource.MustParse("80Gi"), RequestPolicy: &resourcev1.CapacityRequestPolicy{Default: new(resource.MustParse("30Gi"))}},
	}
	other := controlplane.NVIDIASlice(name, "card")
	other.Name, other.Spec.Driver = name+"-"+amdDriver, amdDriver
	other.Spec.Pool.Generation = int64(c.starts)
	other.Spec.Devices[0].Name = "card-0"
	other.Spec.Devices[0].Attributes = map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"type": {StringValue: new("amdgpu")}}
	for _, s := range []*resourcev1.ResourceSlice{devices, counters, other} {
		c.plane.Create(c.t, s)
	}
}

// delete deletes a pod and its reservations. A claim without reservations is deleted if it belongs to
// the pod; otherwise it is deallocated or stays allocated, at random.
func (c *claimCluster) delete(pod *corev1.Pod) {
	require.NoError(c.t, c.plane.Admin().CoreV1().Pods(c.namespace).Delete(c.t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	claims := c.plane.Admin().ResourceV1().ResourceClaims(c.namespace)
	deallocate := c.random.IntN(2) == 0
	name := claimOf(pod)
	if name == "" {
		return
	}
	own := false
	require.NoError(c.t, retry.RetryOnConflict(retry.DefaultRetry, func() error { // the scheduler updates claims as well
		claim, err := claims.Get(c.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		own = len(claim.OwnerReferences) > 0
		claim.Status.ReservedFor = slices.DeleteFunc(claim.Status.ReservedFor, func(r resourcev1.ResourceClaimConsumerReference) bool { return r.UID == pod.UID })
		if len(claim.Status.ReservedFor) == 0 && (deallocate || own) {
			claim.Status.Allocation = nil
		}
		claim, err = claims.UpdateStatus(c.t.Context(), claim, metav1.UpdateOptions{})
		if err != nil || !own {
			return err
		}
		claim.Finalizers = nil
		_, err = claims.Update(c.t.Context(), claim, metav1.UpdateOptions{})
		return err
	}))
	if own {
		require.NoError(c.t, claims.Delete(c.t.Context(), name, metav1.DeleteOptions{}))
	}
}

// settle waits until the scheduler has tried to schedule every pod.
func (c *claimCluster) settle() {
	require.Eventually(c.t, func() bool {
		return !slices.ContainsFunc(c.pods(), func(p corev1.Pod) bool {
			return p.Spec.NodeName == "" && !slices.ContainsFunc(p.Status.Conditions, func(k corev1.PodCondition) bool {
				return k.Type == corev1.PodScheduled && k.Status == corev1.ConditionFalse
			})
		})
	}, patience, poll)
}

// id returns the hw.id of a device of the node.
func (c *claimCluster) id(device string) string {
	if number, exists := c.instances[device]; exists {
		return fmt.Sprint(gpu1, "/gi", number)
	}
	return map[string]string{"gpu-0": gpu0, "gpu-1": gpu1, "gpu-2": gpu2, "card-0": amdBoard}[device]
}

// truth is what an observer of the node must report.
type truth struct {
	// listed is what the kubelet lists, including administrative access.
	listed []kube.ContainerResources
	// nvidia is true if it lists devices of NVIDIA.
	nvidia bool
	// holders has the pods that hold each device of NVIDIA.
	holders map[string][]string
	// counts has the number of devices in slices, and of claims by class and state, without those
	// for extended resources and administrative access.
	counts map[string]float64
}

// look returns the truth of this moment. Partitions exist while they are allocated.
func (c *claimCluster) look() (now truth) {
	claims := c.claims()
	now.counts = map[string]float64{"k8s.resourceslice.devices": float64(4 + len(partitions))}
	allocated := map[string]bool{}
	for _, class := range []string{controlplane.NVIDIADriver, migClass, amdDriver} {
		for _, state := range []string{"pending", "allocated", "reserved"} {
			now.counts["k8s.resourceclaim.count "+class+" "+state] = 0
		}
	}
	for _, claim := range claims {
		state := "reserved"
		switch {
		case claim.Status.Allocation == nil:
			state = "pending"
		case len(claim.Status.ReservedFor) == 0:
			state = "allocated"
		}
		request := claim.Spec.Devices.Requests[0].Exactly
		if claim.Annotations[resourcev1.ExtendedResourceClaimAnnotation] == "" && request.AdminAccess == nil {
			now.counts["k8s.resourceclaim.count "+request.DeviceClassName+" "+state]++
		}
		if claim.Status.Allocation == nil {
			continue
		}
		for _, r := range claim.Status.Allocation.Devices.Results {
			if _, partition := partitions[r.Device]; partition && r.Pool == c.node && r.AdminAccess == nil {
				allocated[r.Device] = true
			}
		}
	}
	for partition := range partitions {
		switch _, exists := c.instances[partition]; {
		case allocated[partition] && !exists:
			c.seen["instance"]++
			c.instances[partition] = c.next
			c.next++
		case !allocated[partition]:
			delete(c.instances, partition)
		}
	}

	now.holders = map[string][]string{gpu0: {}, gpu2: {}}
	if len(c.instances) == 0 {
		now.holders[gpu1] = []string{}
	}
	for partition := range c.instances {
		now.holders[c.id(partition)] = []string{}
	}
	for _, p := range c.pods() {
		claim := claims[claimOf(&p)]
		if p.Spec.NodeName != c.node || claim == nil || claim.Status.Allocation == nil {
			continue
		}
		r := kube.ContainerResources{Namespace: c.namespace, Pod: p.Name, Container: "main"}
		for _, given := range claim.Status.Allocation.Devices.Results {
			d := kube.ClaimDevice{Namespace: c.namespace, Claim: claim.Name, Driver: given.Driver, Pool: given.Pool, Device: given.Device}
			if given.ShareID != nil {
				d.ShareID = string(*given.ShareID)
				c.seen["share"]++
			}
			r.Claims = append(r.Claims, d)
			now.nvidia = now.nvidia || given.Driver == controlplane.NVIDIADriver
			if given.Driver == controlplane.NVIDIADriver && given.AdminAccess == nil {
				now.holders[c.id(given.Device)] = append(now.holders[c.id(given.Device)], string(p.UID))
				c.seen["holder"]++
			}
		}
		if claim.Annotations[resourcev1.ExtendedResourceClaimAnnotation] != "" {
			c.seen["extended resource"]++
		}
		now.listed = append(now.listed, r)
	}
	for id, uids := range now.holders {
		slices.Sort(uids)
		now.holders[id] = slices.Compact(uids)
	}
	return now
}

// telemetry returns one sample of each device of the node. The exporter labels partitions with their
// DRA devices.
func (c *claimCluster) telemetry() pmetric.Metrics {
	md := pmetric.NewMetrics()
	rm := md.ResourceMetrics().AppendEmpty()
	rm.Resource().Attributes().PutStr(signal.K8sNodeName, c.node)
	m := rm.ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
	m.SetName(signal.GPUEngineActive.Name)
	m.SetUnit(signal.GPUEngineActive.Unit)
	m.SetEmptyGauge()
	add := func(id, vendor string) pcommon.Map {
		dp := m.Gauge().DataPoints().AppendEmpty()
		dp.SetTimestamp(pcommon.NewTimestampFromTime(time.Now()))
		dp.SetDoubleValue(0.5)
		dp.Attributes().PutStr(signal.HardwareID, id)
		dp.Attributes().PutStr(signal.HardwareVendor, vendor)
		return dp.Attributes()
	}
	for _, id := range []string{gpu0, gpu1, gpu2} {
		add(id, signal.VendorNVIDIA)
	}
	add(amdBoard, "AMD")
	for partition, number := range c.instances {
		attributes := add(c.id(partition), signal.VendorNVIDIA)
		attributes.PutStr(signal.HardwareParent, gpu1)
		attributes.PutStr(signal.MIGProfile, fmt.Sprintf("%dg.40gb", partitions[partition]))
		attributes.PutStr(signal.MIGInstanceID, strconv.Itoa(number))
		attributes.PutStr(signal.DRADriver, controlplane.NVIDIADriver)
		attributes.PutStr(signal.DRAPool, c.node)
		attributes.PutStr(signal.DRADevice, partition)
	}
	return md
}

// heldBy returns the pods that hold each device, as the processor reports them. A device with
// unknown holders is missing, and so is a board with instances.
func heldBy(t *testing.T, p processor.Metrics, sink *consumertest.MetricsSink, telemetry pmetric.Metrics) map[string][]string {
	t.Helper()
	sink.Reset()
	require.NoError(t, p.ConsumeMetrics(t.Context(), telemetry))
	held, partitioned := map[string][]string{}, map[string]bool{}
	for _, md := range sink.AllMetrics() {
		for point := range points.All(md) {
			id, _ := point.Attributes().Get(signal.HardwareID)
			uid, inPod := point.Resource.Attributes().Get(signal.K8sPodUID)
			if parent, isInstance := point.Attributes().Get(signal.HardwareParent); isInstance {
				partitioned[parent.Str()] = true
			}
			switch {
			case point.Metric.Name() == signal.GPUSharingClients.Name && held[id.Str()] == nil:
				held[id.Str()] = []string{} // the holders are known
			case point.Metric.Name() == signal.GPUDeviceHolder.Name && inPod:
				held[id.Str()] = append(held[id.Str()], uid.Str())
			}
		}
	}
	for id, uids := range held {
		slices.Sort(uids)
		held[id] = slices.Compact(uids)
		if partitioned[id] {
			delete(held, id)
		}
	}
	return held
}

// Each device has exactly the holders in the scheduler's allocations, with and without a kubelet, and
// with and without permission to read claims. The numbers of claims and devices are those in the API.
func TestDevicesHaveTheHoldersThatARealSchedulerAllocates(t *testing.T) {
	plane := controlplane.Start(t)
	plane.StartScheduler(t)
	namespace := plane.Namespace(t)
	labeled, err := plane.Admin().CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{})
	require.NoError(t, err)
	if labeled.Labels == nil {
		labeled.Labels = map[string]string{}
	}
	labeled.Labels["resource.kubernetes.io/admin-access"] = "true"
	_, err = plane.Admin().CoreV1().Namespaces().Update(t.Context(), labeled, metav1.UpdateOptions{})
	require.NoError(t, err)
	class := controlplane.NVIDIAClass()
	class.Spec.ExtendedResourceName = new(extended)
	plane.Create(t, class)
	for name, expression := range map[string]string{
		migClass:  `device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].type == "mig"`,
		amdDriver: `device.driver == "gpu.amd.com"`,
	} {
		plane.Create(t, &resourcev1.DeviceClass{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}}},
		})
	}
	plane.Apply(t, withNamespace(agent+claims, namespace))
	kubeConfig := plane.ServiceAccountKubeConfig(t, namespace, "agent")
	kubelet := kubelettest.Start(t)
	counted := startReceiver(t, plane.KubeConfig(t), "")
	c := &claimCluster{t: t, plane: plane, namespace: namespace, random: rand.New(rand.NewPCG(34, 1)), seen: map[string]int{}}

	for _, name := range []string{node, node, node + "-renamed"} {
		c.start(name)
		observers := map[string]*claimObserver{
			"kubelet and claims": observe(t, name, kubeConfig, kubelet.Socket(), true),
			"claims":             observe(t, name, kubeConfig, "/nowhere/kubelet.sock", true),
			"kubelet":            observe(t, name, kubeConfig, kubelet.Socket(), false),
		}
		for step := range 20 {
			if c.change(); step == 15 {
				c.evict()
			}
			c.settle()
			for sources, o := range observers {
				var want, got map[string][]string
				if !assert.Eventually(t, func() bool {
					now := c.look() // a pending pod may have been scheduled
					kubelet.Set(now.listed...)
					want = now.holders
					if sources == "kubelet" && !now.nvidia { // it may not support DRA
						want = map[string][]string{}
					}
					got = heldBy(t, o.processor, o.sink, c.telemetry())
					return assert.ObjectsAreEqual(want, got)
				}, patience, poll) {
					require.Equal(t, want, got, "node %s, observed by %s", name, sources)
				}
			}
			require.EventuallyWithT(t, func(collect *assert.CollectT) {
				got := counted.last()
				for what, n := range c.look().counts {
					assert.InDelta(collect, n, got[what], 0, what)
				}
			}, patience, poll)
		}
	}
	for _, what := range []string{"holder", "admin", "share", "instance", "extended resource", "eviction"} {
		assert.Positive(t, c.seen[what], "the history has no %s: %v", what, c.seen)
	}
}

// claimObserver is a running processor.
type claimObserver struct {
	processor processor.Metrics
	sink      *consumertest.MetricsSink
}

func observe(t *testing.T, node, kubeConfig, socket string, claims bool) *claimObserver {
	t.Helper()
	o := &claimObserver{sink: &consumertest.MetricsSink{}}
	o.processor = gpuK8sOn(t, node, newHost(), o.sink, kubeConfig, socket, claims)
	return o
}
