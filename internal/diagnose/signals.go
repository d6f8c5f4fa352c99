package diagnose

import (
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/dcgm"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/exporters"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Signal is a metric that the distribution emits, or a part of the metric that has its own fields.
type Signal struct {
	*catalogue.Signal
	// Sources are the sets of fields from which the signal can be computed. The usual set comes
	// first. A signal without sources is derived from labels.
	Sources [][]catalogue.ID
	// Feeds are the window metrics that are computed from the signal.
	Feeds []*signal.Metric
	// Gap is true if this exporter never provides the signal although dcgm-exporter does.
	Gap bool
}

// Fields returns the fields from which the signal is usually computed, with their names in the CSV
// file of exporters 4.x. It returns nil for a signal that is derived from labels.
func (s *Signal) Fields() []string {
	if len(s.Sources) == 0 {
		return nil
	}
	var out []string
	for _, id := range s.Sources[0] {
		out = append(out, dcgm.ListedName(catalogue.ByID(id)))
	}
	return out
}

// scope returns where the signal is measured if the board is partitioned.
func (s *Signal) scope() catalogue.Scope {
	if len(s.Sources) == 0 {
		return catalogue.Instance
	}
	return catalogue.ByID(s.Sources[0][0]).Scope
}

// Signals returns every signal that dcgm-exporter can provide, in the order of a report. Callers
// must not modify the signals.
func Signals() []*Signal { return slices.Clone(signals) }

// signalsByExporter contains the signals of each exporter, followed by dcgm-exporter's signals that
// the exporter never provides.
var (
	signalsByExporter = signalsOf(exporters.All)
	signals           = signalsByExporter[dcgm.Exporter]
)

func signalsOf(all []*catalogue.Exporter) map[*catalogue.Exporter][]*Signal {
	out := map[*catalogue.Exporter][]*Signal{}
	for _, x := range all {
		for _, s := range x.AllSignals() {
			d := &Signal{Signal: s, Feeds: s.Feeds()}
			if len(s.Sets) > 0 {
				others := slices.Delete(slices.Clone(s.Sets), s.Usual, s.Usual+1)
				d.Sources = append([][]catalogue.ID{s.Sets[s.Usual]}, others...)
			}
			out[x] = append(out[x], d)
		}
		for _, s := range out[dcgm.Exporter] {
			if x.Gaps[s.Metric] != "" {
				gap := *s
				gap.Gap = true
				out[x] = append(out[x], &gap)
			}
		}
	}
	return out
}

func field(name string) catalogue.ID { return dcgm.Exporter.Field(name).ID }

// Fields for which there is specific advice.
var (
	fbReserved = field("DCGM_FI_DEV_FB_RESERVED")
	gpuUtil    = field("DCGM_FI_DEV_GPU_UTIL")
	pcieTXRate = field("DCGM_FI_PROF_PCIE_TX_BYTES")
	pcieRXRate = field("DCGM_FI_PROF_PCIE_RX_BYTES")
	xidCount   = field("DCGM_EXP_XID_ERRORS_COUNT")
	xidTotal   = field("DCGM_EXP_XID_ERRORS_TOTAL")
)
