package misplaced_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-gpu/otelcol-gpu/internal/misplaced"
)

// batch returns a batch that contains gauges with the given names.
func batch(names []string) pmetric.Metrics {
	md := pmetric.NewMetrics()
	metrics := md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics()
	for _, name := range names {
		m := metrics.AppendEmpty()
		m.SetName(name)
		m.SetEmptyGauge().DataPoints().AppendEmpty().SetDoubleValue(1)
	}
	return md
}

func TestInput(t *testing.T) {
	type batches = [][]string
	var (
		raw     = []string{"gpu.exporter.up", "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED"}
		samples = []string{"gpu.exporter.up", "hw.gpu.utilization", "hw.gpu.memory.utilization", "hw.energy"}
		kept    = []string{"hw.gpu.utilization", "DCGM_FI_DEV_GPU_UTIL"}
		windows = []string{"gpu.utilization.avg", "gpu.window.coverage", "hw.energy"}
		both    = []string{"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED", "gpu.utilization.avg", "gpu.window.coverage"}
		cluster = []string{"k8s.gpu.pods", "cluster.gpu.pending_pod_count"}
	)
	of := func(n int, names []string) (out batches) {
		for range n {
			out = append(out, names)
		}
		return out
	}
	for name, tt := range map[string]struct {
		component string
		given     batches
		want      string // text of the log message, or "" if nothing is logged
	}{
		"raw metrics alone: no synthesizer":                            {"gpu_window", of(9, raw), "gpu_synthesizer is missing before gpu_window: gpu_window reads the samples that gpu_synthesizer creates. Put gpu_synthesizer before gpu_window."},
		"raw metrics before the windows: no synthesizer":               {"gpu_k8s", of(9, raw), "gpu_synthesizer is missing"},
		"raw metrics after the windows: no synthesizer":                {"gpu_view", of(9, raw), "gpu_synthesizer is missing"},
		"windows where samples are wanted":                             {"gpu_k8s", append(of(2, samples), windows), "gpu_k8s is after gpu_window: the container series from gpu_k8s would have no windows. Put gpu_k8s before gpu_window."},
		"metrics with the names of an exporter but without its labels": {"gpu_window", of(9, []string{"memory_used", "hw.memory.usage"}), ""},
		"windows and the raw metrics":                                  {"gpu_view", of(9, both), ""},
		"windows and the raw metrics in separate batches":              {"gpu_watchdog", append(batches{raw, raw, windows}, of(9, raw)...), ""},
		"windows and raw metrics where samples are wanted":             {"gpu_k8s", of(9, both), "gpu_k8s is after gpu_window"},
		"samples":                     {"gpu_k8s", of(200, samples), ""},
		"samples to a second window":  {"gpu_window", of(9, samples), ""},
		"windows to a second window":  {"gpu_window", of(9, windows), ""},
		"windows":                     {"gpu_view", of(20, windows), ""},
		"samples and the raw metrics": {"gpu_k8s", of(200, kept), ""},
		"a part of a batch that has only raw metrics": {"gpu_window", append(batches{raw, raw, kept}, of(9, raw)...), ""},
		"the scheduler's view":                        {"gpu_view", of(20, cluster), ""},
		"raw metrics and other samples":               {"gpu_k8s", of(9, []string{"hw.temperature", "DCGM_FI_DEV_GPU_TEMP"}), ""},
		"an exporter that is down":                    {"gpu_k8s", of(9, []string{"gpu.exporter.up"}), ""},
		"metrics of others":                           {"gpu_k8s", of(9, []string{"node_cpu_seconds_total"}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			core, logs := observer.New(zap.DebugLevel)
			check := misplaced.New(tt.component, zap.New(core))
			for _, names := range tt.given {
				check.Batch(batch(names))
			}
			if tt.want == "" {
				assert.Empty(t, logs.All())
			} else if assert.Equal(t, 1, logs.Len(), "once") {
				assert.Equal(t, zap.WarnLevel, logs.All()[0].Level)
				assert.Contains(t, logs.All()[0].Message, tt.want)
			}
		})
	}
}

func BenchmarkDecided(b *testing.B) {
	check := misplaced.New("gpu_window", zap.NewNop())
	md := batch([]string{"hw.gpu.utilization"})
	check.Batch(md)
	for b.Loop() {
		check.Batch(md)
	}
}

func TestAPipelineWithMetricsOfOthersIsNotExaminedForever(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	check := misplaced.New("gpu_window", zap.New(core))
	for range 100 {
		check.Batch(batch([]string{"a", "b"}))
	}
	for range 9 {
		check.Batch(batch([]string{"DCGM_FI_DEV_GPU_UTIL"}))
	}
	assert.Empty(t, logs.All(), "the pipeline is for the metrics of others")
}
