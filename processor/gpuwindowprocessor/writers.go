package gpuwindowprocessor

import (
	"cmp"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.uber.org/zap"

	base "github.com/otelcol-gpu/otelcol-gpu/internal/component"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// conflictDetector detects that two collectors send samples of one GPU. Samples do not identify
// their collector, so neither can be dropped. The start time of a collector's counter changes only
// when the collector restarts. Therefore a start time that returns after another one belongs to a
// second collector. If there are no error counters, the energy shows the conflict: one of two
// exporters is behind the other, so the energy repeatedly decreases a little.
type conflictDetector struct {
	logger *zap.Logger
	idle   time.Duration // after which a counter is deleted

	mu       sync.Mutex // guards the following fields
	counters map[counterID]*counterStarts
	swept    time.Time
	trouble  base.Trouble
}

// counterID is a counter of a device: its energy, or errors of one kind.
type counterID struct {
	cluster, node, device string
	energy                bool
	kind                  string
}

const (
	// conflictFalls is the number of decreases of the energy that show two collectors, if there are
	// at most maxRisesBetweenFalls increases between them.
	conflictFalls        = 3
	maxRisesBetweenFalls = 4
)

// counterStarts has the last two start times of a counter and its newest sample time. For the
// energy, it also has the value and the numbers of decreases and increases.
type counterStarts struct {
	current, previous, newest pcommon.Timestamp
	value                     float64
	falls, rises              int
}

// checkBatch checks the counters of a batch, and logs once if two collectors send samples of one
// device.
func (w *conflictDetector) checkBatch(md pmetric.Metrics, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, rm := range md.ResourceMetrics().All() {
		resource := rm.Resource().Attributes()
		if _, held := resource.Get(signal.K8sPodName); held {
			continue
		}
		device := pdatagpu.Text(resource, signal.HardwareID) // if it is not on the points
		cluster, node := pdatagpu.Text(resource, signal.K8sClusterName), pdatagpu.Text(resource, signal.K8sNodeName)
		for _, sm := range rm.ScopeMetrics().All() {
			for _, m := range sm.Metrics().All() {
				energy := m.Name() == signal.HwEnergy.Name
				if !energy && m.Name() != signal.HwErrors.Name || m.Type() != pmetric.MetricTypeSum {
					continue
				}
				for _, dp := range m.Sum().DataPoints().All() {
					id := counterID{cluster, node, cmp.Or(pdatagpu.Text(dp.Attributes(), signal.HardwareID), device), energy, pdatagpu.Text(dp.Attributes(), signal.ErrorType)}
					if w.isConflict(id, dp) && w.trouble.Returns(now) {
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

// isConflict reports whether the start time of a counter is the one before the last, or the counter
// falls repeatedly.
func (w *conflictDetector) isConflict(id counterID, dp pmetric.NumberDataPoint) bool {
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
		w.counters[id] = &counterStarts{current: start, newest: at, value: dp.DoubleValue()}
		return false
	case at <= c.newest: // the point is late
		return false
	}
	c.newest = at
	if id.energy {
		return c.isRepeatedFall(dp.DoubleValue())
	}
	if start == c.current {
		return false
	}
	isPrevious := start == c.previous
	c.current, c.previous = start, c.current
	return isPrevious
}

// isRepeatedFall records the next value of a counter. It reports whether the counter decreased too
// often for restarts of a driver to be the reason.
func (c *counterStarts) isRepeatedFall(v float64) bool {
	fell := v < c.value && v > c.value/2
	c.value = v
	switch {
	case fell:
		c.falls++
		c.rises = 0
	case c.rises < maxRisesBetweenFalls:
		c.rises++
	default:
		c.falls = 0
	}
	return fell && c.falls >= conflictFalls
}

// sweep deletes counters that have had no sample since a time.
func (w *conflictDetector) sweep(since pcommon.Timestamp) {
	for id, c := range w.counters {
		if c.newest < since {
			delete(w.counters, id)
		}
	}
}
