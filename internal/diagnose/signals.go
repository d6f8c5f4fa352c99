package diagnose

import (
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/dcgm"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/exporters"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Signal is a metric that the distribution emits, or a part of such a metric if the part is
// computed from separate fields.
type Signal struct {
	*catalogue.Signal
	// Sources contains the sets of fields from which the signal can be computed. The set that is
	// usually used comes first. If Sources is empty, the signal is derived from labels.
	Sources [][]catalogue.ID
	// Feeds lists the window metrics that are computed from the signal.
	Feeds []*signal.Metric
	// Gap is true if this exporter never provides the signal although dcgm-exporter does.
	Gap bool
}

// Fields returns the fields from which the signal is usually computed, with their names in the CSV
// file of exporters 4.x. If the signal is derived from labels, Fields returns nil.
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

// If a board is partitioned, scope returns whether the signal is measured on the board or on its
// MIG instances.
func (s *Signal) scope() catalogue.Scope {
	if len(s.Sources) == 0 {
		return catalogue.Instance
	}
	return catalogue.ByID(s.Sources[0][0]).Scope
}

// Signals returns every signal that dcgm-exporter can provide, in the order in which reports list
// them. Callers must not modify the signals.
func Signals() []*Signal { return slices.Clone(signals) }

// signalsByExporter lists, for each exporter, the signals that the exporter provides, followed by
// the signals that only dcgm-exporter provides.
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

// The code in this package handles these fields as special cases.
var (
	fbReserved = field("DCGM_FI_DEV_FB_RESERVED")
	gpuUtil    = field("DCGM_FI_DEV_GPU_UTIL")
	pcieTXRate = field("DCGM_FI_PROF_PCIE_TX_BYTES")
	pcieRXRate = field("DCGM_FI_PROF_PCIE_RX_BYTES")
	xidCount   = field("DCGM_EXP_XID_ERRORS_COUNT")
	xidTotal   = field("DCGM_EXP_XID_ERRORS_TOTAL")
)
