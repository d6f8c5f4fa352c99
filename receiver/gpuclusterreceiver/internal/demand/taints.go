package demand

import (
	"cmp"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
)

// SetTaintRule adds or replaces a DeviceTaintRule.
func (c *Cluster) SetTaintRule(r *resourcev1.DeviceTaintRule) {
	c.rules[r.Name] = r
	c.taintsChanged()
}

// DeleteTaintRule deletes a DeviceTaintRule.
func (c *Cluster) DeleteTaintRule(ruleName string) {
	delete(c.rules, ruleName)
	c.taintsChanged()
}

func (c *Cluster) taintsChanged() {
	for _, p := range c.pools {
		p.fresh = false
	}
}

// The taints method returns the taints that the driver and DeviceTaintRules set on a device. The
// returned taints are sorted and contain no duplicates.
func (p *pool) taints(d *Device) []Taint {
	out := slices.Clone(d.Taints)
	for _, r := range p.rules {
		if selects(r.Spec.DeviceSelector, p.id, d.Name) {
			t := &r.Spec.Taint
			out = append(out, Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
		}
	}
	slices.SortFunc(out, func(a, b Taint) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Value, b.Value), cmp.Compare(a.Effect, b.Effect))
	})
	return slices.Compact(out)
}

// The selects function reports whether the selector of a rule matches a device. An empty selector
// matches every device. A missing selector matches no device.
func selects(s *resourcev1.DeviceTaintSelector, of poolID, deviceName string) bool {
	matches := func(wanted *string, actual string) bool { return wanted == nil || *wanted == actual }
	return s != nil && matches(s.Driver, of.driver) && matches(s.Pool, of.name) && matches(s.Device, deviceName)
}

// The strongest function returns the strongest effect among the taints, which is NoExecute,
// NoSchedule, or "" (none).
func strongest(taints []Taint) string {
	effect := ""
	for _, t := range taints {
		switch resourcev1.DeviceTaintEffect(t.Effect) {
		case resourcev1.DeviceTaintEffectNoExecute:
			return t.Effect
		case resourcev1.DeviceTaintEffectNoSchedule:
			effect = t.Effect
		case resourcev1.DeviceTaintEffectNone: // informational only
		}
	}
	return effect
}
