package demand

import (
	"maps"
	"slices"
	"strings"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// claimState is where a claim stands; the states exclude each other.
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

func (c *Claim) state() claimState {
	switch {
	case !c.Allocated:
		return pending
	case len(c.Reservations) == 0:
		return allocated
	}
	return reserved
}

// classTally counts the claims of one device class.
type classTally struct{ claims, devices [numClaimStates]int64 }

// addClaims emits how many claims there are of each class, and the devices
// that they ask for or were given.
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
	byClass := map[string]int64{} // of one claim
	for _, c := range e.claims {
		state := c.state()
		// The demand of an extended resource shows in the pod's requests; a
		// claim on its way out without devices asks for nothing.
		if c.ExtendedResource || state == pending && c.Terminating {
			continue
		}
		clear(byClass)
		if state == pending {
			e.asked(c.Requests, byClass)
		} else {
			e.given(c, byClass)
		}
		count(state, byClass)
	}
	if e.seen.Pods && e.seen.Templates {
		for _, p := range e.pods {
			if !p.state().waiting() {
				continue
			}
			for _, t := range p.TemplateClaims {
				template, ok := e.templates[name{p.Namespace, t.Template}]
				if _, made := e.made[entry{p.UID, t.Name}]; !ok || made || t.Made {
					continue
				}
				clear(byClass)
				e.asked(template.Requests, byClass)
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

// asked adds the devices that requests ask for to byClass.
func (e *emission) asked(requests []ClaimRequest, byClass map[string]int64) {
	for i := range requests {
		if requests[i].AdminAccess {
			continue
		}
		a := e.choose(requests[i].Alternatives)
		if a == nil {
			continue
		}
		if a.All {
			e.stats.AllModeRequests++
		}
		byClass[a.Class] = add(byClass[a.Class], a.Count)
	}
}

// choose returns the alternative that counts as the request's demand, among those of GPU
// classes: the largest (of equals the most preferred), or if configured the most preferred. It
// returns nil when no alternative has a GPU class.
func (e *emission) choose(alternatives []Alternative) *Alternative {
	var chosen *Alternative
	for i := range alternatives {
		a := &alternatives[i]
		if !e.isGPUClass(a.Class) {
			continue
		}
		if chosen == nil || a.Count > chosen.Count {
			chosen = a
		}
		if e.opts.First {
			break
		}
	}
	return chosen
}

// given adds the devices that an allocated claim was given to byClass. Shares
// of one device are devices of their own only if their share ids differ.
func (e *emission) given(c *Claim, byClass map[string]int64) {
	for i := range c.Results {
		r := &c.Results[i]
		className := c.classOf(r)
		if !e.gpuResult(r, className) || className == "" || c.repeats(i) {
			continue
		}
		byClass[className] = add(byClass[className], 1)
	}
}

// gpuResult reports whether a result takes a GPU.
func (e *emission) gpuResult(r *Result, className string) bool {
	return !r.AdminAccess && (slices.Contains(e.opts.Drivers, r.Driver) || e.isGPUClass(className))
}

// repeats reports whether the i-th result names the same share of a device as
// one before it.
func (c *Claim) repeats(i int) bool {
	r := c.Results[i]
	return slices.ContainsFunc(c.Results[:i], func(before Result) bool {
		return before.Driver == r.Driver && before.Pool == r.Pool && before.Device == r.Device && before.ShareID == r.ShareID
	})
}

// classOf returns the class of the request that a result satisfies, empty
// when the claim has no such request.
func (c *Claim) classOf(r *Result) string {
	request, sub, _ := strings.Cut(r.Request, "/")
	for _, q := range c.Requests {
		if q.Name != request {
			continue
		}
		for _, a := range q.Alternatives {
			if a.Name == sub {
				return a.Class
			}
		}
	}
	return ""
}

// addClaimDevices emits one point for each device and each pod that reserves it.
func (e *emission) addClaimDevices() {
	var devices []Point // of one claim, without a pod
	for _, c := range e.claims {
		devices = devices[:0]
		for i := range c.Results {
			r := &c.Results[i]
			if className := c.classOf(r); e.gpuResult(r, className) && !c.repeats(i) {
				devices = append(devices, e.claimDevice(c, r, className))
			}
		}
		if e.opts.Disabled[signal.K8sResourceClaimDevice] {
			continue
		}
		for _, holder := range c.Reservations {
			if !holder.Pod {
				continue
			}
			for _, d := range devices {
				d.Place.Namespace, d.Place.Pod, d.Place.PodUID = c.Namespace, holder.Name, holder.UID
				e.out = append(e.out, d)
			}
		}
	}
}

func (e *emission) claimDevice(c *Claim, r *Result, className string) Point {
	attrs := make([]Attribute, 0, 12)
	attrs = append(attrs, Attribute{signal.ResourceClaimName, c.Name}, Attribute{signal.ResourceClaimUID, c.UID})
	attrs = appendSet(attrs, signal.DeviceClassName, className)
	attrs = append(attrs,
		Attribute{signal.DRARequest, r.Request}, Attribute{signal.DRADriver, r.Driver},
		Attribute{signal.DRAPool, r.Pool}, Attribute{signal.DRADevice, r.Device})
	attrs = appendSet(attrs, signal.DRAShareID, r.ShareID)
	p := Point{Metric: signal.K8sResourceClaimDevice, Int: 1}
	if e.seen.Slices {
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
