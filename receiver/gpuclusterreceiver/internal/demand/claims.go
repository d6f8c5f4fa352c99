package demand

import (
	"maps"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// claimState is the state of a claim. Each claim is in exactly one state.
type claimState uint8

const (
	pending claimState = iota
	allocated
	reserved
	numClaimStates
)

var claimStates = [numClaimStates]Attribute{
	pending:   {signal.State, "pending"},
	allocated: {signal.State, "allocated"},
	reserved:  {signal.State, "reserved"},
}

func stateOf(c *resourcev1.ResourceClaim) claimState {
	switch {
	case c.Status.Allocation == nil:
		return pending
	case len(c.Status.ReservedFor) == 0:
		return allocated
	}
	return reserved
}

// The results function returns the devices that are allocated to a claim.
func results(c *resourcev1.ResourceClaim) []resourcev1.DeviceRequestAllocationResult {
	if c.Status.Allocation == nil {
		return nil
	}
	return c.Status.Allocation.Devices.Results
}

// classTally contains, for one device class, the number of claims and the number of devices in each
// claim state.
type classTally struct{ claims, devices [numClaimStates]int64 }

// addClaims emits two numbers for each device class and claim state: the number of claims, and the
// number of devices. For pending claims, the requested devices are counted. For all other claims,
// the allocated devices are counted.
func (e *emission) addClaims() {
	tallies := map[string]*classTally{}
	for className := range e.gpuClasses {
		tallies[className] = &classTally{}
	}
	count := func(state claimState, devices map[string]int64) {
		for className, n := range devices {
			t, ok := tallies[className]
			if !ok {
				t = &classTally{}
				tallies[className] = t
			}
			t.claims[state]++
			t.devices[state] = add(t.devices[state], n)
		}
	}
	byClass := map[string]int64{} // the number of devices that one claim has in each class
	for _, c := range e.claims {
		state := stateOf(c)
		// The demand for an extended resource is already part of the pod's requests, even if the
		// scheduler creates a claim for the resource. A terminating claim that has no allocated
		// devices does not count as demand.
		extended := c.Annotations[resourcev1.ExtendedResourceClaimAnnotation] == "true"
		if extended || state == pending && c.DeletionTimestamp != nil {
			continue
		}
		clear(byClass)
		if state == pending {
			e.addRequested(c.Spec, byClass)
		} else {
			e.addAllocated(c, byClass)
		}
		count(state, byClass)
	}
	if e.observed.Pods && e.observed.Templates {
		for _, p := range e.pods {
			if !p.state().waiting() {
				continue
			}
			for _, t := range p.TemplateClaims {
				template, ok := e.templates[objectName{p.Namespace, t.Template}]
				if !ok || t.Made || e.isCreated(p, t.Name) {
					continue
				}
				clear(byClass)
				e.addRequested(template.Spec.Spec, byClass)
				count(pending, byClass)
			}
		}
	}

	classes := slices.Sorted(maps.Keys(tallies))
	for _, className := range classes {
		for s, n := range tallies[className].claims {
			e.int(signal.K8sResourceClaimCount, Place{}, n, Attribute{signal.DeviceClassName, className}, claimStates[s])
		}
	}
	for _, className := range classes {
		for s, n := range tallies[className].devices {
			e.int(signal.K8sResourceClaimRequested, Place{}, n, Attribute{signal.DeviceClassName, className}, claimStates[s])
		}
	}
}

// addRequested counts the devices that a claim requests and adds the counts to byClass. Requests
// for admin access do not count, because they do not take devices away from other claims.
func (e *emission) addRequested(spec resourcev1.ResourceClaimSpec, byClass map[string]int64) {
	for i := range spec.Devices.Requests {
		r := &spec.Devices.Requests[i]
		if r.Exactly != nil && ptr.Deref(r.Exactly.AdminAccess, false) {
			continue
		}
		a := e.choose(alternatives(r))
		if a == nil {
			continue
		}
		if a.AllocationMode == resourcev1.DeviceAllocationModeAll {
			e.stats.AllModeRequests++
		}
		byClass[a.DeviceClassName] = add(byClass[a.DeviceClassName], devices(a))
	}
}

// The alternatives function returns the alternatives of a request, starting with the most preferred
// one.
func alternatives(r *resourcev1.DeviceRequest) []resourcev1.DeviceSubRequest {
	if r.Exactly == nil {
		return r.FirstAvailable
	}
	return []resourcev1.DeviceSubRequest{{
		DeviceClassName: r.Exactly.DeviceClassName, AllocationMode: r.Exactly.AllocationMode, Count: r.Exactly.Count,
	}}
}

// The devices function returns the number of devices that an alternative requests. A request for
// all matching devices counts as one device, because the number of matching devices is unknown
// before the allocation.
func devices(a *resourcev1.DeviceSubRequest) int64 {
	if a.AllocationMode == resourcev1.DeviceAllocationModeAll {
		return 1
	}
	return max(a.Count, 1)
}

// choose returns the alternative that counts as the demand of the request, or nil if no alternative
// has a GPU class. Only alternatives with a GPU class are considered. By default, choose returns
// the largest alternative. If several alternatives are equally large, choose returns the most
// preferred one. If the First option is set, choose returns the most preferred alternative
// regardless of its size.
func (e *emission) choose(alternatives []resourcev1.DeviceSubRequest) *resourcev1.DeviceSubRequest {
	var chosen *resourcev1.DeviceSubRequest
	for i := range alternatives {
		a := &alternatives[i]
		if !e.isGPUClass(a.DeviceClassName) {
			continue
		}
		if chosen == nil || devices(a) > devices(chosen) {
			chosen = a
		}
		if e.opts.First {
			break
		}
	}
	return chosen
}

// addAllocated counts the devices that are allocated to a claim and adds the counts to byClass.
// Several shares of the same device count separately only if their share IDs differ.
func (e *emission) addAllocated(c *resourcev1.ResourceClaim, byClass map[string]int64) {
	allocations := results(c)
	for i := range allocations {
		className := gpushare.ClassOf(c, allocations[i].Request)
		if !e.gpuResult(&allocations[i], className) || className == "" || isDuplicate(allocations, i) {
			continue
		}
		byClass[className] = add(byClass[className], 1)
	}
}

// gpuResult reports whether an allocation result allocates a GPU.
func (e *emission) gpuResult(r *resourcev1.DeviceRequestAllocationResult, className string) bool {
	return !ptr.Deref(r.AdminAccess, false) && (slices.Contains(e.opts.Drivers, r.Driver) || e.isGPUClass(className))
}

// isDuplicate reports whether results[i] allocates the same share of the same device as an earlier
// result. Results with administrative access do not allocate a device.
func isDuplicate(results []resourcev1.DeviceRequestAllocationResult, i int) bool {
	r := &results[i]
	return slices.ContainsFunc(results[:i], func(before resourcev1.DeviceRequestAllocationResult) bool {
		return !ptr.Deref(before.AdminAccess, false) && before.Driver == r.Driver && before.Pool == r.Pool && before.Device == r.Device && ptr.Equal(before.ShareID, r.ShareID)
	})
}

// addClaimDevices emits one point for each combination of an allocated device and a pod for which
// the claim is reserved. addClaimDevices also emits one point for each condition of an allocated
// device.
func (e *emission) addClaimDevices() {
	var devices, conditions []Point // points for the devices of one claim; the pod is added later
	withConditions := !e.opts.Disabled[signal.K8sResourceClaimDeviceCondition]
	for _, c := range e.claims {
		devices = devices[:0]
		allocations := results(c)
		for i := range allocations {
			r := &allocations[i]
			if className := gpushare.ClassOf(c, r.Request); e.gpuResult(r, className) && !isDuplicate(allocations, i) {
				device := e.claimDevice(c, r, className)
				devices = append(devices, device)
				if withConditions {
					conditions = e.addClaimConditions(conditions, c, r, device)
				}
			}
		}
		if e.opts.Disabled[signal.K8sResourceClaimDevice] {
			continue
		}
		if len(devices) == 0 {
			continue
		}
		for _, pod := range e.podsOf(c) {
			for _, d := range devices {
				d.Place.Namespace, d.Place.Pod, d.Place.PodUID = c.Namespace, pod.Name, pod.UID
				e.out = append(e.out, d)
			}
		}
	}
	e.out = append(e.out, conditions...)
}

// podsOf returns the pods for which a claim is reserved. A claim may be reserved for individual
// pods, or for a PodGroup whose pods reference the claim. Only the names and UIDs of the returned
// pods are set.
func (e *emission) podsOf(c *resourcev1.ResourceClaim) (pods []Pod) {
	for i := range c.Status.ReservedFor {
		switch r := &c.Status.ReservedFor[i]; gpushare.ConsumerOf(r) {
		case gpushare.PodConsumer:
			pods = append(pods, Pod{Name: r.Name, UID: string(r.UID)})
		case gpushare.PodGroupConsumer:
			for _, p := range e.podsOfGroup(c, r.Name) {
				if !slices.ContainsFunc(pods, func(known Pod) bool { return known.UID == p.UID }) {
					pods = append(pods, Pod{Name: p.Name, UID: p.UID})
				}
			}
		case gpushare.OtherConsumer: // the pods of other kinds of consumers are unknown
		}
	}
	return pods
}

// podsOfGroup returns the pods that belong to the given PodGroup and reference the claim.
func (e *emission) podsOfGroup(c *resourcev1.ResourceClaim, group string) []*Pod {
	if e.byClaim == nil {
		e.byClaim = map[claimOfGroup][]*Pod{}
		for _, p := range e.pods {
			for _, claim := range p.Claims {
				k := claimOfGroup{objectName{p.Namespace, claim}, p.Group}
				e.byClaim[k] = append(e.byClaim[k], p)
			}
		}
	}
	return e.byClaim[claimOfGroup{objectName{c.Namespace, c.Name}, group}]
}

func (e *emission) claimDevice(c *resourcev1.ResourceClaim, r *resourcev1.DeviceRequestAllocationResult, className string) Point {
	attrs := make([]Attribute, 0, 12)
	attrs = append(attrs, Attribute{signal.ResourceClaimName, c.Name}, Attribute{signal.ResourceClaimUID, string(c.UID)})
	attrs = appendSet(attrs, signal.DeviceClassName, className)
	attrs = append(attrs,
		Attribute{signal.DRARequest, r.Request}, Attribute{signal.DRADriver, r.Driver},
		Attribute{signal.DRAPool, r.Pool}, Attribute{signal.DRADevice, r.Device})
	attrs = appendSet(attrs, signal.DRAShareID, string(ptr.Deref(r.ShareID, "")))
	p := Point{Metric: signal.K8sResourceClaimDevice, Int: 1}
	if e.observed.Slices {
		if d := e.device(deviceID{r.Driver, r.Pool, r.Device}); d != nil {
			attrs = append(attrs, d.identity...)
			p.Place.Node = d.node
		} else {
			e.stats.UnknownDevices++
			e.stats.UnknownDevice = r.Driver + "/" + r.Pool + "/" + r.Device
		}
	}
	p.Attributes = attrs
	return p
}
