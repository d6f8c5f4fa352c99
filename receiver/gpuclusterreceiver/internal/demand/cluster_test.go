package demand

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// metricsOf returns the set of metrics that have at least one point.
func metricsOf(points []Point) map[*signal.Metric]bool {
	seen := map[*signal.Metric]bool{}
	for _, p := range points {
		seen[p.Metric] = true
	}
	return seen
}

// The busy function returns a cluster in which every metric has at least one point.
func busy() *Cluster {
	opts := options()
	opts.Rules = []string{"gpu_zero"}
	c := New(opts)
	node := nodeOf("a", true, gpu, 8)
	node.Conditions = []Condition{{"XidCriticalError", "false"}}
	c.SetNode(node)
	c.SetPod(&Pod{Name: "waiting", UID: "u1", Phase: corev1.PodPending, Created: now.Unix() - 60, Requests: []Request{{gpu, 1, 1}}})
	c.SetPod(&Pod{Name: "holder", UID: "u3", Node: "a", Phase: corev1.PodRunning, Health: []Health{{Container: "main", Resource: gpu, ID: "GPU-0", State: "healthy"}}})
	c.SetPod(&Pod{Name: "by-template", UID: "u2", Phase: corev1.PodPending, TemplateClaims: []TemplateClaim{{Name: "gpus", Template: "two"}}})
	spec := resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{
		{Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu.nvidia.com", Count: 2}},
	}}}
	template := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: "two"}}
	template.Spec.Spec = spec
	c.SetTemplate(template)
	c.SetClass(&resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu.nvidia.com"}})
	s := sliceOf("s", "gpu.nvidia.com", "a", 0, 1, Device{
		Name: "gpu-0", Type: "gpu", UUID: "GPU-0", Taints: []Taint{{Key: "gpu.nvidia.com/xid", Value: "79"}}, Capacity: []Capacity{{"memory", 80 << 30}},
	})
	s.Spec.NodeName = new("a")
	c.SetSlice(s)
	held := allocatedClaim("held", resourcev1.DeviceRequestAllocationResult{Request: "gpu", Driver: "gpu.nvidia.com", Pool: "a", Device: "gpu-0"})
	held.UID, held.Spec = "c1", spec
	held.Status.Devices = []resourcev1.AllocatedDeviceStatus{{
		Driver: "gpu.nvidia.com", Pool: "a", Device: "gpu-0", Conditions: []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue}},
	}}
	held.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "holder", UID: "u3"}}
	c.SetClaim(held)
	return c
}

// nodeOf returns a node that provides the given amount of a resource.
func nodeOf(name string, ready bool, resourceName string, amount int64) *Node {
	amounts := corev1.ResourceList{corev1.ResourceName(resourceName): *resource.NewQuantity(amount, resource.DecimalSI)}
	n := &Node{Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}}
	n.Status.Allocatable, n.Status.Capacity = amounts, amounts
	if ready {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	}
	return n
}

func sliceOf(name, driver, pool string, generation, count int64, devices ...Device) *Slice {
	s := &Slice{ResourceSlice: &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}}, Devices: devices}
	s.Spec.Driver, s.Spec.Pool = driver, resourcev1.ResourcePool{Name: pool, Generation: generation, ResourceSliceCount: count}
	for _, d := range devices {
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: d.Name})
	}
	return s
}

func allocatedClaim(name string, results ...resourcev1.DeviceRequestAllocationResult) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: results}}
	return c
}

// Missing fields must not cause an error.
func TestEmptyObjectsHaveNoPoints(t *testing.T) {
	c := New(options())
	c.SetNode(&Node{Node: &corev1.Node{}})
	c.SetClaim(&resourcev1.ResourceClaim{Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{}}}}})
	c.SetTemplate(&resourcev1.ResourceClaimTemplate{})
	c.SetClass(&resourcev1.DeviceClass{Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{{}}}})
	c.SetPod(&Pod{Name: "waiting", Phase: corev1.PodPending, TemplateClaims: []TemplateClaim{{}}})
	points, stats := c.Points(now, everything, nil)
	assert.NotContains(t, metricsOf(points), signal.K8sResourceClaimCount)
	assert.Zero(t, stats)
}

