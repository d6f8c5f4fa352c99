package diagnose

import (
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/dcgm"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/exporters"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Signal is a metric of the output contract, or the part of one that is made of
// fields of its own.
type Signal struct {
	*catalogue.Signal
	// Sources are the sets of fields that the signal can be made of, the usual
	// one first. A signal without sources is made of labels.
	Sources [][]catalogue.ID
	// Feeds are the window metrics that are made of the signal.
	Feeds []*signal.Metric
	// Gap says that the exporter never gives the signal, which is dcgm-exporter's.
	Gap bool
}

// Fields returns the fields that the signal is usually made of, by the names that
// a csv of exporter 4.x has; none for one that is made of labels.
func (s *Signal) Fields() []string {
	if len(s.Sources) == 0 {
		return nil
	}
	var out []string
	for _, id := range s.Sources[0] {
		out = append(out, catalogue.ByID(id).ListedName())
	}
	return out
}

// scope is what the signal measures when the board is cut into MIG instances.
func (s *Signal) scope() catalogue.Scope {
	if len(s.Sources) == 0 {
		return catalogue.Instance
	}
	return catalogue.ByID(s.Sources[0][0]).Scope
}

// Signals returns every signal that a dcgm-exporter can give, in the order in
// which they are best read. They are shared and must not be changed.
func Signals() []*Signal { return slices.Clone(signals) }

// made are the signals of each exporter, and behind them those of dcgm-exporter's that it never gives.
var (
	made    = madeOf(exporters.All)
	signals = made[dcgm.Exporter]
)

func madeOf(all []*catalogue.Exporter) map[*catalogue.Exporter][]*Signal {
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

// field returns the number of a field by its name.
func field(name string) catalogue.ID { return dcgm.Exporter.Field(name).ID }

// Fields that have advice of their own.
var (
	fbReserved = field("DCGM_FI_DEV_FB_RESERVED")
	gpuUtil    = field("DCGM_FI_DEV_GPU_UTIL")
	pcieTXRate = field("DCGM_FI_PROF_PCIE_TX_BYTES")
	pcieRXRate = field("DCGM_FI_PROF_PCIE_RX_BYTES")
	xidCount   = field("DCGM_EXP_XID_ERRORS_COUNT")
	xidTotal   = field("DCGM_EXP_XID_ERRORS_TOTAL")
)
