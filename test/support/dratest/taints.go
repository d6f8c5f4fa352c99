package dratest

import (
	"fmt"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// taintRule is a DeviceTaintRule. Empty fields match all values.
type taintRule struct {
	driver, pool, device string
	taint                resourcev1.DeviceTaint
}

func (r taintRule) selects(d *device) bool {
	return (r.driver == "" || r.driver == d.driver) && (r.pool == "" || r.pool == d.pool) && (r.device == "" || r.device == d.published())
}

func drawTaint(t *rapid.T) resourcev1.DeviceTaint {
	return resourcev1.DeviceTaint{
		Key: "gpu.nvidia.com/xid", Value: sampledFrom(t, "taint value", "", "48", "79"),
		Effect: sampledFrom(t, "taint effect", resourcev1.DeviceTaintEffectNone, resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNoExecute),
	}
}

func drawTolerations(t *rapid.T) []resourcev1.DeviceToleration {
	switch sampledFrom(t, "tolerations", 0, 1, 2, 3, 4, 5) {
	case 0:
		return tolerateAll()
	case 1:
		return []resourcev1.DeviceToleration{{Key: "gpu.nvidia.com/xid", Operator: resourcev1.DeviceTolerationOpEqual, Value: "48"}}
	case 2:
		return []resourcev1.DeviceToleration{{
			Key: "gpu.nvidia.com/xid", Operator: resourcev1.DeviceTolerationOpExists, Effect: resourcev1.DeviceTaintEffectNoSchedule,
		}}
	}
	return nil
}

func tolerateAll() []resourcev1.DeviceToleration {
	return []resourcev1.DeviceToleration{{Operator: resourcev1.DeviceTolerationOpExists}}
}

// changeTaints adds or removes a device's taint or a DeviceTaintRule. changeTaints then deletes a
// random selection of the pods that must be evicted.
func (w *World) changeTaints(t *rapid.T, byRule bool) {
	d := rapid.SampledFrom(w.devices).Draw(t, "tainted device")
	switch {
	case byRule && len(w.rules) > 0 && rapid.Bool().Draw(t, "remove the rule"):
		w.rules = w.rules[1:]
	case byRule:
		r := taintRule{driver: d.driver, taint: drawTaint(t)}
		switch rapid.IntRange(0, 2).Draw(t, "selector") {
		case 0:
			r.pool = d.pool
		case 1:
			r.pool, r.device = d.pool, d.published()
		}
		w.rules = append(w.rules, r)
	case len(d.taints) > 0 && rapid.Bool().Draw(t, "remove the taint"):
		d.taints = nil
		w.generation++
	default:
		d.taints = []resourcev1.DeviceTaint{drawTaint(t)}
		w.generation++
	}
	for _, p := range slices.Clone(w.pods) {
		evicted := slices.ContainsFunc(p.claims, func(c *claim) bool {
			return slices.ContainsFunc(c.results, func(r result) bool { return w.taintedFor(r.device, c, resourcev1.DeviceTaintEffectNoExecute) })
		})
		if evicted && rapid.Bool().Draw(t, "evicted") {
			w.delete(t, p)
		}
	}
}

// taintedFor reports whether a device has a taint that has one of the given effects and that the
// claim does not tolerate.
func (w *World) taintedFor(d *device, c *claim, effects ...resourcev1.DeviceTaintEffect) bool {
	return slices.ContainsFunc(w.taintsOf(d), func(taint resourcev1.DeviceTaint) bool {
		return slices.Contains(effects, taint.Effect) && !slices.ContainsFunc(c.tolerations, func(t resourcev1.DeviceToleration) bool {
			return (t.Key == "" || t.Key == taint.Key) && (t.Effect == "" || t.Effect == taint.Effect) &&
				(t.Operator == resourcev1.DeviceTolerationOpExists || t.Value == taint.Value)
		})
	})
}

// taintsOf returns a device's taints from its driver and from DeviceTaintRules.
func (w *World) taintsOf(d *device) []resourcev1.DeviceTaint {
	taints := slices.Clone(d.taints)
	for _, r := range w.rules {
		if r.selects(d) {
			taints = append(taints, r.taint)
		}
	}
	return taints
}

// TaintRules returns the DeviceTaintRules in the API server.
func (w *World) TaintRules() (out []*resourcev1.DeviceTaintRule) {
	optional := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	for i, r := range w.rules {
		out = append(out, &resourcev1.DeviceTaintRule{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("rule-", i)},
			Spec: resourcev1.DeviceTaintRuleSpec{
				DeviceSelector: &resourcev1.DeviceTaintSelector{Driver: optional(r.driver), Pool: optional(r.pool), Device: optional(r.device)},
				Taint:          r.taint,
			},
		})
	}
	return out
}

// effect returns the strongest effect of the device's taints, or "" if no taint has an effect.
func (w *World) effect(d *device) string {
	for _, effect := range []resourcev1.DeviceTaintEffect{resourcev1.DeviceTaintEffectNoExecute, resourcev1.DeviceTaintEffectNoSchedule} {
		if slices.ContainsFunc(w.taintsOf(d), func(t resourcev1.DeviceTaint) bool { return t.Effect == effect }) {
			return string(effect)
		}
	}
	return ""
}
