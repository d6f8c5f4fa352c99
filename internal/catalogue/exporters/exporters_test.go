package exporters

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

func TestATextThatMeansNoValueIsIgnored(t *testing.T) {
	for _, x := range All {
		for role, names := range x.Labels {
			for _, label := range names {
				for _, text := range []string{"", " ", "\t ", "N/A", "n/a", " N/A"} {
					r := catalogue.NewRow(x)
					r.Set(label, text)
					assert.Empty(t, r.Get(role), "%s %s %q", x.Name, label, text)
				}
			}
		}
	}
}

// A value other than 0 and 1 is not a valid state.
func TestFieldsThatAreStatesAreFlags(t *testing.T) {
	fields := 0
	for _, x := range All {
		for _, s := range x.AllSignals() {
			if s.Metric.Unit != signal.GPUClockEventActive.Unit || s.Bits != nil || s.States != nil {
				continue
			}
			for _, set := range s.Sets {
				for _, id := range set {
					assert.Equal(t, catalogue.Flag, catalogue.ByID(id).Unit, catalogue.ByID(id).Name)
					fields++
				}
			}
		}
	}
	assert.NotZero(t, fields)
}

// A field's name must belong to the field's exporter even if another exporter, such as
// dcgm-exporter, owns all names with the same prefix.
func TestTheNameOfAFieldBelongsToTheExporterOfTheField(t *testing.T) {
	owned := 0
	for _, x := range All {
		for _, f := range x.Fields() {
			exposed, _, _ := strings.Cut(f.Name, "{") // remove the label value that distinguishes fields with the same name
			for _, name := range append([]string{exposed}, f.Aliases...) {
				_, of := Lookup(name)
				has := func(x *catalogue.Exporter) bool { _, ok := x.Lookup(name); return ok }
				if assert.NotNil(t, of, name) {
					assert.True(t, has(of), "%s is a field of %s and belongs to %s", name, x.Name, of.Name)
				}
				owned++
			}
		}
	}
	assert.NotZero(t, owned)
}

func TestPublicLabelsAreLowercase(t *testing.T) {
	for _, x := range All {
		for _, name := range x.PublicLabels {
			assert.Equal(t, strings.ToLower(name), name, x.Name)
		}
	}
}