func TestABusyClusterHasEveryMetric(t *testing.T) {
	points, _ := busy().Points(now, everything, nil)
	seen := metricsOf(points)
	for _, m := range signal.All() {
		if m.Stage == signal.StageCluster {
			assert.True(t, seen[m], m.Name)
		}
	}
}

// A value that is unknown must not be emitted as zero. If the objects of a kind cannot be read, the
// metrics that depend on this kind must be absent, and all other metrics must be emitted.
func TestUnobservedKindsHaveNoPoints(t *testing.T) {
	pods := []*signal.Metric{
		signal.ClusterPendingPodCount, signal.ClusterPendingRequestTotal, signal.K8sGPUPods, signal.K8sGPURequested,
		signal.K8sGPUPendingOldestAge, signal.K8sGPURequestInvalid, signal.K8sPodGPUHealth,
	}
	nodes := []*signal.Metric{signal.K8sGPUAllocatable, signal.K8sGPUCapacity, signal.K8sNodeGPUCondition}
	devices := []*signal.Metric{signal.K8sResourceSliceDevices, signal.K8sResourceSliceCapacity, signal.K8sResourceSliceDevice, signal.K8sResourceSliceDeviceTaint}
	claims := []*signal.Metric{signal.K8sResourceClaimCount, signal.K8sResourceClaimRequested, signal.K8sResourceClaimDevice, signal.K8sResourceClaimDeviceCondition}
	status := []*signal.Metric{signal.K8sResourceSlicePoolDevices} // This metric depends on slices, claims, and taint rules.
	ratio := []*signal.Metric{signal.ClusterRequestedAllocatableRatio}

	for name, tt := range map[string]struct {
		seen   Observed
		absent [][]*signal.Metric
	}{
		"pods":      {Observed{Nodes: true, Slices: true, Claims: true, Templates: true, TaintRules: true}, [][]*signal.Metric{pods, ratio}},
		"nodes":     {Observed{Pods: true, Slices: true, Claims: true, Templates: true, TaintRules: true}, [][]*signal.Metric{nodes, ratio}},
		"slices":    {Observed{Pods: true, Nodes: true, Claims: true, Templates: true, TaintRules: true}, [][]*signal.Metric{devices, status}},
		"claims":    {Observed{Pods: true, Nodes: true, Slices: true, Templates: true, TaintRules: true}, [][]*signal.Metric{claims, status}},
		"templates": {Observed{Pods: true, Nodes: true, Slices: true, Claims: true, TaintRules: true}, nil},
		"rules":     {Observed{Pods: true, Nodes: true, Slices: true, Claims: true, Templates: true}, [][]*signal.Metric{status}},
		"all":       {Observed{}, [][]*signal.Metric{pods, nodes, devices, claims, status, ratio}},
	} {
		t.Run(name, func(t *testing.T) {
			absent := map[*signal.Metric]bool{}
			for _, group := range tt.absent {
				for _, m := range group {
					absent[m] = true
				}
			}
			got := map[*signal.Metric]bool{}
			points, _ := busy().Points(now, tt.seen, nil)
			for _, p := range points {
				got[p.Metric] = true
			}
			for _, m := range signal.All() {
				if m.Stage == signal.StageCluster {
					assert.Equal(t, !absent[m], got[m], m.Name)
				}
			}
		})
	}
}

func TestWithoutTemplatesOnlyClaimsCount(t *testing.T) {
	c := busy()
	pending := "gpu.nvidia.com pending"
	assert.InDelta(t, 2, values(c, everything, signal.K8sResourceClaimRequested)[pending], 0)
	seen := everything
	seen.Templates = false
	assert.InDelta(t, 0, values(c, seen, signal.K8sResourceClaimRequested)[pending], 0)
}

