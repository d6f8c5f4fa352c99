package diagnose

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/dcgm"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Every sample metric can be diagnosed. Every window metric can also be diagnosed, except for the
// metrics that describe the window itself.
func TestEverySampleAndEveryWindowIsDiagnosed(t *testing.T) {
	var told []*signal.Metric
	names := map[string]bool{}
	for _, s := range Signals() {
		assert.False(t, names[s.Name()], s.Name())
		names[s.Name()] = true
		told = append(append(told, s.Metric), s.Feeds...)
	}
	for m := range dcgm.Exporter.Gaps { // metrics that only other vendors' exporters provide
		told = append(told, m)
		for _, w := range m.Windows {
			told = append(told, w.Metric)
		}
	}
	for _, m := range signal.All() {
		switch m {
		case signal.GPUExporterUp, signal.WindowCoverage, signal.WindowSamples:
			continue
		}
		if m.Off {
			continue // advice never recommends a metric that is off by default
		}
		if m.Stage == signal.StageSample || m.Stage == signal.StageWindow {
			assert.Contains(t, told, m, m.Name)
		}
	}
}
