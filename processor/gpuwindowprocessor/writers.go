package gpuwindowprocessor

import (
	"cmp"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.uber.org/zap"

	base "github.com/otelcol-gpu/otelcol-gpu/internal/component"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// writers notices that two collectors send samples of one GPU. Samples do not say who made
// them, so neither can be left out. But a counter that one collector makes has one start
// until that collector starts again: a start that comes back after another one is that of
// a second writer. Where no errors are watched the energy tells: of two exporters one is
// behind the other, so that it falls a little again and again.
type writers struct {
	logger   *zap.Logger
	idle     time.Duration // after which a counter is forgotten
	counters map[counterID]*counterStarts
	swept    time.Time
	twice    base.Trouble
}

// counterID is a counter of a device: its energy, or errors of one kind.
type counterID struct {
	cluster, node, device string
	energy                bool
	kind                  string
}

const (
	// manyFalls of the energy, with less than fewRises from one to the next, are those of
	// two writers.
	manyFalls = 3
	fewRises  = 4
)

// counterStarts are the start times that a counter had, and its newest sample time; of the
// energy its value, and how often it fell.
type counterStarts struct {
	now, before, at pcommon.Timestamp
	value           float64
	falls, rises    int
}

// batch looks at the counters in a batch, and says once that a device has two writers.
func (w *writers) batch(md pmetric.Metrics, now time.Time) {
	for _, rm := range md.ResourceMetrics().All() {
		place := rm.Resource().Attributes()
		if _, held := place.Get(signal.K8sPodName); held {
			continue
		}
		device := pdatagpu.Text(place, signal.HardwareID) // where points do not say it
		cluster, node := pdatagpu.Text(place, signal.K8sClusterName), pdatagpu.Text(place, signal.K8sNodeName)
		for _, sm := range rm.ScopeMetrics().All() {
			for _, m := range sm.Metrics().All() {
				energy := m.Name() == signal.HwEnergy.Name
				if !energy && m.Name() != signal.HwErrors.Name || m.Type() != pmetric.MetricTypeSum {
					continue
				}
				for _, dp := range m.Sum().DataPoints().All() {
					id := counterID{cluster, node, cmp.Or(pdatagpu.Text(dp.Attributes(), signal.HardwareID), device), energy, pdatagpu.Text(dp.Attributes(), signal.ErrorType)}
					if w.returns(id, dp) && w.twice.Returns(now) {
						w.logger.Warn("Two collectors send samples of one GPU. They are mixed, so that its windows are wrong: errors are missed, counters "+
							"fall. Scrape each exporter from one collector; if two exporters expose the GPU, scrape both from one, which keeps one of them.",
							zap.String("node", id.node), zap.String("device", id.device))
					}
				}
			}
		}
	}
	if now.Sub(w.swept) >= w.idle {
		w.sweep(pcommon.NewTimestampFromTime(now.Add(-w.idle)))
		w.swept = now
	}
}

// returns reports whether a counter has a start that it had before its last one, or falls
// again and again.
func (w *writers) returns(id counterID, dp pmetric.NumberDataPoint) bool {
	c := w.counters[id]
	start, at := dp.StartTimestamp(), dp.Timestamp()
	switch {
	case start == 0 && !id.energy || id.device == "" || dp.Flags().NoRecordedValue():
		return false
	case c == nil:
		if w.counters == nil {
			w.counters = map[counterID]*counterStarts{}
		}
		id = counterID{strings.Clone(id.cluster), strings.Clone(id.node), strings.Clone(id.device), id.energy, strings.Clone(id.kind)}
		w.counters[id] = &counterStarts{now: start, at: at, value: dp.DoubleValue()}
		return false
	case at <= c.at: // what was delayed on its way
		return false
	}
	c.at = at
	if id.energy {
		return c.fell(dp.DoubleValue())
	}
	if start == c.now {
		return false
	}
	known := start == c.before
	c.now, c.before = start, c.now
	return known
}

// fell takes the next value of a counter, and reports whether it fell too often for one
// that a driver's restart began anew.
func (c *counterStarts) fell(v float64) bool {
	fell := v < c.value && v > c.value/2
	c.value = v
	switch {
	case fell:
		c.falls++
		c.rises = 0
	case c.rises < fewRises:
		c.rises++
	default:
		c.falls = 0
	}
	return fell && c.falls >= manyFalls
}

// sweep forgets counters that nothing came of since a time.
func (w *writers) sweep(since pcommon.Timestamp) {
	for id, c := range w.counters {
		if c.at < since {
			delete(w.counters, id)
		}
	}
}
