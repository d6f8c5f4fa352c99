package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/dcgm"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

func TestPrometheusNamesAreThoseOfTheContract(t *testing.T) {
	for name, want := range map[string]string{
		"gpu.saturation.throttle.violation.ratio": "gpu_saturation_throttle_violation_ratio",
		"gpu.saturation.throttle.reason.ratio":    "gpu_saturation_throttle_reason_ratio",
		"gpu.saturation.memory.pressure.ratio":    "gpu_saturation_memory_pressure_ratio",
		"gpu.saturation.memory.utilization.avg":   "gpu_saturation_memory_utilization_avg_ratio",
		"gpu.saturation.xid.errors":               "gpu_saturation_xid_errors",
		"gpu.saturation.pcie.throughput.avg":      "gpu_saturation_pcie_throughput_avg_bytes_per_second",
		"gpu.utilization.avg":                     "gpu_utilization_avg_ratio",
		"gpu.window.coverage":                     "gpu_window_coverage_ratio",
		"gpu.window.samples":                      "gpu_window_samples",
		"hw.gpu.memory.usage":                     "hw_gpu_memory_usage_bytes",
		"hw.errors":                               "hw_errors_total",
		"hw.energy":                               "hw_energy_joules_total",
	} {
		m, ok := signal.Lookup(name)
		require.True(t, ok, name)
		got, err := prometheusName(m)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
}

func TestPrometheusNamesAreUnique(t *testing.T) {
	seen := map[string]string{}
	for _, m := range signal.All() {
		name, err := prometheusName(m)
		require.NoError(t, err)
		assert.Empty(t, seen[name], "%s and %s render the same name", m.Name, seen[name])
		seen[name] = m.Name
	}
}

func TestTheDocumentIsUpToDate(t *testing.T) {
	want, err := document()
	require.NoError(t, err)
	got, err := os.ReadFile("../../../docs/signals.md")
	require.NoError(t, err)
	assert.Equal(t, want, string(got), "run make generate")
}

func TestTheCountersAreUpToDate(t *testing.T) {
	got, err := os.ReadFile("../../../examples/dcgm-exporter/counters.csv")
	require.NoError(t, err)
	assert.Equal(t, counters(), string(got), "run make generate")
}

func TestTheVendorsAreUpToDate(t *testing.T) {
	got, err := os.ReadFile("../../../docs/vendors.md")
	require.NoError(t, err)
	assert.Equal(t, vendors(), string(got), "run make generate")
}

func TestEveryGapOfAVendorHasAReason(t *testing.T) {
	assert.NoError(t, checkGaps())
}

// The example counters file enables every signal that is not optional. Fields that only newer
// exporters support are commented out.
func TestTheExampleCountersTurnEverySignalOn(t *testing.T) {
	listed := map[string]bool{}
	for line := range strings.SplitSeq(counters(), "\n") {
		listed[strings.TrimPrefix(line, "# ")] = true
	}
	for _, s := range dcgm.Exporter.AllSignals() {
		if s.Optional || len(s.Sets) == 0 {
			continue
		}
		for _, id := range slices.Concat(s.Sets[s.Usual], s.Inputs) {
			f := catalogue.ByID(id)
			assert.True(t, listed[dcgm.Line(f, dcgm.ListedName(f))], "%s: %s", s.Name(), f.Name)
		}
	}
}
