package window

import (
	"encoding/json"
	"hash/fnv"
)

// The following are what a fingerprint is made of: the settings on which the meaning of stored
// state depends. They are listed one by one, and not taken from Settings, so that a new option
// does not make every collector drop its open windows. A field that is added here needs
// omitempty: then settings that do not use it keep their fingerprint. JSON names and order count.
type (
	storedIdentity struct {
		Device                string
		Resource, Descriptive []string
	}
	storedFilter struct {
		Attribute string
		Values    []string
		Absent    bool
	}
	storedRule struct {
		Source, Function, Metric, Unit string
		Description                    string // always empty
		Integer                        bool
		Attributes                     []string
		Where                          []storedFilter
		Threshold                      *float64
		Quantile                       *float64 `json:",omitempty"`
		Scale                          *float64
	}
)

// fingerprint identifies the settings under which state can be carried over a
// restart.
func (s *Settings) fingerprint() uint64 {
	rules := mapped(s.Rules, func(r Rule) storedRule {
		return storedRule{
			Source: r.Source, Function: r.Function, Metric: r.Metric, Unit: r.Unit, Integer: r.Integer,
			Attributes: r.Attributes, Where: mapped(r.Where, func(f Filter) storedFilter { return storedFilter(f) }),
			Threshold: r.Threshold, Quantile: r.Quantile, Scale: r.Scale,
		}
	})
	id := &s.Identity
	h := fnv.New64a()
	// Validated settings can always be encoded.
	_ = json.NewEncoder(h).Encode([]any{
		s.Window, s.KeepLast, storedIdentity{id.Device, id.Resource, id.Descriptive}, s.Annotations, rules, s.Disabled,
	})
	return h.Sum64()
}

// mapped returns what f makes of each item, nil for nil.
func mapped[A, B any](items []A, f func(A) B) []B {
	if items == nil {
		return nil
	}
	out := make([]B, len(items))
	for i := range items {
		out[i] = f(items[i])
	}
	return out
}
