package cluster

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/controlplane"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/dratest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
)

// The cluster has these device classes in addition to the class for NVIDIA's full GPUs. For each of
// the other vendors, there is a device class that has the same name as the vendor's driver.
const (
	migClass    = "mig.nvidia.com"
	fabricClass = "fabric.nvidia.com"
	extended    = "nvidia.com/gpu"

	// attached and broken are the types of conditions that a driver sets on devices behind a
	// fabric. The scheduler binds a pod only after the pod's devices are attached. If a device is
	// broken, the scheduler deallocates it.
	attached = "Attached"
	broken   = "Broken"

	// monitor is the name prefix of pods with administrative access. If gpu_k8s is not permitted to
	// read claims, only the name prefix indicates that pods with administrative access do not hold
	// devices.
	monitor = "nvidia-dcgm-exporter-dra-"
)

// situations lists the situations that must occur at least once in the history.
var situations = []string{
	"NVIDIA", "AMD", "Intel", "share", "partition", "board without partitions", "unknown holders", "several holders",
	"administrative access", "extended resource", "template", "claim of a PodGroup", "stranger", "several pods",
	"outlives its pods", "reserved for a deleted pod", "pending", "restarted pod",
	"waits for its device", "bound after its device was attached", "broken device", "published taint", "NoSchedule", "NoExecute", "None", "eviction",
	"node left", "pod of a previous node",
}

// claimCluster is a cluster in which nodes join and leave, pods with claims are created and
// deleted, and devices are tainted. The test itself acts as the kubelets, the drivers, and the
// controllers.
type claimCluster struct {
	t         *testing.T
	plane     *controlplane.Plane
	namespace string
	random    *rand.Rand
	// deck contains the upcoming events.
	deck []string
	// rules is the number of DeviceTaintRules created so far.
	rules  int
	serial int
	nodes  []*claimNode
	// waited contains the pods that had to wait for their devices.
	waited map[types.UID]bool
	// seen counts how often each situation occurred.
	seen map[string]int
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

// newClaimCluster creates the device classes. Pods in the given namespace may have administrative
// access.
func newClaimCluster(t *testing.T, plane *controlplane.Plane, namespace string) *claimCluster {
	t.Helper()
	_, err := plane.Admin().CoreV1().Namespaces().Patch(t.Context(), namespace, types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"resource.kubernetes.io/admin-access":"true"}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	class := controlplane.NVIDIAClass()
	class.Spec.ExtendedResourceName = new(extended)
	plane.Create(t, class)
	for name, expression := range map[string]string{
		migClass:      `device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].type == "mig"`,
		fabricClass:   `device.driver == "gpu.nvidia.com" && "fabric" in device.attributes["gpu.nvidia.com"]`,
		dratest.AMD:   `device.driver == "gpu.amd.com"`,
		dratest.Intel: `device.driver == "gpu.intel.com"`,
	} {
		plane.Create(t, &resourcev1.DeviceClass{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}}},
		})
	}
	return &claimCluster{
		t: t, plane: plane, namespace: namespace, random: rand.New(rand.NewPCG(34, 1)), waited: map[types.UID]bool{}, seen: map[string]int{},
	}
}

func (c *claimCluster) pods() []corev1.Pod {
	list, err := c.plane.Admin().CoreV1().Pods(c.namespace).List(c.t.Context(), metav1.ListOptions{})
	require.NoError(c.t, err)
	return list.Items
}

// The claims method returns all claims in the namespace, keyed by name.
func (c *claimCluster) claims() map[string]*resourcev1.ResourceClaim {
	list, err := c.plane.Admin().ResourceV1().ResourceClaims(c.namespace).List(c.t.Context(), metav1.ListOptions{})
	require.NoError(c.t, err)
	claims := map[string]*resourcev1.ResourceClaim{}
	for i := range list.Items {
		claims[list.Items[i].Name] = &list.Items[i]
	}
	return claims
}

// claimOf returns the name of a pod's claim, or "" if the pod does not have a claim yet.
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

// groupOf returns the name of a pod's PodGroup, or "" if the pod is not in a PodGroup.
func groupOf(p *corev1.Pod) string {
	if p.Spec.SchedulingGroup == nil {
		return ""
	}
	return *p.Spec.SchedulingGroup.PodGroupName
}

