package chain

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuviewexporter"
	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuwatchdogexporter"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor"
)

// TestComponents sends each component two inputs: the one that the component receives in an
// incorrect position in the pipeline, and the one that it receives in a correct position.
func TestComponents(t *testing.T) {
	type section = map[string]any
	var (
		raw     = []string{"DCGM_FI_DEV_GPU_UTIL"}
		samples = []string{"hw.gpu.utilization", "hw.gpu.memory.usage"}
		windows = []string{"gpu.window.coverage", "hw.energy"}
		none    = section{"kubernetes": section{"auth_type": "none"}}
	)
	const synthesizer, behind = "gpu_synthesizer is missing before %s: ", "%s is after gpu_window: "
	for _, tt := range []struct {
		factory component.Factory
		config  section
		given   []string
		want    string
	}{
		{gpuwindowprocessor.NewFactory(), nil, raw, synthesizer},
		{gpuwindowprocessor.NewFactory(), nil, samples, ""},
		{gpuwindowprocessor.NewFactory(), nil, windows, ""},
		{gpuk8sprocessor.NewFactory(), none, raw, synthesizer},
		{gpuk8sprocessor.NewFactory(), none, windows, behind},
		{gpuk8sprocessor.NewFactory(), none, samples, ""},
		{gpuwatchdogexporter.NewFactory(), none, raw, synthesizer},
		{gpuwatchdogexporter.NewFactory(), none, samples, ""},
		{gpuwatchdogexporter.NewFactory(), none, windows, ""},
		{gpuviewexporter.NewFactory(), section{"endpoint": "localhost:0"}, raw, synthesizer},
		{gpuviewexporter.NewFactory(), section{"endpoint": "localhost:0"}, windows, ""},
	} {
		name := tt.factory.Type().String()
		t.Run(fmt.Sprint(name, " gets ", tt.given[0]), func(t *testing.T) {
			cfg := tt.factory.CreateDefaultConfig()
			require.NoError(t, confmap.NewFromStringMap(tt.config).Unmarshal(cfg))
			core, logs := observer.New(zap.WarnLevel)
			var next consumer.Metrics
			switch factory := tt.factory.(type) {
			case processor.Factory:
				set := processortest.NewNopSettings(factory.Type())
				set.Logger = zap.New(core)
				p, err := factory.CreateMetrics(t.Context(), set, cfg, consumertest.NewNop())
				require.NoError(t, err)
				require.NoError(t, p.Start(t.Context(), componenttest.NewNopHost()))
				defer func() { require.NoError(t, p.Shutdown(context.Background())) }()
				next = p
			case exporter.Factory:
				set := exportertest.NewNopSettings(factory.Type())
				set.Logger = zap.New(core)
				e, err := factory.CreateMetrics(t.Context(), set, cfg)
				require.NoError(t, err)
				require.NoError(t, e.Start(t.Context(), componenttest.NewNopHost()))
				defer func() { require.NoError(t, e.Shutdown(context.Background())) }()
				next = e
			}
			for range 5 {
				require.NoError(t, next.ConsumeMetrics(t.Context(), batch(tt.given)))
			}
			wired := logs.FilterMessageSnippet("The pipeline is wired incorrectly").All()
			if tt.want == "" {
				assert.Empty(t, wired)
			} else if assert.Len(t, wired, 1) {
				assert.Contains(t, wired[0].Message, fmt.Sprintf(tt.want, name))
			}
		})
	}
}

// batch returns a batch of gauges with the given names.
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
