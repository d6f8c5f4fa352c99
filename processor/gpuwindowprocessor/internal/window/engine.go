package window

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// maxSealed is the maximum number of closed windows that are kept until they are fetched. If there
// are more closed windows, the oldest one is dropped. The maximum limits memory usage if the caller
// stops fetching windows.
const maxSealed = 8

// Outcome is the result of adding one sample.
type Outcome uint8

// The outcomes of a sample.
const (
	Accepted       Outcome = iota // Fully used, or used as the baseline of a counter.
	Late                          // Dropped because its window is closed.
	Future                        // Dropped because it is ahead of the wall clock by more than the length of a window.
	Duplicate                     // Ignored because the series already has a sample with this time.
	OutOfOrder                    // Older than the last sample of its series: if the series is a counter, rules ignore the sample.
	Refused                       // Dropped because a new series or a new sample time would exceed a limit.
	ImpossibleStep                // Used only as a new baseline, because its counter of seconds advanced faster than real time.
	NoValue                       // Dropped because the value is NaN, infinite, or a negative counter value.
	Ignored                       // Ignored because no rule reads the sample and windows do not carry it.
	Implausible                   // Dropped because the value is a ratio far outside [0, 1].
	Outcomes                      // Number of outcomes.
)

var outcomeNames = [Outcomes]string{
	"accepted", "late", "future", "duplicate", "out_of_order", "refused", "impossible_step", "no_value", "ignored", "implausible",
}

// String returns the name of the outcome in self-metrics.
func (o Outcome) String() string { return outcomeNames[o] }

// Stats contains the counts since the engine was created.
type Stats struct {
	Samples        [Outcomes]uint64
	Clamped        uint64 // Samples and window ratios that were clamped to [0, 1].
	Unkept         uint64 // Samples that a quantile could not store.
	TimesRefused   uint64 // Refused samples whose times would exceed MaxSampleTimes.
	WindowsClosed  uint64 // Windows that were fetched.
	WindowsDropped uint64 // Windows that were lost because of a clock step, or because they were not fetched.
	ClockSteps     uint64 // Backward steps of the wall clock by more than MaxGap.
	SeriesEnded    uint64 // Series that ended because they were idle.
	Series         int    // Series that are currently tracked.
	// WindowsPaired is the number of fetched windows in which a device has a sample that follows an
	// earlier sample of the device. The earlier sample can be in an earlier window. ShortestPair is
	// the shortest time between two such samples, or 0 if WindowsPaired is 0.
	WindowsPaired uint64
	ShortestPair  time.Duration
}

// Engine holds the state of all series and open windows. An Engine is safe for concurrent use. Each
// node has its own lock, so that samples of different nodes can be added at the same time. A
// goroutine that needs both locks must lock the node before the engine.
type Engine struct {
	set Settings
	// length, grace, maxGap, and idle are the Window, Grace, MaxGap, and IdleTimeout settings in
	// nanoseconds.
	length, grace, maxGap, idle int64
	print                       uint64 // fingerprint of the settings
	rules                       []*Rule
	plans                       map[planKey]*plan
	coverage, samples           *metric       // Nil if these metrics are not emitted.
	sightedShape                shape         // Shape of points that windows do not use.
	lastSeq                     atomic.Uint64 // Last sequence number. The order of places, devices, and series depends on their sequence numbers.
	series                      atomic.Int64  // Number of series.

	mu      sync.Mutex // guards the following fields
	nodes   map[string]*node
	order   []*node // nodes in the order in which they were first seen
	scopes  table[Scope, scope]
	metrics table[metricKey, metric]
	shapes  table[shapeKey, shape]

	clock     int64 // Latest wall clock time since the last clock step.
	closed    int64 // End of the newest closed window.
	sentUpTo  int64 // Latest upTo that was passed to Fetch. No window that ends at or before this time is sent again.
	era       int   // Number of clock steps.
	steppedTo int64 // Wall clock time at the last clock step.
	// Windows that have not been fetched, oldest first. Windows from an earlier era come first. A
	// window from an earlier era was already closed when the clock was set back, so it receives no
	// more samples.
	windows []*openWindow

	stopped bool // no more samples will arrive

	searching []*node // Nodes that the current search for idle series has not reached.
	oldest    int64   // Every series was last seen at this time or later.
	nextScan  int64   // Time before which no search for idle series starts.

	stats Stats
}

// openWindow is a window that has not been sent.
type openWindow struct {
	end  int64
	era  int
	sent atomic.Bool
}

// New returns an engine. The now parameter is the current wall clock time.
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

// closedAt returns the end of the newest window that is closed at the wall clock time in the now
// parameter.
func (e *Engine) closedAt(now int64) int64 {
	t := now - e.grace
	end := t / e.length * e.length
	if end > t {
		end -= e.length
	}
	return end
}

// The observe method advances the engine's wall clock to the time in the now parameter, or detects
// that the wall clock was set back.
func (e *Engine) observe(now int64) {
	if now < e.clock-e.maxGap {
		e.stepBack(now)
	}
	e.clock = max(e.clock, now)
	e.closed = max(e.closed, e.closedAt(e.clock))
}

// stepBack restarts the engine after the wall clock was set back to the time in the now parameter.
// The times of open windows and of previous samples are no longer valid, so node.restart resets the
// sample times. Windows that were already closed are still sent.
func (e *Engine) stepBack(now int64) {
	e.stats.ClockSteps++
	for len(e.windows) > 0 && !e.due(e.windows[len(e.windows)-1], e.closed) {
		e.drop(len(e.windows) - 1)
	}
	e.era++
	e.steppedTo = now
	e.nextScan, e.oldest = 0, min(e.oldest, now)
	e.clock = now
	e.closed = e.closedAt(now)
	e.sentUpTo = min(e.sentUpTo, e.closed)
}

// The due method reports whether a window ends at or before upTo, or belongs to an earlier era.
func (e *Engine) due(w *openWindow, upTo int64) bool { return w.era != e.era || w.end <= upTo }

// The drop method removes the window with index i without sending it.
func (e *Engine) drop(i int) {
	e.stats.WindowsDropped++
	e.windows[i].sent.Store(true)
	e.windows = slices.Delete(e.windows, i, i+1)
}

// ClosedUpTo returns the end of the newest window that is closed at the wall clock time in the now
// parameter. The second result is true if a closed window has not been fetched.
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

// window returns the open window that contains t, and creates it if needed.
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
