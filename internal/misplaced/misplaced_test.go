package misplaced_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-gpu/otelcol-gpu/internal/misplaced"
)

// batch returns a batch with gauges that have these names.
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
		given     batches // one per minute
		want      string  // text of the log message, or "" for none
	}{
		"raw metrics alone: no synthesizer":                      {"gpu_window", of(9, raw), "gpu_synthesizer is missing before gpu_window: gpu_window reads the samples that gpu_synthesizer creates. Put gpu_synthesizer before gpu_window."},
		"raw metrics before the windows: no synthesizer":         {"gpu_k8s", of(9, raw), "gpu_synthesizer is missing"},
		"raw metrics behind the windows: no synthesizer":         {"gpu_view", of(9, raw), "gpu_synthesizer is missing"},
		"windows where samples are wanted":                       {"gpu_k8s", append(of(2, samples), windows), "gpu_k8s is after gpu_window: the container series from gpu_k8s would have no windows. Put gpu_k8s before gpu_window."},
		"samples where windows are wanted":                       {"gpu_view", of(20, samples), "gpu_window is missing before gpu_view: gpu_view shows windows. Put gpu_window before gpu_view."},
		"metrics that are called as an exporter's of its labels": {"gpu_window", of(9, []string{"memory_used", "hw.memory.usage"}), ""},
		"samples":                    {"gpu_k8s", of(200, samples), ""},
		"samples to a second window": {"gpu_window", of(9, samples), ""},
		"windows to a second window": {"gpu_window", of(9, windows), ""},
		"windows":                    {"gpu_view", of(20, windows), ""},
		"samples that pass beside windows of minutes":          {"gpu_view", append(of(8, samples), append(of(1, windows), of(20, samples)...)...), ""},
		"samples and what they were made of":                   {"gpu_k8s", of(200, kept), ""},
		"a part of a batch in which what was kept is alone":    {"gpu_window", append(batches{raw, raw, kept}, of(9, raw)...), ""},
		"the scheduler's view where windows are wanted":        {"gpu_view", of(20, cluster), ""},
		"what was kept beside samples of another kind":         {"gpu_k8s", of(9, []string{"hw.temperature", "DCGM_FI_DEV_GPU_TEMP"}), ""},
		"an exporter that is down":                             {"gpu_k8s", of(9, []string{"gpu.exporter.up"}), ""},
		"metrics of others":                                    {"gpu_k8s", of(9, []string{"node_cpu_seconds_total"}), ""},
		"what windows carry, where the windows come elsewhere": {"gpu_view", of(20, []string{"hw.energy", "hw.errors"}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			core, logs := observer.New(zap.DebugLevel)
			check := misplaced.New(tt.component, zap.New(core))
			now := time.Now()
			for _, names := range tt.given {
				check.Batch(batch(names), now)
				now = now.Add(time.Minute)
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

// If this collector makes the samples and has no gpu_window, no other collector sends windows.
func TestSamplesThatAreMadeHereWithoutWindowsAreReportedSoon(t *testing.T) {
	for name, tt := range map[string]struct {
		samples, windows bool
		want             int
	}{
		"no windows in this collector": {true, false, 1},
		"windows in this collector":    {true, true, 0},
		"all of it elsewhere":          {false, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.samples {
				defer misplaced.MakesSamples()()
			}
			if tt.windows {
				defer misplaced.MakesWindows()()
			}
			core, logs := observer.New(zap.DebugLevel)
			check := misplaced.New("gpu_view", zap.New(core))
			for range 5 {
				check.Batch(batch([]string{"gpu.exporter.up", "hw.gpu.utilization"}), time.Now())
			}
			assert.Equal(t, tt.want, logs.FilterMessageSnippet("gpu_window is missing before gpu_view").Len())
		})
	}
}

func BenchmarkDecided(b *testing.B) {
	check := misplaced.New("gpu_window", zap.NewNop())
	md := batch([]string{"hw.gpu.utilization"})
	check.Batch(md, time.Now())
	for b.Loop() {
		check.Batch(md, time.Time{})
	}
}

func TestWhatIsNeverProvedIsLookedAtNoLonger(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	check := misplaced.New("gpu_window", zap.New(core))
	for range 100 {
		check.Batch(batch([]string{"a", "b"}), time.Now())
	}
	for range 9 {
		check.Batch(batch([]string{"DCGM_FI_DEV_GPU_UTIL"}), time.Now())
	}
	assert.Empty(t, logs.All(), "others' metrics are all that the pipeline is for")
}
