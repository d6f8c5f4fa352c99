package gpuwindowprocessor

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor/internal/window"
)

// grpcLimit is the maximum message size that a gRPC server accepts by default.
const grpcLimit = 4 << 20

// sizeOf returns the size of a batch that is encoded as OTLP.
func sizeOf(md pmetric.Metrics) int { return (&pmetric.ProtoMarshaler{}).MetricsSize(md) }

func TestWindowsWithLongLabelsAreSentInBatchesThatAServerAccepts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := new(consumertest.MetricsSink)
		cfg := testConfig()
		p := start(t, processortest.NewNopSettings(metadata.Type), cfg, componenttest.NewNopHost(), sink)
		const devices = 8
		until(70 * time.Second)
		for i := range devices {
			md := sample(time.Now(), 0.5, 1)
			for _, m := range md.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().All() {
				var points pmetric.NumberDataPointSlice
				if m.Type() == pmetric.MetricTypeSum {
					points = m.Sum().DataPoints()
				} else {
					points = m.Gauge().DataPoints()
				}
				for _, dp := range points.All() {
					dp.Attributes().PutStr(signal.HardwareID, strings.Repeat("x", i+1))
					dp.Attributes().PutStr(signal.HardwareModel, strings.Repeat("m", 500_000))
				}
			}
			require.NoError(t, p.ConsumeMetrics(t.Context(), md))
		}
		require.NoError(t, p.Shutdown(t.Context()))
		total, points := 0, 0
		for _, md := range sink.AllMetrics() {
			assert.LessOrEqual(t, sizeOf(md), grpcLimit)
			total += sizeOf(md)
			points += md.DataPointCount()
		}
		assert.Greater(t, total, 3*grpcLimit)
		assert.Positive(t, points)
		assert.Zero(t, points%devices, "no points are lost")
	})
}

func TestABatchIsAlmostFull(t *testing.T) {
	n := newBenchNodes(6, 56)
	for range 6 {
		n.advance()
		n.scrape()
	}
	upTo, _ := n.engine.ClosedUpTo(n.now.Add(-time.Second))
	em := n.engine.Fetch(upTo)
	rows, _ := em.Next(nil, 1<<20)
	em.Close()
	for name, w := range map[string]writer{
		"on points":    {starts: true},
		"on Resources": {starts: true, onResources: true},
	} {
		t.Run(name, func(t *testing.T) {
			rest, batches := rows, 0
			for len(rest) > 0 {
				md, n := w.writeBatch(rest)
				assert.LessOrEqual(t, sizeOf(md), maxBatchBytes)
				if rest = rest[n:]; len(rest) > 0 {
					assert.Greater(t, sizeOf(md), maxBatchBytes*3/4)
					batches++
				}
			}
			assert.Positive(t, batches)
		})
	}
}

func TestARowThatIsLargerThanABatchIsSentAlone(t *testing.T) {
	huge := window.Row{
		Resource: &window.Resource{}, Metric: &window.Metric{Name: "m"},
		Device: window.Attrs(window.AppendAttr(nil, "k", window.TextAttr, strings.Repeat("v", maxBatchBytes+1))),
	}
	_, n := (&writer{}).writeBatch([]window.Row{huge, huge})
	assert.Equal(t, 1, n)
}
