//go:build !race

package gpuwindowprocessor

// The race detector itself allocates memory, so `make test-long` runs the tests in this file
// without the race detector.

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor/internal/window"
)

// The limit is 10% above the value that was measured when the test was written. All frames belong
// to one window.
func TestAFrameStaysWithinItsAllocationLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := newWindowProcessor(processortest.NewNopSettings(metadata.Type), createDefaultConfig().(*Config), consumertest.NewNop())
		require.NoError(t, err)
		time.Sleep(p.cfg.Window / 2)
		now := time.Now()
		p.engine = window.New(p.cfg.settings(), now)
		const runs = 10
		var frames []*gpudata.Frame
		for i := range runs + 2 {
			frames = append(frames, frameOfANode(now.Add(time.Duration(i-runs)*time.Second)))
		}
		next := 0
		take := func() {
			_, err := p.process(t.Context(), &pdatagpu.Arrival{Metrics: pmetric.NewMetrics(), Frames: frames[next : next+1]})
			require.NoError(t, err)
			next++
		}
		take()
		assert.Less(t, testing.AllocsPerRun(runs, take), 105.0)
		require.Positive(t, p.engine.Stats().Series)
	})
}

// A sample that is refused because of max_series must not be more expensive to process than other
// samples. Otherwise, reaching the limit could overload the collector.
func TestARefusedSampleDoesNotAllocate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := createDefaultConfig().(*Config)
		cfg.MaxSeries = 1
		p, err := newWindowProcessor(processortest.NewNopSettings(metadata.Type), cfg, consumertest.NewNop())
		require.NoError(t, err)
		time.Sleep(p.cfg.Window / 2)
		now := time.Now()
		p.engine = window.New(p.cfg.settings(), now)
		const runs = 10
		var frames []*gpudata.Frame
		for i := range runs + 2 {
			frames = append(frames, frameOfANode(now.Add(time.Duration(i-runs)*time.Second)))
		}
		next := 0
		take := func() {
			_, err := p.process(t.Context(), &pdatagpu.Arrival{Metrics: pmetric.NewMetrics(), Frames: frames[next : next+1]})
			require.NoError(t, err)
			next++
		}
		take()
		assert.Less(t, testing.AllocsPerRun(runs, take), 105.0)
		require.Greater(t, p.engine.Stats().Samples[window.Refused], uint64(1000))
	})
}
