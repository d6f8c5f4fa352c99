package demand

import (
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// podState is the state of a pod. Each pod is in exactly one state.
type podState uint8

const (
	gated podState = iota
	unschedulable
	queued
	binding
	running
	numPodStates

	// inactive is the state of a pod that neither holds a resource nor waits for one.
	inactive = numPodStates
)

var podStates = [numPodStates]Attribute{
	gated:         {signal.State, "gated"},
	unschedulable: {signal.State, "unschedulable"},
	queued:        {signal.State, "queued"},
	binding:       {signal.State, "binding"},
	running:       {signal.State, "running"},
}

// The state method returns the state of the pod. A terminating pod that is bound to a node still
// holds its resources. A terminating pod that is not bound to a node no longer waits for resources.
func (p *Pod) state() podState {
	switch {
	case p.Node != "" && p.Phase == corev1.PodRunning:
		return running
	case p.Node != "":
		return binding
	case p.Terminating:
		return inactive
	case p.Gated:
		return gated
	case p.Unschedulable:
		return unschedulable
	}
	return queued
}

// isIrrelevant reports whether the pod affects no metric. A pod that has ended is irrelevant. A pod
// is also irrelevant if it requests no extended resources, references no claims, waits for no
// claims to be created, has no devices with reported health, and violates no rules of the GPU share
// API.
func (p *Pod) isIrrelevant() bool {
	if p.Ended() {
		return true
	}
	waitsForTemplateClaim := p.state().waiting() && slices.ContainsFunc(p.TemplateClaims, func(t TemplateClaim) bool { return !t.Made })
	return len(p.Requests) == 0 && len(p.BrokenRules) == 0 && len(p.Health) == 0 && len(p.Claims) == 0 && !waitsForTemplateClaim
}

// The waiting method reports whether pods in this state are still waiting for the scheduler to find
// a node.
func (s podState) waiting() bool { return s == gated || s == unschedulable || s == queued }

// The tally type contains the numbers of pods and requested units for one resource.
type tally struct {
	pods, units [numPodStates]int64 // Units are not emitted for resources that are amounts, such as MiB of memory.
	oldest      int64               // The creation time of the oldest waiting pod, or 0.

	// The following fields are computed according to OpenCost's definitions.
	openCost       bool // Whether OpenCost counts the resource.
	pendingPods    int64
	pendingUnits   float64
	requestedUnits float64
	allocatable    float64
}

// openCostCounts reports whether OpenCost counts a resource.
func openCostCounts(resource string) bool {
	return resource == "nvidia.com/gpu" || resource == "nvidia.com/gpu.shared" || strings.HasPrefix(resource, "nvidia.com/mig-")
}

// addPods emits the metrics for the requests of pods, including the metrics that OpenCost defines.
func (e *emission) addPods() {
	tallies := map[string]*tally{}
	tallyOf := func(resource string) *tally {
		t, ok := tallies[resource]
		if !ok {
			t = &tally{}
			tallies[resource] = t
		}
		return t
	}
	if e.observed.Nodes {
		for _, n := range e.nodes {
			for name, q := range n.Status.Allocatable {
				if openCostCounts(string(name)) {
					t := tallyOf(string(name))
					t.openCost = true
					t.allocatable += float64(gpushare.Units(q))
				}
			}
			for _, amounts := range []corev1.ResourceList{n.Status.Allocatable, n.Status.Capacity} {
				for name := range amounts {
					if e.isGPU(string(name)) {
						tallyOf(string(name))
					}
				}
			}
		}
	}
	for _, p := range e.pods {
		state := p.state()
		for _, r := range p.Requests {
			if openCostCounts(r.Resource) && r.Regular > 0 && (p.Phase == corev1.PodPending || p.Phase == corev1.PodRunning) {
				tallyOf(r.Resource).countOpenCost(p.Phase, r.Regular)
			}
			if r.Effective > 0 && state != inactive && e.isGPU(r.Resource) {
				tallyOf(r.Resource).count(state, r.Effective, p.Created)
			}
		}
	}

	resources := slices.Sorted(maps.Keys(tallies))
	for _, resource := range resources {
		if t := tallies[resource]; t.openCost {
			e.int(signal.ClusterPendingPodCount, Place{}, t.pendingPods, Attribute{signal.Resource, resource})
		}
	}
	for _, resource := range resources {
		if t := tallies[resource]; t.openCost {
			e.int(signal.ClusterPendingRequestTotal, Place{}, toInt64(t.pendingUnits), Attribute{signal.Resource, resource})
		}
	}
	for _, resource := range resources {
		if t := tallies[resource]; t.openCost && t.allocatable > 0 {
			e.double(signal.ClusterRequestedAllocatableRatio, Place{}, t.requestedUnits/t.allocatable, Attribute{signal.Resource, resource})
		}
	}
	for _, resource := range resources {
		for s, n := range tallies[resource].pods {
			e.int(signal.K8sGPUPods, Place{}, n, Attribute{signal.Resource, resource}, podStates[s])
		}
	}
	for _, resource := range resources {
		if gpushare.IsAmount(resource) {
			continue
		}
		for s, n := range tallies[resource].units {
			e.int(signal.K8sGPURequested, Place{}, n, Attribute{signal.Resource, resource}, podStates[s])
		}
	}
	for _, resource := range resources {
		if t := tallies[resource]; t.oldest > 0 {
			age := max(0, e.now.Unix()-t.oldest)
			e.double(signal.K8sGPUPendingOldestAge, Place{}, float64(age), Attribute{signal.Resource, resource})
		}
	}
}

// toInt64 converts a sum, which OpenCost computes as a float, to an integer metric value.
func toInt64(units float64) int64 {
	if units >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(units)
}

func (t *tally) countOpenCost(phase corev1.PodPhase, units float64) {
	t.openCost = true
	t.requestedUnits += units
	if phase == corev1.PodPending {
		t.pendingPods++
		t.pendingUnits += units
	}
}

func (t *tally) count(state podState, units, created int64) {
	t.pods[state]++
	t.units[state] = add(t.units[state], units)
	if state.waiting() && created > 0 && (t.oldest == 0 || created < t.oldest) {
		t.oldest = created
	}
}

// addBrokenRules emits the number of pods that violate each rule of the GPU share API.
func (e *emission) addBrokenRules() {
	broken := make(map[string]int64, len(e.opts.Rules))
	for _, rule := range e.opts.Rules {
		broken[rule] = 0
	}
	for _, p := range e.pods {
		for _, rule := range p.BrokenRules {
			broken[rule]++
		}
	}
	for _, rule := range slices.Sorted(maps.Keys(broken)) {
		e.int(signal.K8sGPURequestInvalid, Place{}, broken[rule], Attribute{signal.Rule, rule})
	}
}

// These are the states of a node. A node that is both not ready and cordoned is in the not_ready
// state.
var (
	schedulable = Attribute{signal.State, "schedulable"}
	cordoned    = Attribute{signal.State, "cordoned"}
	notReady    = Attribute{signal.State, "not_ready"}
)

func (n *Node) state() Attribute {
	ready := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	switch {
	case !ready:
		return notReady
	case n.Spec.Unschedulable:
		return cordoned
	}
	return schedulable
}

// addNodes emits the GPU resources and the conditions of each node. For each GPU resource, addNodes
// emits one point for every possible state of a node, not only for the current state. Therefore, no
// outdated point remains when the state changes.
func (e *emission) addNodes() {
	attributes := map[string][][]Attribute{} // keyed by resource, with one element for each state
	states := []Attribute{schedulable, cordoned, notReady}
	addAmounts := func(m *signal.Metric, n *Node, amounts corev1.ResourceList) {
		if e.opts.Disabled[m] {
			return
		}
		current := n.state()
		for _, name := range slices.Sorted(maps.Keys(amounts)) {
			resource := string(name)
			if !e.isGPU(resource) || gpushare.IsAmount(resource) {
				continue
			}
			attrs, ok := attributes[resource]
			if !ok {
				for _, s := range states {
					attrs = append(attrs, []Attribute{{signal.Resource, resource}, s})
				}
				attributes[resource] = attrs
			}
			for i, s := range states {
				value := int64(0)
				if s == current {
					value = gpushare.Units(amounts[name])
				}
				e.int(m, Place{Node: n.Name}, value, attrs[i]...)
			}
		}
	}
	for _, n := range e.nodes {
		addAmounts(signal.K8sGPUAllocatable, n, n.Status.Allocatable)
		addAmounts(signal.K8sGPUCapacity, n, n.Status.Capacity)
		e.addConditions(n)
	}
}

// addConditions emits the current status of each condition of a node.
func (e *emission) addConditions(n *Node) {
	if e.opts.Disabled[signal.K8sNodeGPUCondition] {
		return
	}
	for _, c := range n.Conditions {
		e.int(signal.K8sNodeGPUCondition, Place{Node: n.Name}, 1,
			Attribute{signal.NodeConditionType, c.Type}, Attribute{signal.NodeConditionStatus, c.Status})
	}
	if n.ConditionsDropped > 0 {
		e.stats.ConditionsDropped += n.ConditionsDropped
		e.stats.ConditionsNode = n.Name
	}
}
