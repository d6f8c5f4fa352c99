package usagestage

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"
	"pgregory.net/rapid"

	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/pointtest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/storagetest"
)

// increases adds up the increases in counters, as a backend does.
type increases struct {
	last map[string]counterPoint
	// grown contains the increases in the last batch, by metric and hw.id.
	grown map[string]map[string]float64
	total float64 // total is the sum of allocated, unallocated, and unobserved time.
}

type counterPoint struct {
	start pcommon.Timestamp
	value float64
}

func (s *increases) add(t require.TestingT, md pmetric.Metrics) {
	s.grown = map[string]map[string]float64{}
	for p := range points.All(md) {
		if p.Scope.Name() != metadata.ScopeName {
			continue
		}
		id, _ := p.Attributes().Get(signal.HardwareID)
		key := p.Metric.Name() + pointtest.Text(p.Resource.Attributes()) + pointtest.Text(p.Attributes(), signal.HardwareModel, signal.MIGProfile, signal.HardwareParent)
		v, start := points.Value(p.NumberDataPoint), p.StartTimestamp()
		require.Less(t, start, p.Timestamp(), key)
		by := v
		if last := s.last[key]; last.start == start {
			require.GreaterOrEqual(t, v, last.value, "counter %s decreases", key)
			by -= last.value
		}
		s.last[key] = counterPoint{start, v}
		if s.grown[p.Metric.Name()] == nil {
			s.grown[p.Metric.Name()] = map[string]float64{}
		}
		s.grown[p.Metric.Name()][id.Str()] += by
		switch p.Metric.Name() {
		case signal.K8sContainerGPUAllocatedTime.Name, signal.GPUUnallocatedTime.Name, signal.GPUUnobservedTime.Name:
			s.total += by
		}
	}
}

// drawBoard generates the samples of a board in one scrape. The result contains the devices for
// which drawBoard generated a utilization.
func drawBoard(t *rapid.T, b *strings.Builder, at time.Duration, board string) (utilized map[string]bool) {
	utilized = map[string]bool{}
	line := func(resource, metric, attributes string, v float64) {
		fmt.Fprintf(b, "%s {k8s.node.name=n1%s} %s {%s} = %g\n", at, resource, metric, attributes, v)
	}
	line("", "hw.power", "hw.id="+board, 100)
	var devices []string
	if rapid.Bool().Draw(t, "mig") {
		profile := rapid.SampledFrom([]string{"1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb", "", "nonsense"})
		for i := range rapid.IntRange(1, 7).Draw(t, "instances") {
			d := fmt.Sprintf("hw.id=%s/gi%d, hw.parent=%s", board, i, board)
			if text := profile.Draw(t, "profile"); text != "" {
				d += ", gpu.mig.profile=" + text
			}
			line("", "gpu.engine.active", d, 0.5)
			devices = append(devices, d)
		}
	} else {
		devices = append(devices, "hw.id="+board)
	}
	for _, d := range devices {
		id, _, _ := strings.Cut(strings.TrimPrefix(d, "hw.id="), ",")
		if rapid.Bool().Draw(t, "utilization") {
			line("", "hw.gpu.utilization", d+", hw.gpu.task=general", rapid.Float64Range(0, 1.1).Draw(t, "utilization"))
			utilized[id] = true
		}
		if n := rapid.IntRange(-1, 5).Draw(t, "holders"); n == 0 {
			line("", "gpu.sharing.clients", d, 0)
		} else {
			for range n {
				pod := rapid.IntRange(0, 7).Draw(t, "pod")
				line(fmt.Sprintf(", k8s.namespace.name=ns, k8s.pod.name=p%d", pod), "gpu.device.holder", d, 1)
			}
		}
	}
	return utilized
}

// The time of a board is always counted as allocated, unallocated, or unobserved. If a utilization
// is known, the allocated time is divided into active and idle time. The test generates random
// histories of holders, gaps, clean restarts, and layouts. The histories also contain single
// batches that have a wrong timestamp.
func TestTheTimeOfABoardIsConserved(test *testing.T) {
	rapid.Check(test, func(t *rapid.T) {
		m := storagetest.NewMemory(nil)
		var sink *consumertest.MetricsSink
		var p processor.Metrics
		start := func() {
			cfg := testConfig()
			cfg.Storage = &storagetest.ID
			sink = &consumertest.MetricsSink{}
			var err error
			p, err = NewFactory().CreateMetrics(context.Background(), processortest.NewNopSettings(metadata.Type), cfg, sink)
			require.NoError(t, err)
			require.NoError(t, p.Start(context.Background(), m))
		}
		start()
		seen := &increases{last: map[string]counterPoint{}}
		now := 10_000 * time.Second
		began := now
		boards := rapid.IntRange(1, 3).Draw(t, "boards")
		for i := range rapid.IntRange(2, 12).Draw(t, "frames") {
			if i > 0 {
				// The processor treats the batches as a backlog, because the batches arrive much
				// faster than their times advance. If the intervals were shorter, a delay on a busy
				// machine could cause the processor to treat the batches as live batches.
				now += time.Duration(rapid.OneOf(rapid.Int64Range(20e9, 90e9), rapid.Int64Range(90e9, 2000e9)).Draw(t, "nanoseconds"))
			}
			if wrong := rapid.SampledFrom([]time.Duration{0, now - time.Hour, time.Duration(time.Now().Add(2 * time.Minute).UnixNano())}).Draw(t, "wrong stamp"); i > 0 && wrong != 0 {
				var b strings.Builder
				for board := range boards {
					drawBoard(t, &b, wrong, fmt.Sprint("GPU-", board))
				}
				require.NoError(t, p.ConsumeMetrics(context.Background(), parse(test, b.String(), false)))
				before := seen.total
				seen.add(t, sink.AllMetrics()[len(sink.AllMetrics())-1])
				require.Equal(t, before, seen.total)
			}
			var b strings.Builder
			utilized := map[string]bool{}
			for board := range boards {
				for id := range drawBoard(t, &b, now, fmt.Sprint("GPU-", board)) {
					utilized[id] = true
				}
			}
			require.NoError(t, p.ConsumeMetrics(context.Background(), parse(test, b.String(), false)))
			seen.add(t, sink.AllMetrics()[len(sink.AllMetrics())-1])
			allocated := seen.grown[signal.K8sContainerGPUAllocatedTime.Name]
			for id, v := range allocated {
				split := seen.grown[signal.K8sContainerGPUActiveTime.Name][id] + seen.grown[signal.K8sContainerGPUIdleTime.Name][id]
				if !utilized[id] {
					v = 0
				}
				require.InDelta(t, v, split, 1e-9, "active + idle of %s", id)
			}
			passed := (now - began).Seconds()
			assert.InDelta(t, float64(boards)*passed, seen.total, 1e-9*max(1, passed))
			if rapid.IntRange(0, 4).Draw(t, "restart") == 0 {
				require.NoError(t, p.Shutdown(context.Background()))
				m = storagetest.NewMemory(m.Values())
				start()
			}
		}
		require.NoError(t, p.Shutdown(context.Background()))
	})
}
