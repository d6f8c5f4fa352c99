package gpusynthesizerprocessor

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.uber.org/zap"

	"github.com/otelcol-gpu/otelcol-gpu/internal/exposition"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor/internal/metadata"
)

// The synthesizer uses the memory of frames again, but not while the next processor has them:
// several receivers send at the same time, and may name the same GPU.
func TestFramesStayAsTheyAreWhileTheNextProcessorHasThem(t *testing.T) {
	var taken atomic.Int64
	next, err := pdatagpu.NewProcessor(processortest.NewNopSettings(metadata.Type), 0, consumertest.NewNop(), pdatagpu.Functions{
		Takes: pdatagpu.TakesFrames,
		Process: func(_ context.Context, a *pdatagpu.Arrival) ([]*gpudata.Frame, error) {
			for range 3 {
				for _, f := range a.Frames {
					for _, d := range f.Devices {
						used, ok := d.Samples.Get(signal.HwGPUMemoryUsage, "")
						assert.True(t, ok)
						assert.InDelta(t, float64(f.Time)*(1<<20), used, 0, "the value of another batch")
					}
				}
				runtime.Gosched()
			}
			taken.Add(int64(len(a.Frames)))
			return nil, nil
		},
	})
	require.NoError(t, err)
	p, err := NewFactory().CreateMetrics(t.Context(), processortest.NewNopSettings(metadata.Type), createDefaultConfig(), next)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context(), nil))
	t.Cleanup(func() { require.NoError(t, p.Shutdown(context.Background())) })

	const receivers, scrapes = 4, 200
	var sending sync.WaitGroup
	for r := range receivers {
		sending.Go(func() {
			sender := pdatagpu.NewSender(zap.NewNop(), zap.DebugLevel, true)
			parser := exposition.NewParser()
			for i := range scrapes {
				at := 1 + receivers*i + r
				text := fmt.Sprintf("DCGM_FI_DEV_FB_USED{UUID=\"GPU-1\",Hostname=\"n1\"} %d\n", at)
				rows := &pdatagpu.Rows{Time: pcommon.Timestamp(at), Sets: parser.Parse([]byte(text)).Sets}
				assert.NoError(t, sender.Send(t.Context(), p, rows, pmetric.NewMetrics()))
			}
		})
	}
	sending.Wait()
	assert.Greater(t, taken.Load(), int64(scrapes), "frames were handed over")
}
