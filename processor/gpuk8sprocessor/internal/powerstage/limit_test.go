package powerstage

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/metadata"
)

func TestSeriesAboveTheLimitAreLoggedOnce(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	cfg.MaxSeries = 1
	core, logs := observer.New(zap.WarnLevel)
	set := processortest.NewNopSettings(metadata.Type)
	set.Logger = zap.New(core)
	p, _ := newTestProcessor(t, cfg, set)
	feed(t, p, `10s {k8s.node.name=n1} hw.power {hw.id=GPU-1} = 100`)
	assert.Empty(t, logs.All())
	for range 2 {
		feed(t, p, `10s {k8s.node.name=n2} hw.power {hw.id=GPU-1} = 100`)
	}
	if assert.Equal(t, 1, logs.Len()) {
		assert.Contains(t, logs.All()[0].Message, "max_series of 1 is reached: new boards, energy counters or nodes are refused")
	}
}
