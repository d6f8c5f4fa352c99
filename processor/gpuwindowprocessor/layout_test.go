package gpuwindowprocessor

import (
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/golden"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/pdatatest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/pointtest"
)

// The test runs each golden directory twice: with the device attributes on the Resources of the
// input, and with the device attributes on the Resources of the output.
func TestDeviceAttributesMayBeOnResources(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join("testdata", "golden", "*"))
	require.NoError(t, err)
	require.NotEmpty(t, dirs)
	moved := 0
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			want, err := golden.ReadMetrics(filepath.Join(dir, "output.yaml"))
			require.NoError(t, err)
			cfg, input := goldenCase(t, dir)
			synctest.Test(t, func(t *testing.T) {
				got := runGolden(t, cfg, input, pdatatest.DevicesOnResources)
				if cfg.Passthrough != passthroughAll { // with passthrough: all, samples are not changed
					assert.Equal(t, pdatatest.Lines(want), pdatatest.Lines(got), "read from Resources")
				}
			})
			cfg.DeviceAttributes = onResources
			synctest.Test(t, func(t *testing.T) {
				got := runGolden(t, cfg, input, unchangedMetrics)
				assert.Equal(t, pdatatest.Lines(want), pdatatest.Lines(pdatatest.DevicesOnPoints(got)), "written on Resources")
				for p := range points.All(got) {
					if _, on := p.Resource.Attributes().Get(signal.HardwareID); on {
						moved++
						_, twice := p.Attributes().Get(signal.HardwareID)
						assert.False(t, twice)
					}
				}
			})
		})
	}
	assert.Positive(t, moved)
}

func TestResourceAttributesMayBeOnPoints(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join("testdata", "golden", "*"))
	require.NoError(t, err)
	for _, dir := range dirs {
		cfg, input := goldenCase(t, dir)
		if cfg.Passthrough == passthroughAll {
			continue
		}
		t.Run(filepath.Base(dir), func(t *testing.T) {
			want, err := golden.ReadMetrics(filepath.Join(dir, "output.yaml"))
			require.NoError(t, err)
			pdatagpu.Flatten(want)
			cfg.FlatAttributes = true
			synctest.Test(t, func(t *testing.T) {
				assert.Equal(t, pdatatest.Lines(want), pdatatest.Lines(runGolden(t, cfg, input, unchangedMetrics)))
			})
		})
	}
}

func TestADeviceHasOneResourceInABatch(t *testing.T) {
	cfg, input := goldenCase(t, filepath.Join("testdata", "golden", "windows_contain_device_and_container_series"))
	cfg.DeviceAttributes = onResources
	synctest.Test(t, func(t *testing.T) {
		seen := map[string]bool{}
		for _, rm := range runGolden(t, cfg, input, unchangedMetrics).ResourceMetrics().All() {
			text := pointtest.Text(rm.Resource().Attributes())
			assert.False(t, seen[text], text)
			seen[text] = true
		}
		assert.Greater(t, len(seen), 1)
	})
}
