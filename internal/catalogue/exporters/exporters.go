// Package exporters has every exporter that the synthesizer understands. A new one is a
// package beside it and a line here.
package exporters

import (
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/amd"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/ascend"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/dcgm"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/intel"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/neuron"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/tpu"
)

// All are the exporters.
var All = []*catalogue.Exporter{dcgm.Exporter, amd.Exporter, tpu.Exporter, neuron.Exporter, intel.Exporter, ascend.Exporter}

// Lookup returns what an exposed metric name means, and to which exporter it belongs. The
// exporter is nil where no table has the name, and the spelling is empty where no signal is made
// of it. For an exporter with Claims the name alone does not tell: its labels have to fit too.
func Lookup(name string) (catalogue.Spelling, *catalogue.Exporter) {
	for _, x := range All {
		if s, ok := x.Lookup(name); ok || x.OwnsName(name) {
			return s, x
		}
	}
	return catalogue.Spelling{}, nil
}
