package dratest

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// These are the types of the conditions that drivers report for claimed devices. If a device has
// binding conditions, a pod is bound only after the device is attached. A broken device is
// deallocated.
const (
	attached = "Attached"
	broken   = "Broken"
	ready    = "Ready"
)

// The report method draws a random condition that a driver reports for a claimed device. The
// condition replaces the previous condition of the same type.
func (w *World) report(t *rapid.T) {
	if len(w.claims) == 0 {
		return
	}
	c := rapid.SampledFrom(w.claims).Draw(t, "reported claim")
	r := rapid.SampledFrom(c.results).Draw(t, "reported device")
	condition := metav1.Condition{
		Type:   sampledFrom(t, "condition", attached, attached, broken, ready),
		Status: sampledFrom(t, "status", metav1.ConditionTrue, metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown),
	}
	*r.reported = append(slices.DeleteFunc(*r.reported, func(o metav1.Condition) bool { return o.Type == condition.Type }), condition)
	for _, p := range slices.Clone(w.pods) {
		switch {
		case !p.unbound:
		case p.reports(broken):
			w.delete(t, p) // the scheduler deallocates its claim
		default:
			p.unbound = p.awaits()
		}
	}
}

// awaits reports whether the pod must wait for a device that is not yet attached.
func (p *pod) awaits() bool {
	return slices.ContainsFunc(p.binding(), func(r result) bool { return !r.isTrue(attached) })
}

// The reports method returns true if the given condition is true for any device that the pod's
// binding depends on.
func (p *pod) reports(condition string) bool {
	return slices.ContainsFunc(p.binding(), func(r result) bool { return r.isTrue(condition) })
}

// The binding method returns the devices that the pod's binding depends on.
func (p *pod) binding() (out []result) {
	for _, c := range p.claims {
		for _, r := range c.results {
			if r.binds() {
				out = append(out, r)
			}
		}
	}
	return out
}

func (r result) binds() bool { return r.device.binds && !r.admin }

func (r result) isTrue(condition string) bool {
	return slices.ContainsFunc(*r.reported, func(c metav1.Condition) bool { return c.Type == condition && c.Status == metav1.ConditionTrue })
}

// Condition is a condition of a claimed device. If a pod's binding depends on a condition that no
// driver has reported yet, the condition's status is unknown.
type Condition struct{ Claim, Driver, Pool, Device, Share, Type, Status, Role string }

// Conditions returns the conditions of all claimed devices, in any order. Conditions omits devices
// that a claim has only administrative access to.
func (w *World) Conditions() (out []Condition) {
	for _, c := range w.claims {
		for _, r := range c.results {
			if r.admin {
				continue
			}
			of := Condition{Claim: c.uid, Driver: r.device.driver, Pool: r.device.pool, Device: r.device.name, Share: r.share}
			missing := r.binds()
			for _, reported := range *r.reported {
				of.Type, of.Status, of.Role = reported.Type, strings.ToLower(string(reported.Status)), ""
				switch {
				case r.binds() && of.Type == attached:
					of.Role, missing = "binding", false
				case r.binds() && of.Type == broken:
					of.Role = "binding_failure"
				}
				out = append(out, of)
			}
			if missing {
				of.Type, of.Status, of.Role = attached, "unknown", "binding"
				out = append(out, of)
			}
		}
	}
	return out
}
