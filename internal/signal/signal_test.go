package signal

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEveryMetricIsDescribed(t *testing.T) {
	require.NotEmpty(t, All())
	for _, m := range All() {
		assert.NotEmpty(t, m.Unit, m.Name)
		assert.NotEmpty(t, m.Source, m.Name)
		assert.True(t, strings.HasSuffix(m.Description, "."), "%s: %q is not a sentence", m.Name, m.Description)
		got, ok := Lookup(m.Name)
		assert.True(t, ok)
		assert.Same(t, m, got)
	}
}

// Prometheus adds the suffix _ratio to a gauge with the unit 1, so only ratios may have this unit.
// A ratio is never an integer.
func TestCountsAndFlagsHaveAnnotatedUnits(t *testing.T) {
	for _, m := range All() {
		if m.Int && m.Kind == Gauge {
			assert.NotEqual(t, "1", m.Unit, m.Name)
		}
	}
}

func TestOwnAttributesAreNotDeviceAttributes(t *testing.T) {
	for _, m := range All() {
		if m.Stage == StageCluster { // DRA attributes distinguish the series of these metrics
			continue
		}
		for _, a := range m.Attributes {
			assert.Equal(t, DistinguishesSeries, RoleOf(a), "%s of %s", a, m.Name)
		}
	}
}

func TestEveryAttributeIsDocumentedOnce(t *testing.T) {
	documented := map[string]bool{}
	for _, a := range PointAttributes() {
		assert.False(t, documented[a.Key], a.Key)
		assert.NotEmpty(t, a.Meaning, a.Key)
		documented[a.Key] = true
	}
	for a := range attributeRoles {
		assert.True(t, documented[a], a)
	}
	for _, m := range All() {
		for _, a := range m.Attributes {
			assert.True(t, documented[a], "%s of %s", a, m.Name)
		}
	}
}

func TestUnknownNamesAreNotFound(t *testing.T) {
	_, ok := Lookup("gpu.nonsense")
	assert.False(t, ok)
}

func TestChangingTheListDoesNotChangeTheTable(t *testing.T) {
	All()[0] = nil
	assert.NotNil(t, All()[0])
}

func TestDeclaringAMetricTwiceFails(t *testing.T) {
	assert.Panics(t, func() { add(Metric{Name: HwPower.Name}) })
}
