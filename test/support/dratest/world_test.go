package dratest

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	resourcev1 "k8s.io/api/resource/v1"
	"pgregory.net/rapid"
)

// Random histories can test only situations that occur in them, so this test checks that every
// situation occurs.
func TestHistoriesHaveEverySituation(test *testing.T) {
	found := map[string]int{}
	history := func(t *rapid.T) {
		now := time.Unix(1e9, 0)
		w := New(t, now)
		for range 12 {
			now = now.Add(15 * time.Second)
			w.Change(t, now)
			for situation, present := range w.situations() {
				if present {
					found[situation]++
				}
			}
		}
	}
	for range 5 { // rapid runs 100 histories per round, or 20 with -short
		rapid.Check(test, history)
	}
	for situation := range (&World{Node: "n1"}).situations() {
		assert.Positive(test, found[situation], "no history has %s", situation)
	}
}

func (w *World) situations() map[string]bool {
	aPod := func(is func(*pod) bool) bool { return slices.ContainsFunc(w.pods, is) }
	aClaim := func(is func(*claim) bool) bool { return slices.ContainsFunc(w.claims, is) }
	aResult := func(is func(result) bool) bool {
		return aClaim(func(c *claim) bool { return slices.ContainsFunc(c.results, is) })
	}
	aDevice := func(is func(*device) bool) bool { return slices.ContainsFunc(w.devices, is) }
	effect := func(e resourcev1.DeviceTaintEffect) bool {
		return aDevice(func(d *device) bool {
			return slices.ContainsFunc(d.taints, func(t resourcev1.DeviceTaint) bool { return t.Effect == e })
		})
	}
	return map[string]bool{
		"a pod that has ended":                       aPod(func(p *pod) bool { return p.ended }),
		"a pod whose devices are not prepared":       aPod(func(p *pod) bool { return p.preparing }),
		"a pod that waits for its devices":           aPod(func(p *pod) bool { return p.unbound }),
		"a pod without a reservation":                aPod(func(p *pod) bool { return p.stranger }),
		"a pod of another node":                      aPod(func(p *pod) bool { return p.node != w.Node }),
		"a pod of the node's previous name":          w.Node != "n1" && aPod(func(p *pod) bool { return p.node == "n1" }),
		"a claim of several pods":                    aClaim(func(c *claim) bool { return len(c.pods) > 1 && !c.group }),
		"a claim that outlives its pods":             aClaim(func(c *claim) bool { return len(c.pods) == 0 }),
		"a claim that is reserved for a deleted pod": aClaim(func(c *claim) bool { return c.gone }),
		"a claim of a PodGroup of several pods":      aClaim(func(c *claim) bool { return len(c.pods) > 1 && c.group }),
		"a claim from a template":                    aClaim(func(c *claim) bool { return c.template }),
		"a claim for an extended resource":           aClaim(func(c *claim) bool { return c.extended }),
		"a claim with tolerations":                   aClaim(func(c *claim) bool { return c.tolerations != nil && !c.results[0].admin }),
		"a claim that waits":                         len(w.waiting) > 0,
		"a claim that was deleted while pods use it": aPod(func(p *pod) bool { return !slices.Contains(w.claims, p.claims[0]) && !p.ended }),
		"administrative access":                      aResult(func(r result) bool { return r.admin }),
		"a share":                                    aResult(func(r result) bool { return r.share != "" }),
		"a partition":                                aResult(func(r result) bool { return r.device.profile != "" }),
		"a device of AMD":                            aResult(func(r result) bool { return r.device.driver == AMD && !r.admin }),
		"a device of Intel":                          aResult(func(r result) bool { return r.device.driver == Intel && !r.admin }),
		"a condition of a device":                    aResult(func(r result) bool { return len(*r.reported) > 0 }),
		"a tainted device that a claim has":          aResult(func(r result) bool { return len(r.device.taints) > 0 }),
		"a renamed device":                           aDevice(func(d *device) bool { return d.renamed }),
		"a device whose node left":                   aDevice(func(d *device) bool { return d.removed }),
		"an informational taint":                     effect(resourcev1.DeviceTaintEffectNone),
		"a taint that prevents allocations":          effect(resourcev1.DeviceTaintEffectNoSchedule),
		"a taint that evicts pods":                   effect(resourcev1.DeviceTaintEffectNoExecute),
		"a DeviceTaintRule":                          len(w.rules) > 0,
		"half of a pool":                             w.hidden,
		"a restart":                                  w.Starts > 0,
		"another name of the node":                   w.Node != "n1",
	}
}