// isReservedFor reports whether a claim is reserved for the given pod or for that pod's PodGroup.
func isReservedFor(claim *resourcev1.ResourceClaim, p *corev1.Pod) bool {
	return slices.ContainsFunc(claim.Status.ReservedFor, func(r resourcev1.ResourceClaimConsumerReference) bool {
		return r.UID == p.UID || r.Resource == "podgroups" && r.Name == groupOf(p)
	})
}

func isExtended(claim *resourcev1.ResourceClaim) bool {
	return claim.Annotations[resourcev1.ExtendedResourceClaimAnnotation] != ""
}

func requestOf(claim *resourcev1.ResourceClaim) *resourcev1.ExactDeviceRequest {
	return claim.Spec.Devices.Requests[0].Exactly
}

// events lists the events that can occur in a history. All entries occur equally often, so an event
// that is listed twice occurs twice as often. The entries after "break" create pods with claims.
var events = []string{
	"delete", "delete", "restart", "rule", "rule", "taint", "collect", "attach", "attach", "break",
	"administrative access", "existing claim", "stranger", "extended resource", "template", "group",
	migClass, migClass, fabricClass, fabricClass, dratest.AMD, dratest.Intel, controlplane.NVIDIADriver, "two devices",
}

// change draws a random event and applies it to the cluster.
func (c *claimCluster) change() {
	if len(c.deck) == 0 {
		c.deck = slices.Clone(events)
		c.random.Shuffle(len(c.deck), func(i, j int) { c.deck[i], c.deck[j] = c.deck[j], c.deck[i] })
	}
	event := c.deck[0]
	c.deck = c.deck[1:]
	pods := c.pods()
	c.serial++
	if len(pods) > 10 || len(pods) > 0 && (event == "delete" || event == "restart") {
		p := &pods[c.random.IntN(len(pods))]
		c.delete(p)
		if event == "restart" && !strings.HasPrefix(p.Name, monitor) {
			c.seen["restarted pod"]++
			c.create(controlplane.NVIDIADriver, p.Name)
		}
	}
	switch event {
	case "delete", "restart":
	case "rule":
		c.changeRules()
	case "taint":
		if n := c.nodes[c.random.IntN(len(c.nodes))]; n.joined {
			n.tainted = !n.tainted
			c.publish(n)
		}
	case "collect":
		c.collect()
	case "attach":
		c.report(attached)
	case "break":
		c.report(broken)
	default:
		c.create(event, fmt.Sprint("p", c.serial))
	}
}

func tolerateAll() []resourcev1.DeviceToleration {
	return []resourcev1.DeviceToleration{{Operator: resourcev1.DeviceTolerationOpExists}}
}

// create creates the pods for an event and, if needed, their claim. If the event is the name of a
// device class, create creates a pod with a claim for a device of that class.
func (c *claimCluster) create(event, name string) {
	pod := boundPod(c.namespace, name, "claim-"+strconv.Itoa(c.serial))
	claim := newClaim(c.namespace, "claim-"+strconv.Itoa(c.serial), event == "administrative access")
	request := requestOf(claim)
	if c.random.IntN(3) == 0 {
		request.Tolerations = tolerateAll()
	}
	switch event {
	case migClass, fabricClass, dratest.AMD, dratest.Intel:
		request.DeviceClassName = event
	case "two devices":
		request.Count = 2
	case "administrative access":
		request.Tolerations = tolerateAll()
		// Exclude devices behind a fabric, because the scheduler does not bind a pod until these
		// devices are attached.
		request.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: `!("fabric" in device.attributes["gpu.nvidia.com"])`}}}
		pod.Name = fmt.Sprintf(monitor+"%05d", c.serial)
	case "existing claim", "stranger":
		if existing := c.existing(event == "stranger"); existing != nil {
			*pod.Spec.ResourceClaims[0].ResourceClaimName = existing.Name
			if event == "stranger" {
				pod.Spec.NodeName = allocation(existing)[0].Pool // bind the pod without the scheduler
			}
			c.plane.Create(c.t, pod)
			return
		}
	case "extended resource": // the scheduler creates the claim
		pod.Spec.ResourceClaims, pod.Spec.Containers[0].Resources.Claims = nil, nil
		pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{extended: resource.MustParse("1")}
		c.plane.Create(c.t, pod)
		return
	case "template": // create the claim, as the claim controller does
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
	case "group":
		group := "group-" + strconv.Itoa(c.serial)
		named := strings.NewReplacer("workers", group, "resourceClaimName: shared", "resourceClaimName: "+claim.Name)
		c.plane.Apply(c.t, named.Replace(withNamespace(podGroup, c.namespace)))
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
		second := pod.DeepCopy()
		second.Name += "-too"
		c.plane.Create(c.t, second)
	}
	c.plane.Create(c.t, claim)
	c.plane.Create(c.t, pod)
}

