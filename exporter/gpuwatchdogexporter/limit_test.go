package gpuwatchdogexporter

import (
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuwatchdogexporter/internal/decide"
	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuwatchdogexporter/internal/metadata"
)

func TestDevicesAboveTheLimitAreLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.WarnLevel)
		set := exportertest.NewNopSettings(metadata.Type)
		set.Logger = zap.New(core)
		w, err := newWatchdog(set, newConfig())
		require.NoError(t, err)
		for i := range maxDevices {
			w.samples.devices[decide.Device{Node: "other", ID: strconv.Itoa(i)}] = &deviceState{}
		}
		for range 3 {
			require.NoError(t, w.consume(t.Context(), pressed.metrics(w.clock())))
		}
		if assert.Equal(t, 1, logs.Len()) {
			assert.Contains(t, logs.All()[0].Message, "A watchdog watches at most 50000 devices with at most 1000 containers each")
		}
	})
}
