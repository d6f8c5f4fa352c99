package pipelinerules_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"

	"github.com/otelcol-gpu/otelcol-gpu/connector/gpueventsconnector"
	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuviewexporter"
	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuwatchdogexporter"
	"github.com/otelcol-gpu/otelcol-gpu/internal/pipelinerules"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/dcgmreceiver"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/gpuclusterreceiver"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver"
)

// The component types and default values in the rules must be the same as those of the actual
// components.
func TestTypesAndDefaultsEqualThoseOfTheComponents(t *testing.T) {
	defaults := map[string]*confmap.Conf{"batch": nil, "cumulative_to_delta": nil, "memory_limiter": nil}
	for _, f := range []component.Factory{
		dcgmreceiver.NewFactory(), nvmlreceiver.NewFactory(), gpuclusterreceiver.NewFactory(),
		gpusynthesizerprocessor.NewFactory(), gpuk8sprocessor.NewFactory(),
		gpuwindowprocessor.NewFactory(), gpuviewexporter.NewFactory(), gpuwatchdogexporter.NewFactory(),
		gpueventsconnector.NewFactory(),
	} {
		conf := confmap.New()
		require.NoError(t, conf.Marshal(f.CreateDefaultConfig()))
		defaults[f.Type().String()] = conf
	}
	k8s := gpuk8sprocessor.NewFactory().CreateDefaultConfig().(*gpuk8sprocessor.Config)
	for kind, section := range map[string]any{
		pipelinerules.Power: k8s.Power.GetOrInsertDefault(), pipelinerules.Budget: k8s.Budget.GetOrInsertDefault(), pipelinerules.Usage: k8s.Usage.GetOrInsertDefault(),
	} {
		defaults[kind] = confmap.New()
		require.NoError(t, defaults[kind].Marshal(section))
	}
	findings := gpueventsconnector.NewDefaultFindings()
	rules := confmap.New()
	require.NoError(t, rules.Marshal(findings.GetOrInsertDefault()))
	defaults[gpueventsconnector.FindingsType.String()] = rules
	is := func(kind, setting string, want time.Duration) {
		t.Helper()
		if assert.Contains(t, defaults, kind) {
			assert.Equal(t, want, defaults[kind].Get(setting), "%s: %s", kind, setting)
		}
	}
	for kind, r := range pipelinerules.Receivers {
		assert.Contains(t, defaults, kind)
		if r.Interval > 0 {
			is(kind, "collection_interval", r.Interval)
		}
	}
	for _, r := range pipelinerules.Intervals {
		is(r.Component, r.Setting, r.Default)
	}
	is("gpu_window", "grace", pipelinerules.WindowGrace)
	for _, o := range pipelinerules.Orders {
		assert.Contains(t, defaults, o.First)
		assert.Contains(t, defaults, o.Second)
	}
	for _, kind := range append(pipelinerules.Sections, pipelinerules.Stages...) {
		assert.Contains(t, defaults, kind)
	}
}