// The existing method returns a claim that another pod can reference, or nil if there is none. If
// ofGroup is true, the claim is reserved for a PodGroup, and its devices are on a node in the
// cluster. Otherwise, the claim is not reserved for a PodGroup.
func (c *claimCluster) existing(ofGroup bool) *resourcev1.ResourceClaim {
	for _, claim := range c.claims() {
		if isExtended(claim) || requestOf(claim).AdminAccess != nil || len(claim.OwnerReferences) > 0 {
			continue
		}
		reserved := slices.ContainsFunc(claim.Status.ReservedFor, func(r resourcev1.ResourceClaimConsumerReference) bool { return r.Resource == "podgroups" })
		present := slices.ContainsFunc(c.nodes, func(n *claimNode) bool {
			return n.joined && slices.ContainsFunc(allocation(claim), func(r resourcev1.DeviceRequestAllocationResult) bool { return r.Pool == n.name })
		})
		if reserved == ofGroup && (!ofGroup || present) {
			return claim
		}
	}
	return nil
}

// changeRules adds a DeviceTaintRule for one device, or deletes all DeviceTaintRules if there are
// more than two.
func (c *claimCluster) changeRules() {
	rules := c.plane.Admin().ResourceV1beta2().DeviceTaintRules()
	present, err := rules.List(c.t.Context(), metav1.ListOptions{})
	require.NoError(c.t, err)
	if len(present.Items) > 2 {
		for i := range present.Items {
			require.NoError(c.t, rules.Delete(c.t.Context(), present.Items[i].Name, metav1.DeleteOptions{}))
		}
		return
	}
	effects := []resourcev1beta2.DeviceTaintEffect{
		resourcev1beta2.DeviceTaintEffectNone, resourcev1beta2.DeviceTaintEffectNoSchedule, resourcev1beta2.DeviceTaintEffectNoExecute,
	}
	c.rules++
	c.addRule(c.nodes[c.random.IntN(len(c.nodes))].name, fmt.Sprint("gpu-", c.random.IntN(4)), effects[c.rules%len(effects)])
}

// addRule adds a DeviceTaintRule for a device on a node. If the effect is NoExecute, addRule
// deletes the pods that use the device and do not tolerate the taint, as the eviction controller
// does.
func (c *claimCluster) addRule(pool, device string, effect resourcev1beta2.DeviceTaintEffect) {
	c.serial++
	c.seen[string(effect)]++
	c.plane.Create(c.t, &resourcev1beta2.DeviceTaintRule{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("rule-", c.serial)},
		Spec: resourcev1beta2.DeviceTaintRuleSpec{
			DeviceSelector: &resourcev1beta2.DeviceTaintSelector{Pool: &pool, Device: &device},
			Taint:          resourcev1beta2.DeviceTaint{Key: "example.com/broken", Effect: effect},
		},
	})
	if effect != resourcev1beta2.DeviceTaintEffectNoExecute {
		return
	}
	claims, pods := c.claims(), c.pods()
	for i := range pods {
		claim := claims[claimOf(&pods[i])]
		if claim != nil && slices.Contains(intolerant(claim, pool), device) {
			c.delete(&pods[i])
			c.seen["eviction"]++
		}
	}
}

// intolerant returns the devices in the given pool that are allocated to the claim's requests
// without tolerations.
func intolerant(claim *resourcev1.ResourceClaim, pool string) (devices []string) {
	for _, r := range allocation(claim) {
		if r.Pool == pool && len(r.Tolerations) == 0 {
			devices = append(devices, r.Device)
		}
	}
	return devices
}

func allocation(claim *resourcev1.ResourceClaim) []resourcev1.DeviceRequestAllocationResult {
	if claim == nil || claim.Status.Allocation == nil {
		return nil
	}
	return claim.Status.Allocation.Devices.Results
}

