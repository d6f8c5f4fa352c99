package diagnose

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/dcgm"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Whatever a scrape is made into, and every window but those about the window
// itself, has a signal that can be diagnosed.
func TestEverySampleAndEveryWindowIsDiagnosed(t *testing.T) {
	var told []*signal.Metric
	names := map[string]bool{}
	for _, s := range Signals() {
		assert.False(t, names[s.Name()], s.Name())
		names[s.Name()] = true
		told = append(append(told, s.Metric), s.Feeds...)
	}
	for _, m := range signal.All() {
		switch m {
		case signal.GPUExporterUp, signal.GPUSignalAvailable, signal.WindowCoverage, signal.WindowSamples:
			continue
		}
		if m.Stage == signal.StageSample || m.Stage == signal.StageWindow {
			assert.Contains(t, told, m, m.Name)
		}
	}
}

func TestEveryFieldHasALineUnlessAnotherOneIsAskedForInstead(t *testing.T) {
	standIns := []dcgm.ID{
		dcgm.PCIeTXTotal, dcgm.PCIeRXTotal, dcgm.NVLinkTXTotal, dcgm.NVLinkRXTotal,
		dcgm.NVLinkTXBandwidth, dcgm.NVLinkRXBandwidth, dcgm.NVLinkRecoverySuccessful, dcgm.NVLinkRecoveryFailed,
	}
	for _, f := range dcgm.Fields() {
		assert.Equal(t, slices.Contains(standIns, f.ID), csv[f.ID].name == "", f.Name)
		if csv[f.ID].name == "" {
			continue
		}
		sp, ok := dcgm.Lookup(csv[f.ID].name)
		require.True(t, ok, f.Name)
		assert.Equal(t, f.ID, sp.Field.ID)
		assert.Equal(t, f.Unit, sp.Unit, "the line names the field in its oldest unit")
	}
}

// A line that gpudoctor prints is the line of the list that we hand to users.
func TestLinesAreThoseOfTheExampleCounters(t *testing.T) {
	text, err := os.ReadFile("../../examples/dcgm-exporter/counters.csv")
	require.NoError(t, err)
	listed := map[string]bool{}
	for line := range strings.SplitSeq(string(text), "\n") {
		listed[strings.TrimPrefix(line, "# ")] = true
	}
	optional := map[dcgm.ID]bool{}
	for _, s := range Signals() {
		for _, set := range s.Sources {
			for _, id := range set {
				optional[id] = s.Optional && isProfiling(id)
			}
		}
	}
	for id := dcgm.ID(1); id < dcgm.NumFields; id++ {
		if csv[id].name != "" && !optional[id] {
			assert.True(t, listed[csv[id].String()], "%s", csv[id])
		}
	}
}
