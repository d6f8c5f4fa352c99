package gpuk8sprocessor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/metadata"
)

func TestAHistoryThatCannotBeKeptIsSaid(t *testing.T) {
	for history, want := range map[time.Duration]int{20 * time.Minute: 0, time.Hour: 1} {
		core, logs := observer.New(zap.WarnLevel)
		set := processortest.NewNopSettings(metadata.Type)
		set.Logger = zap.New(core)
		cfg := createDefaultConfig().(*Config)
		cfg.NodeName, cfg.Kubernetes.AuthType, cfg.History = "n1", kube.AuthNone, history
		p, err := newProcessor(cfg, set)
		require.NoError(t, err)
		require.NoError(t, p.sources.open())
		if assert.Equal(t, want, logs.Len()) && want > 0 {
			assert.Contains(t, logs.All()[0].Message, "shorter than history")
			assert.Equal(t, map[string]any{"history": time.Hour, "known": 1280 * time.Second}, logs.All()[0].ContextMap())
		}
	}
}
