package window

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// maxSealed is the maximum number of closed windows that have not been fetched. Beyond this limit,
// the oldest window is dropped. This bounds the memory usage if the caller stops fetching.
const maxSealed = 8

// Outcome is the result of adding one sample.
type Outcome uint8

// The outcomes of a sample.
const (
	Accepted       Outcome = iota // used completely, or as the baseline of a counter
	Late                          // dropped: its window is closed
	Future                        // dropped: it is more than one window ahead
	Duplicate                     // ignored: the series already has a sample with this time
	OutOfOrder                    // older than the last sample of its series: ignored for counters, used for others
	Refused                       // dropped: it would create a series beyond the limit
	ImpossibleStep                // used only as a new baseline: its counter of seconds advanced faster than time
	NoValue                       // dropped: NaN, infinite, or a negative counter value
	Ignored                       // ignored: no rule reads it, and windows do not carry it
	Implausible                   // dropped: a ratio far outside [0, 1]
	Outcomes                      // the number of outcomes
)

var outcomeNames = [Outcomes]string{
	"accepted", "late", "future", "duplicate", "out_of_order", "refused", "impossible_step", "no_value", "ignored", "implausible",
}

// String returns the outcome's name in self-metrics.
func (o Outcome) String() string { return outcomeNames[o] }

// Stats contains the counts since the engine was created.
type Stats struct {
	Samples        [Outcomes]uint64
	Clamped        uint64 // samples and window ratios that were clamped to [0, 1]
	Unkept         uint64 // samples that a quantile could not store
	WindowsClosed  uint64 // windows that were fetched
	WindowsDropped uint64 // windows that were lost because of a clock step or because they were not fetched
	ClockSteps     uint64 // backward steps of the wall clock by more than MaxGap
	SeriesEnded    uint64 // series that ended because they were idle
	Series         int    // series that are currently tracked
	// WindowsPaired is the number of fetched windows that contain two consecutive samples of a
	// device. ShortestPair is the shortest time between two such samples, or 0 if no window
	// contains them.
	WindowsPaired uint64
	ShortestPair  time.Duration
}

// Engine holds the state of all series and open windows. It is safe for concurrent use. Each node
// has its own lock, so that samples of different nodes can be added at the same time. A node's lock
// is taken before the engine's.
type Engine struct {
	set Settings
	// length, grace, maxGap, and idle are the settings in nanoseconds.
	length, grace, maxGap, idle int64
	print                       uint64 // fingerprint of the settings
	rules                       []*Rule
	plans                       map[planKey]*plan
	coverage, samples           *metric       // nil if they are not emitted
	sightedShape                shape         // shape of points that windows do not use
	lastSeq                     atomic.Uint64 // last sequence number, for the order of places, devices, and series
	series                      atomic.Int64  // number of series

	mu      sync.Mutex // guards the following fields
	nodes   map[string]*node
	order   []*node // in the order in which they were first seen
	scopes  table[Scope, scope]
	metrics table[metricKey, metric]
	shapes  table[shapeKey, shape]

	clock     int64 // latest wall clock time since the last clock step
	closed    int64 // end of the newest closed window
	sentUpTo  int64 // latest upTo of Fetch: no window up to this time is sent again
	era       int   // number of clock steps
	steppedTo int64 // wall clock time at the last clock step
	// windows are the windows that have not been fetched, oldest first. Windows of an earlier era
	// come first. They were already closed when the clock was set back, so they receive no more
	// samples.
	windows []*openWindow

	stopped bool // no more samples will arrive

	searching []*node // nodes that the current search for idle series has not reached
	oldest    int64   // no series was last seen before this time
	nextScan  int64   // time before which no search for idle series starts

	stats Stats
}

// openWindow is a window that has not been sent.
type openWindow struct {
	end  int64
	era  int
	sent atomic.Bool
}

// New returns an engine that starts at the wall clock now.
func New(set Settings, now time.Time) *Engine {
	e := &Engine{
		set:    set,
		length: int64(set.Window), grace: int64(set.Grace), maxGap: int64(set.MaxGap), idle: int64(set.IdleTimeout),
		nodes: map[string]*node{}, clock: now.UnixNano(), oldest: math.MaxInt64,
	}
	emitted := func(m Metric) *metric {
		if slices.Contains(set.Disabled, m.Name) {
			return nil
		}
		return &metric{seq: e.nextSeq(), Metric: &m}
	}
	e.rules = compile(set.Rules, emitted)
	e.plans = rulesByMetric(e.rules)
	e.print = set.fingerprint()
	e.coverage, e.samples = emitted(set.Coverage), emitted(set.Samples)
	e.closed = e.closedAt(e.clock)
	return e
}

func (e *Engine) nextSeq() uint64 { return e.lastSeq.Add(1) }

// Stats returns the current counts.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.stats
	s.Series = int(e.series.Load())
	return s
}

// closedAt returns the end of the newest window that is closed at the wall clock time now.
func (e *Engine) closedAt(now int64) int64 {
	t := now - e.grace
	end := t / e.length * e.length
	if end > t {
		end -= e.length
	}
	return end
}

// observe advances the wall clock to now, or detects that it was set back.
func (e *Engine) observe(now int64) {
	if now < e.clock-e.maxGap {
		e.stepBack(now)
	}
	e.clock = max(e.clock, now)
	e.closed = max(e.closed, e.closedAt(e.clock))
}

// stepBack restarts the engine after the wall clock was set back to now. The times of open windows
// and previous samples are no longer valid: see node.restart. Windows that were already closed are
// still sent.
func (e *Engine) stepBack(now int64) {
	e.stats.ClockSteps++
	for len(e.windows) > 0 && !e.due(e.windows[len(e.windows)-1], e.closed) {
		e.drop(len(e.windows) - 1)
	}
	e.era++
	e.steppedTo = now
	e.nextScan = 0
	e.clock = now
	e.closed = e.closedAt(now)
	e.sentUpTo = min(e.sentUpTo, e.closed)
}

// due reports whether a window ends at or before upTo, or belongs to an earlier era.
func (e *Engine) due(w *openWindow, upTo int64) bool { return w.era != e.era || w.end <= upTo }

// drop drops the window with index i.
func (e *Engine) drop(i int) {
	e.stats.WindowsDropped++
	e.windows[i].sent.Store(true)
	e.windows = slices.Delete(e.windows, i, i+1)
}

// ClosedUpTo returns the end of the newest window that is closed at the wall clock time now.
// pending is true if a window that ends at or before this time has not been fetched.
func (e *Engine) ClosedUpTo(now time.Time) (end time.Time, pending bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.observe(now.UnixNano())
	return time.Unix(0, e.closed), len(e.windows) > 0 && e.due(e.windows[0], e.closed)
}

// NextClose returns the wall clock time at which the next window closes.
func (e *Engine) NextClose() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return time.Unix(0, e.closed+e.length+e.grace)
}

// window returns the open window that contains t.
func (e *Engine) window(t int64) *openWindow {
	at := len(e.windows)
	for ; at > 0; at-- {
		w := e.windows[at-1]
		if w.era != e.era || t > w.end {
			break
		}
		if t > w.end-e.length {
			return w
		}
	}
	w := &openWindow{end: (t + e.length - 1) / e.length * e.length, era: e.era}
	e.windows = slices.Insert(e.windows, at, w)
	if len(e.windows) > maxSealed && e.due(e.windows[maxSealed], e.closed) {
		e.drop(0)
	}
	return w
}