// The ResourceClaim controller first creates the claim of a PodGroup, and later writes the name of
// the claim to the status of each pod.
func TestAPodGroupsClaimFromATemplateCountsOnce(t *testing.T) {
	ownedBy := func(apiVersion string) *resourcev1.ResourceClaim {
		claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "workers-gpus-x",
			Annotations:     map[string]string{resourcev1.PodResourceClaimAnnotation: "gpus"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: apiVersion, Kind: "PodGroup", Name: "workers", UID: "g1", Controller: new(true)}},
		}}
		claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu.nvidia.com", Count: 2}}}
		return claim
	}
	for owner, want := range map[*resourcev1.ResourceClaim]float64{
		// One claim exists for the group, and the pod outside the group waits for another claim.
		ownedBy("scheduling.k8s.io/v1alpha2"): 1 + 1,
		// The claim belongs to another kind of PodGroup, so each of the three pods waits for a
		// claim.
		ownedBy("scheduling.volcano.sh/v1beta1"):        1 + 3,
		{ObjectMeta: metav1.ObjectMeta{Name: "absent"}}: 3,
	} {
		c := New(options())
		template := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "two"}}
		template.Spec.Spec = ownedBy("").Spec
		c.SetTemplate(template)
		for name, group := range map[string]string{"w0": "workers", "w1": "workers", "other": "others"} {
			c.SetPod(&Pod{
				Namespace: "ns", Name: name, UID: name, Phase: corev1.PodPending, Group: group,
				TemplateClaims: []TemplateClaim{{Name: "gpus", Template: "two"}},
			})
		}
		c.SetClaim(owner)
		assert.InDelta(t, want, values(c, everything, signal.K8sResourceClaimCount)["gpu.nvidia.com pending"], 0)
		assert.InDelta(t, 2*want, values(c, everything, signal.K8sResourceClaimRequested)["gpu.nvidia.com pending"], 0)
		c.DeleteClaim(owner.Namespace, owner.Name)
		assert.InDelta(t, 3, values(c, everything, signal.K8sResourceClaimCount)["gpu.nvidia.com pending"], 0)
	}
}

func TestATaintRuleAppliesToTheDevicesThatItsSelectorMatches(t *testing.T) {
	for name, tt := range map[string]struct {
		selector *resourcev1.DeviceTaintSelector
		want     float64 // the expected number of unavailable devices
	}{
		"no selector":      {nil, 0},
		"an empty one":     {&resourcev1.DeviceTaintSelector{}, 3},
		"a driver":         {&resourcev1.DeviceTaintSelector{Driver: new("gpu.nvidia.com")}, 3},
		"another driver":   {&resourcev1.DeviceTaintSelector{Driver: new("gpu.amd.com")}, 0},
		"a pool":           {&resourcev1.DeviceTaintSelector{Pool: new("a")}, 2},
		"a device":         {&resourcev1.DeviceTaintSelector{Device: new("gpu-0")}, 2},
		"one of a pool":    {&resourcev1.DeviceTaintSelector{Pool: new("a"), Device: new("gpu-0")}, 1},
		"another's device": {&resourcev1.DeviceTaintSelector{Pool: new("b"), Device: new("gpu-1")}, 0},
	} {
		c := New(options())
		c.SetSlice(sliceOf("s-a", "gpu.nvidia.com", "a", 1, 1, Device{Name: "gpu-0"}, Device{Name: "gpu-1"}))
		c.SetSlice(sliceOf("s-b", "gpu.nvidia.com", "b", 1, 1, Device{Name: "gpu-0"}))
		unavailable := func() (n float64) {
			v := values(c, everything, signal.K8sResourceSlicePoolDevices)
			return v["gpu.nvidia.com a unavailable"] + v["gpu.nvidia.com b unavailable"]
		}
		assert.Zero(t, unavailable(), name)
		rule := &resourcev1.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "rule"}}
		rule.Spec.DeviceSelector, rule.Spec.Taint = tt.selector, resourcev1.DeviceTaint{Key: "broken", Effect: resourcev1.DeviceTaintEffectNoExecute}
		c.SetTaintRule(rule)
		assert.InDelta(t, tt.want, unavailable(), 0, name)
		c.DeleteTaintRule("rule")
		assert.Zero(t, unavailable(), name)
	}
}

