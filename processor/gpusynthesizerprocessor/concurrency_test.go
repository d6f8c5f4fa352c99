package gpusynthesizerprocessor

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
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
	"github.com/otelcol-gpu/otelcol-gpu/test/support/storagetest"
)

// Several receivers send batches at the same time, and the batches may contain the same GPU.
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

// Each node has its own lock. A batch may contain rows from several nodes, because one Prometheus
// server may relay rows from many nodes.
func TestConcurrentBatchesHaveTheSameOutputAsSequentialBatches(t *testing.T) {
	const nodes, scrapes = 6, 30
	body := func(node, at int) string {
		text := fmt.Sprintf("DCGM_FI_DEV_FB_USED{UUID=\"GPU-1\",Hostname=\"n%d\"} %d\n", node, at)
		for code := range 3 {
			text += fmt.Sprintf("DCGM_EXP_XID_ERRORS_TOTAL{UUID=\"GPU-1\",Hostname=\"n%d\",xid=\"%d\",namespace=\"ns\",pod=\"p-%d\",container=\"c\"} %d\n", node, 31+code, at/10, at/(2+code))
		}
		return text
	}
	play := func(together bool) []string {
		storage := storagetest.NewMemory(nil)
		p, sink := startOn(t, storage, processortest.NewNopSettings(metadata.Type))
		var sending sync.WaitGroup
		for n := range nodes / 2 {
			send := func() {
				for at := 1; at <= scrapes; at++ {
					text := body(2*n, at) + body(2*n+1, at)
					md := onPoints(scrape{int64(10 * at), parse(t, text)})
					md.ResourceMetrics().At(0).Resource().Attributes().PutStr("service.instance.id", "prometheus")
					assert.NoError(t, p.ConsumeMetrics(t.Context(), md))
				}
			}
			if together {
				sending.Go(send)
			} else {
				send()
			}
		}
		sending.Wait()
		require.NoError(t, p.Shutdown(t.Context()))
		lines := strings.Split(rendered(sink), "\n")
		for key, value := range storage.Values() {
			lines = append(lines, key+" "+value)
		}
		slices.Sort(lines)
		return lines
	}
	alone := play(false)
	assert.Contains(t, strings.Join(alone, "\n"), "xid_33")
	assert.Equal(t, alone, play(true))
}
