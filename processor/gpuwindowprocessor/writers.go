package gpuwindowprocessor

import (
	"maps"
	"math"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor/internal/window"
)

// conflictDetector detects whether two collectors send samples of the same GPU. A sample does not
// show which collector sent it, so the samples of one collector cannot be dropped. The start time
// of a collector's counter changes only when the collector restarts. Therefore, if the start time
// of a counter alternates between two values, there must be a second collector. If there are no
// error counters, the energy counter shows the conflict: the values of the two exporters differ
// slightly, so the energy repeatedly decreases by a small amount.
type conflictDetector struct {
	logger *zap.Logger
	idle   time.Duration // a counter without samples for this time is deleted

	mu       sync.Mutex // guards the following fields
	counters map[counterID]*counterStarts
	swept    time.Time
	trouble  componenthelper.Trouble
}

// counterID identifies a counter of a device: the energy counter, or the error counter for one kind
// of error.
type counterID struct {
	place  gpudata.Place
	device string
	energy bool
	own    string // own attributes of the counter
}

const (
	// If the energy decreases at least conflictFalls times, with at most maxRisesBetweenFalls
	// increases between consecutive decreases, two collectors send its samples.
	conflictFalls        = 3
	maxRisesBetweenFalls = 4
)

// counterStarts contains the last two start times and the newest sample time of a counter. For the
// energy counter, counterStarts also contains the last value and the number of decreases and
// increases.
type counterStarts struct {
	current, previous, newest int64
	value                     float64
	falls, rises              int
}

// The check method checks a point of an error counter or an energy counter. If two collectors send
// samples of the point's device, check logs a warning once.
func (w *conflictDetector) check(of *window.ResourceKey, energy bool, p *window.Point, now time.Time) {
	if of.Holder != (gpudata.Holder{}) || p.Device == "" || p.Start == 0 && !energy || math.IsNaN(p.Value.Float()) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if now.Sub(w.swept) >= w.idle {
		maps.DeleteFunc(w.counters, func(_ counterID, c *counterStarts) bool { return c.newest < now.Add(-w.idle).UnixNano() })
		w.swept = now
	}
	c := w.counters[counterID{of.Place, p.Device, energy, string(p.Own)}]
	if c == nil {
		id := counterID{of.Place.Clone(), strings.Clone(p.Device), energy, string(p.Own)}
		w.counters[id] = &counterStarts{current: p.Start, newest: p.Time, value: p.Value.Float()}
	} else if c.isConflict(energy, p) && w.trouble.ShouldLog(now) {
		w.logger.Warn("Two collectors send samples of one GPU. The samples are mixed, so the windows of the GPU are wrong: errors are missed, and counters "+
			"decrease. Scrape each exporter from only one collector. If two exporters expose the GPU, scrape both from the same collector, which keeps only one of them. "+
			"If only one collector scrapes the GPU, its exporter's counter is faulty.",
			zap.String("node", of.Place.Node), zap.String("device", p.Device))
	}
}

// isConflict reports whether a counter changes back to its previous start time, or whether the
// energy decreases repeatedly.
func (c *counterStarts) isConflict(energy bool, p *window.Point) bool {
	if p.Time <= c.newest { // the point is late
		return false
	}
	c.newest = p.Time
	switch {
	case energy:
		return c.isRepeatedFall(p.Value.Float())
	case p.Start == c.current:
		return false
	}
	isPrevious := p.Start == c.previous
	c.current, c.previous = p.Start, c.current
	return isPrevious
}

// isRepeatedFall records the next value of a counter. The result is true if the counter has
// decreased so often that driver restarts cannot be the reason.
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
