// Package exporters has every exporter that the synthesizer understands. A new one is a
// package beside it and a line here.
package exporters

import (
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/amd"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/ascend"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/dcgm"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/hami"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/intel"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/neuron"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/tpu"
)

// All are the exporters.
var All = []*catalogue.Exporter{dcgm.Exporter, amd.Exporter, tpu.Exporter, neuron.Exporter, intel.Exporter, ascend.Exporter, hami.Exporter}

// Coded is the exporter whose error events have codes.
var Coded = dcgm.Exporter

// Lookup returns what an exposed metric name means, and to which exporter it belongs. The
// exporter is nil where no table has the name, and the spelling is empty where no signal is made
// of it. The name alone need not tell: the exporter has to take the row by its labels too.
func Lookup(name string) (catalogue.Spelling, *catalogue.Exporter) {
	for _, x := range All {
		if s, ok := x.Lookup(name); ok {
			return s, x
		}
	}
	for _, x := range All {
		if x.OwnsName(name) {
			return catalogue.Spelling{}, x
		}
	}
	for _, x := range All {
		if s, ok := x.Prefixed(name); ok {
			return s, x
		}
	}
	return catalogue.Spelling{}, nil
}
