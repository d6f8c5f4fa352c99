package receiverstages

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func TestSettingsThatTheIntervalDoesNotFitAreLogged(t *testing.T) {
	type section = map[string]any
	for name, tt := range map[string]struct {
		interval time.Duration
		want     []string
	}{
		"twice in a window": {15 * time.Second, nil},
		"once in a window":  {30 * time.Second, []string{"in stages::gpu_window, max_gap is 25s and the receiver reads every 30s: no time counts as observed, and gpu.window.coverage is 0."}},
		"rarely": {2 * time.Minute, []string{
			"in stages::gpu_window, window is 30s and the receiver reads every 2m0s: windows without a sample are missing.",
			"in stages::gpu_window, max_gap is 25s and the receiver reads every 2m0s: ",
			"in stages::gpu_k8s::usage, max_gap is 1m30s and the receiver reads every 2m0s: all time is unobserved.",
			"in stages::gpu_events, max_gap is 1m30s and the receiver reads every 2m0s: ",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := NewDefaultConfig()
			require.NoError(t, confmap.NewFromStringMap(section{
				"gpu_window": section{"window": "30s", "max_gap": "25s"}, "gpu_k8s": section{"usage": section{}}, "gpu_events": section{},
			}).Unmarshal(&cfg))
			core, logs := observer.New(zap.WarnLevel)
			require.NoError(t, cfg.checkInterval(zap.New(core), tt.interval))
			require.Equal(t, len(tt.want), logs.Len())
			for i, want := range tt.want {
				assert.Contains(t, logs.All()[i].Message, want)
			}
		})
	}
}
