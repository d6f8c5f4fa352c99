// Package exporters lists all supported exporters. For information about adding an exporter, see
// docs/development.md.
package exporters

import (
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/amd"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/ascend"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/dcgm"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/gpuprocesses"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/hami"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/intel"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/neuron"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/tpu"
)

// All contains all exporters.
var All = []*catalogue.Exporter{dcgm.Exporter, amd.Exporter, tpu.Exporter, neuron.Exporter, intel.Exporter, ascend.Exporter, hami.Exporter, gpuprocesses.Exporter}

// Coded is the only exporter whose error events have codes.
var Coded = dcgm.Exporter

// Lookup returns the meaning of an exposed metric name, and the exporter that exposes the name. The
// exporter is nil if no exporter has the name. The spelling is empty if the exporter's table does
// not contain the name. Several exporters may use the same name, so callers must also call Takes
// with the row's labels.
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