// evict adds a DeviceTaintRule with the effect NoExecute for a device that is used by a pod without
// tolerations.
func (c *claimCluster) evict() {
	claims := c.claims()
	for _, p := range c.pods() {
		if devices := intolerant(claims[claimOf(&p)], p.Spec.NodeName); len(devices) > 0 {
			c.addRule(p.Spec.NodeName, devices[0], resourcev1beta2.DeviceTaintEffectNoExecute)
			return
		}
	}
}

// updateClaim changes a claim's status and retries on conflicts, because the scheduler also updates
// the status.
func (c *claimCluster) updateClaim(name string, change func(*resourcev1.ResourceClaim)) {
	claims := c.plane.Admin().ResourceV1().ResourceClaims(c.namespace)
	require.NoError(c.t, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		claim, err := claims.Get(c.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(claim)
		_, err = claims.UpdateStatus(c.t.Context(), claim, metav1.UpdateOptions{})
		return err
	}))
}

// report acts as the driver and sets a condition on devices that pods are waiting for. The attached
// condition is set on the devices of all claims, and the broken condition is set on the devices of
// a single claim.
func (c *claimCluster) report(condition string) {
	for name, claim := range c.claims() {
		if len(claim.Status.Devices) > 0 || !binds(claim) {
			continue
		}
		c.updateClaim(name, func(claim *resourcev1.ResourceClaim) {
			claim.Status.Devices = nil
			for _, r := range allocation(claim) {
				claim.Status.Devices = append(claim.Status.Devices, resourcev1.AllocatedDeviceStatus{
					Driver: r.Driver, Pool: r.Pool, Device: r.Device, ShareID: (*string)(r.ShareID),
					Conditions: []metav1.Condition{{Type: condition, Status: metav1.ConditionTrue, Reason: condition, LastTransitionTime: metav1.Now()}},
				})
			}
		})
		if condition == broken {
			c.seen["broken device"]++
			return
		}
	}
}

// binds reports whether any device that is allocated to a claim has binding conditions.
func binds(claim *resourcev1.ResourceClaim) bool {
	return slices.ContainsFunc(allocation(claim), func(r resourcev1.DeviceRequestAllocationResult) bool { return len(r.BindingConditions) > 0 })
}

