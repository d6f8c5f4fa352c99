package pipelinelint

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
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/dcgmreceiver"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/gpuclusterreceiver"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver"
)

// The types and defaults in the linter must equal those of the components.
func TestTypesAndDefaultsAreTheComponents(t *testing.T) {
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
		powerSection: k8s.Power.GetOrInsertDefault(), budgetSection: k8s.Budget.GetOrInsertDefault(), usageSection: k8s.Usage.GetOrInsertDefault(),
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
	is("dcgm", "collection_interval", defaultInterval)
	is("nvml", "collection_interval", defaultInterval)
	for _, span := range spans {
		is(span.kind, span.setting, span.byDefault)
	}
	for _, o := range orders {
		assert.Contains(t, defaults, o.first)
		assert.Contains(t, defaults, o.second)
	}
	for exporter, maker := range makers {
		assert.Contains(t, defaults, exporter)
		assert.Contains(t, defaults, maker.kind)
	}
	assert.Equal(t, exposed, inputs(&stage{kind: "dcgm"})[0].what)
	assert.Equal(t, others, inputs(&stage{kind: "gpu_cluster"})[0].what)
}
