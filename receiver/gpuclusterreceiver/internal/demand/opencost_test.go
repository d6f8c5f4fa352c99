package demand

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

const (
	gpu    = "nvidia.com/gpu"
	shared = "nvidia.com/gpu.shared"
)

// The requests function returns a pod whose regular containers request the given number of units of
// a resource.
func requests(phase corev1.PodPhase, resource string, units int64) *Pod {
	p := &Pod{Phase: phase, Requests: []Request{{Resource: resource, Effective: units, Regular: float64(units)}}}
	if phase == corev1.PodRunning {
		p.Node = "a"
	}
	return p
}

func has(resource string, units int64) *Node { return nodeOf("", true, resource, units) }

func cordonedNode(n *Node) *Node {
	n.Spec.Unschedulable = true
	return n
}

// Some test cases come from OpenCost's own tests. The other test cases are derived from OpenCost's
// code.
func TestOpenCostMetricsFollowOpenCostsDefinition(t *testing.T) {
	type want struct{ pods, units, ratio map[string]float64 }
	of := func(resource string, v float64) map[string]float64 { return map[string]float64{resource: v} }
	none := map[string]float64{}
	for name, tt := range map[string]struct {
		pods  []*Pod
		nodes []*Node
		want  want
	}{
		"pending and running pods request, terminal ones do not, all nodes have": {
			[]*Pod{requests(corev1.PodPending, gpu, 2), requests(corev1.PodPending, gpu, 1), requests(corev1.PodRunning, gpu, 4), requests(corev1.PodSucceeded, gpu, 8)},
			[]*Node{has(gpu, 4), has(gpu, 4)},
			want{of(gpu, 2), of(gpu, 3), of(gpu, 0.875)},
		},
		"replicas of shared GPUs are a resource of their own": {
			[]*Pod{requests(corev1.PodPending, shared, 3), requests(corev1.PodRunning, shared, 5), requests(corev1.PodSucceeded, shared, 8)},
			[]*Node{has(shared, 8)},
			want{of(shared, 1), of(shared, 3), of(shared, 1)},
		},
		"without nodes there is no ratio": {
			[]*Pod{requests(corev1.PodPending, gpu, 1)},
			nil,
			want{of(gpu, 1), of(gpu, 1), none},
		},
		"an empty cluster says nothing": {nil, nil, want{none, none, none}},
		"allocatable that nobody requests gives zeros": {
			nil,
			[]*Node{has(gpu, 8)},
			want{of(gpu, 0), of(gpu, 0), of(gpu, 0)},
		},
		"allocatable of zero gives zeros and no ratio": {
			nil,
			[]*Node{has(gpu, 0)},
			want{of(gpu, 0), of(gpu, 0), none},
		},
		"cordoned nodes and those that are not ready count": {
			[]*Pod{requests(corev1.PodRunning, gpu, 4)},
			[]*Node{cordonedNode(has(gpu, 4)), nodeOf("", false, gpu, 4)},
			want{of(gpu, 0), of(gpu, 0), of(gpu, 0.5)},
		},
		"the phase alone decides: bound, gated and terminating pods are pending": {
			[]*Pod{
				{Phase: corev1.PodPending, Node: "a", Requests: []Request{{gpu, 1, 1}}},
				{Phase: corev1.PodPending, Gated: true, Requests: []Request{{gpu, 1, 1}}},
				{Phase: corev1.PodPending, Terminating: true, Requests: []Request{{gpu, 1, 1}}},
			},
			nil,
			want{of(gpu, 3), of(gpu, 3), none},
		},
		"pods in an unknown phase are not counted": {
			[]*Pod{{Phase: corev1.PodUnknown, Node: "a", Requests: []Request{{gpu, 1, 1}}}},
			nil,
			want{none, none, none},
		},
		"what init containers and sidecars need is not counted": {
			[]*Pod{{Phase: corev1.PodPending, Requests: []Request{{gpu, 4, 0}}}},
			nil,
			want{none, none, none},
		},
		"a pod counts for each resource that it requests": {
			[]*Pod{{Phase: corev1.PodPending, Requests: []Request{{gpu, 1, 1}, {"nvidia.com/mig-1g.5gb.shared", 2, 2}}}},
			nil,
			want{
				map[string]float64{gpu: 1, "nvidia.com/mig-1g.5gb.shared": 1},
				map[string]float64{gpu: 1, "nvidia.com/mig-1g.5gb.shared": 2},
				none,
			},
		},
		"other vendors and renamed resources are not counted": {
			[]*Pod{requests(corev1.PodPending, "amd.com/gpu", 1), requests(corev1.PodPending, "nvidia.com/gpu-misc", 1)},
			[]*Node{has("amd.com/gpu", 8)},
			want{none, none, none},
		},
		"a ratio above one is meaningful": {
			[]*Pod{requests(corev1.PodPending, gpu, 16), requests(corev1.PodRunning, gpu, 8)},
			[]*Node{has(gpu, 8)},
			want{of(gpu, 1), of(gpu, 16), of(gpu, 3)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := New(options())
			for i, p := range tt.pods {
				p.Name = fmt.Sprint(i)
				c.SetPod(p)
			}
			for i, n := range tt.nodes {
				n.Name = fmt.Sprint(i)
				c.SetNode(n)
			}
			assert.Equal(t, tt.want, want{
				values(c, everything, signal.ClusterPendingPodCount),
				values(c, everything, signal.ClusterPendingRequestTotal),
				values(c, everything, signal.ClusterRequestedAllocatableRatio),
			})
		})
	}
}
