package window

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
)

// everySetting returns settings in which every field has a value.
func everySetting() Settings {
	threshold, scale := 0.9, 2.0
	return Settings{
		Window: 60e9, Grace: 1, MaxGap: 2, MaxSeries: 3, IdleTimeout: 4, KeepLast: true, ByDevice: true,
		Rules: []Rule{{
			Source: "source", Function: "share_at_least", Metric: "metric", Unit: "1", Description: "A description.", Integer: true,
			Attributes: []string{"own"}, Where: []Filter{{Attribute: "own", Values: []string{"v*"}, Absent: true}},
			Threshold: &threshold, Scale: &scale,
		}},
		Coverage: Metric{Name: "coverage"}, Samples: Metric{Name: "samples"},
		Disabled: []string{"other"},
	}
}

// If the fingerprint of the same settings changes, every collector with storage drops its open
// windows after an update.
func TestTheFingerprintOfSettingsIsStable(t *testing.T) {
	set := everySetting()
	assert.Equal(t, uint64(0xd56247f668f7acd0), set.fingerprint())
	assert.Equal(t, uint64(0xf9037cf60ee01c54), new(Settings).fingerprint())
	none := Settings{Rules: []Rule{}}
	assert.NotEqual(t, new(Settings).fingerprint(), none.fingerprint())
}

func TestTheFingerprintDependsOnSettingsThatAffectStoredState(t *testing.T) {
	half := 0.5
	for name, change := range map[string]func(*Settings){
		"Window":                func(s *Settings) { s.Window++ },
		"KeepLast":              func(s *Settings) { s.KeepLast = false },
		"Disabled":              func(s *Settings) { s.Disabled = nil },
		"Rules.Source":          func(s *Settings) { s.Rules[0].Source += "x" },
		"Rules.Function":        func(s *Settings) { s.Rules[0].Function += "x" },
		"Rules.Metric":          func(s *Settings) { s.Rules[0].Metric += "x" },
		"Rules.Unit":            func(s *Settings) { s.Rules[0].Unit += "x" },
		"Rules.Integer":         func(s *Settings) { s.Rules[0].Integer = false },
		"Rules.Attributes":      func(s *Settings) { s.Rules[0].Attributes = nil },
		"Rules.Threshold":       func(s *Settings) { s.Rules[0].Threshold = &half },
		"Rules.Quantile":        func(s *Settings) { s.Rules[0].Quantile = &half },
		"Rules.Scale":           func(s *Settings) { s.Rules[0].Scale = &half },
		"Rules.Where.Attribute": func(s *Settings) { s.Rules[0].Where[0].Attribute += "x" },
		"Rules.Where.Values":    func(s *Settings) { s.Rules[0].Where[0].Values = nil },
		"Rules.Where.Absent":    func(s *Settings) { s.Rules[0].Where[0].Absent = false },
	} {
		before, after := everySetting(), everySetting()
		change(&after)
		assert.NotEqual(t, before.fingerprint(), after.fingerprint(), name)
	}
	for name, change := range map[string]func(*Settings){
		"Grace":             func(s *Settings) { s.Grace++ },
		"MaxGap":            func(s *Settings) { s.MaxGap++ },
		"MaxSeries":         func(s *Settings) { s.MaxSeries++ },
		"IdleTimeout":       func(s *Settings) { s.IdleTimeout++ },
		"MarkEnd":           func(s *Settings) { s.MarkEnd = !s.MarkEnd },
		"Tier":              func(s *Settings) { s.Tier = !s.Tier },
		"ByDevice":          func(s *Settings) { s.ByDevice = false },
		"Coverage":          func(s *Settings) { s.Coverage.Name += "x" },
		"Samples":           func(s *Settings) { s.Samples.Name += "x" },
		"Rules.Description": func(s *Settings) { s.Rules[0].Description += "x" },
	} {
		before, after := everySetting(), everySetting()
		change(&after)
		assert.Equal(t, before.fingerprint(), after.fingerprint(), name)
	}
}

// If you add a setting, decide whether stored state depends on that setting, and add the setting to
// the test above.
func TestTheFingerprintTestCoversEverySetting(t *testing.T) {
	for want, of := range map[int]reflect.Type{
		13: reflect.TypeFor[Settings](), 11: reflect.TypeFor[Rule](), 3: reflect.TypeFor[Filter](),
	} {
		assert.Equal(t, want, exportedFields(of), "fields of %s", of)
	}
}

func exportedFields(of reflect.Type) (n int) {
	for field := range of.Fields() {
		if field.IsExported() {
			n++
		}
	}
	return n
}