func TestWithoutSlicesAClaimsDeviceHasNoIdentity(t *testing.T) {
	identified := func(seen Observed) bool {
		points, stats := busy().Points(now, seen, nil)
		assert.Zero(t, stats.UnknownDevices, "devices do not count as unknown if slices cannot be read")
		for _, p := range points {
			if p.Metric == signal.K8sResourceClaimDevice {
				return slices.Contains(p.Attributes, Attribute{signal.HardwareID, "GPU-0"})
			}
		}
		return false
	}
	assert.True(t, identified(everything))
	seen := everything
	seen.Slices = false
	assert.False(t, identified(seen))
}

func TestADisabledMetricIsTheOnlyOneMissing(t *testing.T) {
	for _, m := range signal.All() {
		if m.Stage != signal.StageCluster {
			continue
		}
		c := busy()
		c.opts.Disabled = map[*signal.Metric]bool{m: true}
		points, _ := c.Points(now, everything, nil)
		all, _ := busy().Points(now, everything, nil)
		missing := 0
		for _, p := range all {
			if p.Metric == m {
				missing++
			}
		}
		for _, p := range points {
			require.NotEqual(t, m, p.Metric)
		}
		assert.Len(t, points, len(all)-missing, m.Name)
	}
}

func TestStatsCountDroppedItems(t *testing.T) {
	c := New(options())
	c.SetSlice(sliceOf("s1", "gpu.nvidia.com", "half", 1, 2))
	c.SetSlice(sliceOf("s2", "gpu.nvidia.com", "whole", 1, 1))
	c.SetSlice(sliceOf("s3", "other.example.com", "half", 1, 2))
	all := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "all"}}
	all.Spec.Devices.Requests = []resourcev1.DeviceRequest{{
		Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu.nvidia.com", AllocationMode: resourcev1.DeviceAllocationModeAll},
	}}
	c.SetClaim(all)
	c.SetClaim(allocatedClaim("held",
		resourcev1.DeviceRequestAllocationResult{Driver: "gpu.nvidia.com", Pool: "half", Device: "gpu-0"},
		resourcev1.DeviceRequestAllocationResult{Driver: "gpu.nvidia.com", Pool: "gone", Device: "gpu-0"},
		resourcev1.DeviceRequestAllocationResult{Driver: "other.example.com", Pool: "half", Device: "gpu-0"},
	))
	_, stats := c.Points(now, everything, nil)
	assert.Equal(t, Stats{
		AllModeRequests: 1, IncompletePools: 1, IncompletePool: "gpu.nvidia.com/half", UnknownDevices: 2, UnknownDevice: "gpu.nvidia.com/gone/gpu-0",
	}, stats)
}