// delete removes a pod from the kubelet's list and then deletes the pod. Usually, delete also calls
// collect, which acts as the claim controller. In the remaining cases, collect is called by a later
// event.
func (c *claimCluster) delete(pod *corev1.Pod) {
	for _, n := range c.nodes {
		n.list(slices.DeleteFunc(n.listed, func(r kube.ContainerResources) bool { return r.Pod == pod.Name }))
	}
	require.NoError(c.t, c.plane.Admin().CoreV1().Pods(c.namespace).Delete(c.t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	if c.random.IntN(4) > 0 {
		c.collect()
	}
}

// collect changes claims that no remaining pod references. From these claims, collect removes the
// reservations for deleted pods and for PodGroups without pods, as if these PodGroups had been
// deleted. If the claim was owned by a deleted pod, collect deletes the claim. Otherwise, collect
// makes a random choice: it deletes the claim, deallocates the claim's devices, or keeps the
// allocation.
func (c *claimCluster) collect() {
	consumers, used := map[string]bool{}, map[string]bool{} // consumers contains pod UIDs and PodGroup names; used contains claim names
	for _, p := range c.pods() {
		consumers[string(p.UID)], consumers[groupOf(&p)], used[claimOf(&p)] = true, true, true
	}
	isGone := func(r resourcev1.ResourceClaimConsumerReference) bool {
		return !consumers[string(r.UID)] && !consumers[r.Name]
	}
	claims := c.plane.Admin().ResourceV1().ResourceClaims(c.namespace)
	for name, claim := range c.claims() {
		owned := len(claim.OwnerReferences) > 0
		if used[name] || owned && consumers[string(claim.OwnerReferences[0].UID)] {
			continue
		}
		fate := c.random.IntN(3)
		if owned {
			fate = 0
		}
		c.updateClaim(name, func(claim *resourcev1.ResourceClaim) {
			claim.Status.ReservedFor = slices.DeleteFunc(claim.Status.ReservedFor, isGone)
			if fate < 2 {
				claim.Status.Allocation, claim.Status.Devices = nil, nil
			}
		})
		if fate == 0 {
			_, err := claims.Patch(c.t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			require.NoError(c.t, err)
			require.NoError(c.t, claims.Delete(c.t.Context(), name, metav1.DeleteOptions{}))
		}
	}
}

// settle waits until the scheduler has tried to schedule every pod. When settle returns, each pod
// is bound to a node, is waiting for its devices, or is unschedulable.
func (c *claimCluster) settle() {
	require.Eventually(c.t, func() bool {
		claims := c.claims()
		return !slices.ContainsFunc(c.pods(), func(p corev1.Pod) bool {
			if claim := claims[claimOf(&p)]; p.Spec.NodeName != "" || claim != nil && binds(claim) {
				return false
			}
			return !slices.ContainsFunc(p.Status.Conditions, func(k corev1.PodCondition) bool {
				return k.Type == corev1.PodScheduled && k.Status == corev1.ConditionFalse
			})
		})
	}, patience, poll)
}

// Every second of each device's time is charged to exactly those pods that hold the device
// according to the scheduler's allocations. The charged time is the same with and without a
// kubelet, and with and without permission to read claims. The reported numbers of claims and
// devices equal the numbers in the API server.
func TestDevicesHaveTheHoldersThatARealSchedulerAllocates(t *testing.T) {
	plane := controlplane.Start(t)
	scheduler := plane.StartScheduler(t)
	namespace := plane.Namespace(t)
	plane.Apply(t, withNamespace(agent+claims, namespace))
	c := newClaimCluster(t, plane, namespace)
	kubeConfig := plane.ServiceAccountKubeConfig(t, namespace, "agent")
	counted := startReceiver(t, plane.KubeConfig(t), "")
	first, second := newClaimNode(t, 0), newClaimNode(t, 1)
	c.nodes = []*claimNode{first, second}

	step := func() {
		for range 2 + c.random.IntN(3) {
			c.change()
		}
		c.settle()
		c.check(scheduler, counted)
	}
	c.join(first, node, kubeConfig)
	c.join(second, node+"-2", kubeConfig)
	for range 2 { // check twice while the kubelet lists no devices and might not support DRA
		c.check(scheduler, counted)
	}
	for range 10 {
		step()
	}
	c.evict()
	c.removeNode(second)
	for range 4 {
		step()
	}
	c.join(second, node+"-2", kubeConfig)
	c.removeNode(first)
	c.join(first, node+"-renamed", kubeConfig)
	// The scheduler's decisions determine when each situation occurs, so run more steps until all
	// situations have occurred.
	for n := 0; n < 10 || n < 60 && len(c.missing()) > 0; n++ {
		step()
	}
	assert.Empty(t, c.missing(), "%v", c.seen)
	for what := range c.seen {
		assert.Contains(t, situations, what)
	}
}

// missing returns the situations that have not yet occurred.
func (c *claimCluster) missing() []string {
	return slices.DeleteFunc(slices.Clone(situations), func(what string) bool { return c.seen[what] > 0 })
}

// check pauses the scheduler and compares each observer's output with the objects in the API
// server. check also charges the time since the previous check.
func (c *claimCluster) check(scheduler *processtest.Process, counted *replica) {
	require.NoError(c.t, scheduler.Cmd.Process.Signal(syscall.SIGSTOP))
	defer func() { require.NoError(c.t, scheduler.Cmd.Process.Signal(syscall.SIGCONT)) }()
	observe := func() map[string]float64 {
		truth := c.observe() // reread on every attempt, because the API server may still be processing requests from the scheduler
		for _, n := range c.nodes {
			n.list(n.listed)
		}
		return truth
	}
	for _, n := range c.nodes {
		for sources, o := range n.observers {
			var want, got map[string][]dratest.Holder
			if !assert.Eventually(c.t, func() bool {
				observe()
				// The samples have a different cluster name, so they do not affect the time charged
				// for this cluster's boards.
				want, got = holdersIn(n.verdicts(sources)), holders(o.process(c.t, n.telemetry("probe", time.Now())))
				return assert.ObjectsAreEqual(want, got)
			}, patience, poll) {
				require.Equal(c.t, want, got, "node %s, observed by %s", n.name, sources)
			}
		}
	}
	require.EventuallyWithT(c.t, func(collect *assert.CollectT) { assert.Equal(collect, observe(), counts(counted.last())) }, patience, poll)
	for _, n := range c.nodes {
		for sources, o := range n.observers {
			o.charge(c.t, n, n.verdicts(sources), sources)
		}
	}
}
