package gpuwindowprocessor

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor/internal/window"
)

// Backends reject a point that is not newer than the previous point of its series. Backends compare
// timestamps in milliseconds.
func TestThePointsOfASeriesAreSentInChronologicalOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSimulation(2 * time.Second)
		s.cfg.Grace = rapid.SampledFrom([]time.Duration{0, 100 * time.Millisecond, time.Second, 3 * time.Second}).Draw(t, "grace")
		s.cfg.IdleTimeout = rapid.SampledFrom([]time.Duration{time.Second, 2 * time.Second, 5 * time.Second}).Draw(t, "idle timeout")
		s.engine = window.New(s.cfg.settings(), specOrigin)
		newest := map[string]int64{}
		sent := func(rows []window.Row) {
			for _, r := range rows {
				series := fmt.Sprint(r.Metric.Name, r.Resource.Attrs, r.Device, r.Own)
				at := r.Time / int64(time.Millisecond)
				require.Greater(t, at, newest[series], "%s (ended: %v)", series, r.Ended)
				newest[series] = at
			}
		}
		milliseconds := func(most int, name string) time.Duration {
			return time.Duration(rapid.IntRange(0, most).Draw(t, name)) * time.Millisecond
		}
		for now := time.Minute; now < 2*time.Minute; now += milliseconds(3000, "pause") {
			// Fetch the windows in the same way as the processor.
			upTo, _ := s.engine.ClosedUpTo(specOrigin.Add(now))
			for em := s.engine.Fetch(upTo); em != nil; em = s.engine.Fetch(upTo) {
				rows, _ := em.Next(nil, math.MaxInt)
				em.Close()
				sent(rows)
			}
			now += milliseconds(50, "time to send")
			rows, _ := s.engine.Expire(specOrigin.Add(now), nil, math.MaxInt)
			sent(rows)
			if rapid.Bool().Draw(t, "nothing comes") {
				continue
			}
			var batch []event
			for d := range 2 {
				at := now - milliseconds(4000, "time under way")
				id := fmt.Sprintf("GPU-%d", d)
				batch = append(batch,
					event{metric: window.Metric{Name: signal.HwGPUMemoryUtilization.Name, Kind: signal.Gauge}, device: id, time: at, value: 0.5},
					event{metric: window.Metric{Name: signal.HwErrors.Name, Kind: signal.Counter}, device: id, time: at, value: float64(now)},
				)
			}
			s.ingest(now, batch)
		}
	})
}