// While a driver replaces the slices of a pool, the pool is incomplete, regardless of the order in
// which the changes arrive.
func TestAPoolIsCompleteIfItsNewestGenerationIsComplete(t *testing.T) {
	c := New(options())
	slice := func(name string, generation, count int64, device string) *Slice {
		return sliceOf(name, "gpu.nvidia.com", "a", generation, count, Device{Name: device})
	}
	devices := func() []string {
		var out []string
		points, _ := c.Points(now, everything, nil)
		for _, p := range points {
			if p.Metric == signal.K8sResourceSliceDevice {
				out = append(out, p.Attributes[2].Value)
			}
		}
		return out
	}
	c.SetSlice(slice("s1", 1, 2, "gpu-0"))
	assert.Empty(t, devices())
	c.SetSlice(slice("s2", 1, 2, "gpu-1"))
	assert.Equal(t, []string{"gpu-0", "gpu-1"}, devices())
	c.SetSlice(slice("s1", 2, 2, "gpu-2"))
	assert.Empty(t, devices())
	c.SetSlice(slice("s2", 2, 2, "gpu-3"))
	assert.Equal(t, []string{"gpu-2", "gpu-3"}, devices())
	c.SetSlice(slice("s3", 3, 1, "gpu-4"))
	assert.Equal(t, []string{"gpu-4"}, devices(), "the old generation is on its way out")
	c.DeleteSlice("s1")
	c.DeleteSlice("s2")
	c.DeleteSlice("s2")
	assert.Equal(t, []string{"gpu-4"}, devices())
	c.DeleteSlice("s3")
	assert.Empty(t, devices())
	assert.Empty(t, c.pools, "a pool without slices has no points")
}

// If slices of the same generation disagree about the number of slices, the pool is incomplete.
func TestAPoolWithContradictorySlicesIsIncomplete(t *testing.T) {
	c := New(options())
	c.SetSlice(sliceOf("s1", "gpu.nvidia.com", "a", 1, 2, Device{Name: "gpu-0"}))
	c.SetSlice(sliceOf("s2", "gpu.nvidia.com", "a", 1, 3, Device{Name: "gpu-1"}))
	_, stats := c.Points(now, everything, nil)
	assert.EqualValues(t, 1, stats.IncompletePools)
}

// If a device consumes counters from two counter sets, both counter sets are treated as the same
// hardware.
func TestCounterSetsJoinedByADeviceAreOneBoard(t *testing.T) {
	c := New(options())
	memory := func(name string, gib float64, sets ...string) Device {
		return Device{Name: name, Type: "gpu", Capacity: []Capacity{{"memory", gib}}, CounterSets: sets}
	}
	c.SetSlice(sliceOf("s", "gpu.nvidia.com", "a", 0, 1, []Device{
		memory("both", 160, "left", "right"),
		memory("left", 80, "left"),
		memory("right", 80, "right"),
		memory("third", 80, "third"),
		memory("alone", 80),
	}...))
	assert.Equal(t, map[string]float64{"gpu.nvidia.com a gpu memory": 320}, values(c, everything, signal.K8sResourceSliceCapacity))
}

func TestSumsDoNotOverflow(t *testing.T) {
	c := New(options())
	for _, n := range []string{"a", "b"} {
		c.SetPod(&Pod{Name: n, Phase: corev1.PodPending, Requests: []Request{{gpu, math.MaxInt64, 1e30}}})
	}
	assert.InDelta(t, float64(math.MaxInt64), values(c, everything, signal.K8sGPURequested)[gpu+" queued"], 0)
	assert.InDelta(t, float64(math.MaxInt64), values(c, everything, signal.ClusterPendingRequestTotal)[gpu], 0)
}

func TestSlowClockCausesNoNegativeAge(t *testing.T) {
	c := New(options())
	c.SetPod(&Pod{Name: "early", Phase: corev1.PodPending, Created: now.Unix() + 60, Requests: []Request{{gpu, 1, 1}}})
	assert.Equal(t, map[string]float64{gpu: 0}, values(c, everything, signal.K8sGPUPendingOldestAge))
}

// A new pod replaces an earlier pod with the same name.
func TestReusedPodNameIsOnePod(t *testing.T) {
	c := New(options())
	c.SetPod(&Pod{Name: "job", UID: "u1", Phase: corev1.PodRunning, Node: "a", Requests: []Request{{gpu, 1, 1}}})
	c.SetPod(&Pod{Name: "job", UID: "u2", Phase: corev1.PodPending, Requests: []Request{{gpu, 4, 4}}})
	got := values(c, everything, signal.K8sGPURequested)
	assert.InDelta(t, 0, got[gpu+" running"], 0)
	assert.InDelta(t, 4, got[gpu+" queued"], 0)
}
