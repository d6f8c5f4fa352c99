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

	"github.com/otelcol-gpu/otelcol-gpu/internal/exposition"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor/internal/metadata"
)

// The synthesizer reuses the memory of frames, but not while the next stage reads them. Several
// receivers send at the same time, and may name the same GPU.
func TestFramesDoNotChangeWhileTheNextStageReadsThem(t *testing.T) {
	var taken atomic.Int64
	next := pdatagpu.NewStage(pdatagpu.Functions{
		Process: func(_ context.Context, a *pdatagpu.Arrival) ([]*gpudata.Frame, error) {
			for range 3 {
				for _, f := range a.Frames {
					for _, d := range f.Devices {
						used, ok := d.Samples.Get(signal.HwGPUMemoryUsage, "")
						assert.True(t, ok)
						assert.InDelta(t, float64(f.Time)*(1<<20), used, 0, "the frame has the value of another batch")
					}
				}
				runtime.Gosched()
			}
			taken.Add(int64(len(a.Frames)))
			return nil, nil
		},
	})
	p, err := NewFactory().CreateMetrics(t.Context(), processortest.NewNopSettings(metadata.Type), createDefaultConfig(), consumertest.NewNop())
	require.NoError(t, err)
	list := pdatagpu.NewStages(consumertest.NewNop())
	list.Append("gpu_synthesizer", p.(*pdatagpu.Processor))
	list.Append("next", next)
	require.NoError(t, p.Start(t.Context(), nil))
	t.Cleanup(func() { require.NoError(t, p.Shutdown(context.Background())) })

	const receivers, scrapes = 4, 200
	var sending sync.WaitGroup
	for r := range receivers {
		sending.Go(func() {
			parser := exposition.NewParser()
			for i := range scrapes {
				at := 1 + receivers*i + r
				text := fmt.Sprintf("DCGM_FI_DEV_FB_USED{UUID=\"GPU-1\",Hostname=\"n1\"} %d\n", at)
				rows := &pdatagpu.Rows{Time: pcommon.Timestamp(at), Sets: parser.Parse([]byte(text)).Sets}
				assert.NoError(t, list.Consume(t.Context(), rows, pmetric.NewMetrics()))
			}
		})
	}
	sending.Wait()
	assert.Greater(t, taken.Load(), int64(scrapes), "the stage received frames")
}
