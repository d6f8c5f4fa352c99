package window

import (
	"math"
	"slices"
	"sync"
	"time"
)

// maxSealed is the number of closed windows that wait to be fetched before the oldest
// is dropped. It bounds the memory if nothing fetches them.
const maxSealed = 8

// Outcome is what happened to one sample.
type Outcome uint8

// The outcomes of a sample.
const (
	Accepted       Outcome = iota // counts in full, or is the baseline of a counter
	Late                          // dropped: its window is closed
	Future                        // dropped: it lies more than one window ahead
	Duplicate                     // ignored: the series was seen at that time
	OutOfOrder                    // older than the series' last one: skipped by counters, counts for others
	Refused                       // dropped: it would start a series above the limit
	ImpossibleStep                // its counter of seconds outran time: only a new baseline
	NoValue                       // no observation: NaN, infinite, or negative where a counter cannot be
	Ignored                       // read by no rule and not carried by windows
	Implausible                   // dropped: a ratio far outside of [0, 1]
	Outcomes                      // their number
)

var outcomeNames = [Outcomes]string{
	"accepted", "late", "future", "duplicate", "out_of_order", "refused", "impossible_step", "no_value", "ignored", "implausible",
}

// String returns the outcome's name in self-metrics.
func (o Outcome) String() string { return outcomeNames[o] }

// Stats count what the engine has done since it was made.
type Stats struct {
	Samples        [Outcomes]uint64
	Clamped        uint64 // samples and window ratios that were clamped to [0, 1]
	Unkept         uint64 // samples for which a quantile had no room
	WindowsClosed  uint64 // windows that were fetched
	WindowsDropped uint64 // windows lost to a clock step or because nobody fetched them
	ClockSteps     uint64 // steps of the wall clock backwards by more than MaxGap
	SeriesEnded    uint64 // series that were idle for too long
	Series         int    // series that are tracked now
	// WindowsPaired counts fetched windows with a pair of consecutive samples of a
	// device; ShortestPair is the shortest such pair, 0 when there was none.
	WindowsPaired uint64
	ShortestPair  time.Duration
}

// Engine holds the state of all series and open windows. It is safe for
// concurrent use.
type Engine struct {
	mu  sync.Mutex
	set Settings
	// length, grace, maxGap and idle are the settings in nanoseconds.
	length, grace, maxGap, idle int64
	print                       uint64 // the fingerprint of the settings
	rules                       []*Rule
	plans                       map[planKey]*plan
	coverage, samples           *metric // nil when not emitted

	places       map[string]*place
	nodes        map[string]*node // by name
	order        []*place         // in the order in which they were first seen
	shared       shared
	sightedShape shape  // of points of which no window is made
	lastSeq      uint64 // the last sequence number; it orders places, devices, and series

	clock    int64 // the highest wall clock since the last step
	closed   int64 // end of the newest closed window
	sentUpTo int64 // end of the newest window that was fetched or could have been
	era      int   // steps of the clock
	// windows are those that were not fetched yet, oldest first. Those of an earlier era
	// come first: they had closed when the clock stepped back, so they get no more samples.
	windows []*openWindow

	stopped bool // no more samples come

	cursor   int   // where the search for idle series goes on
	oldest   int64 // no series was seen before
	nextScan int64

	keys   []rowKey // of the rows that were sorted last
	ingest Ingest
	stats  Stats
}

// openWindow is a window that was not sent.
type openWindow struct {
	end  int64
	era  int
	sent bool
}

// New returns an engine that starts at the wall clock now.
func New(set Settings, now time.Time) *Engine {
	e := &Engine{
		set:    set,
		length: int64(set.Window), grace: int64(set.Grace), maxGap: int64(set.MaxGap), idle: int64(set.IdleTimeout),
		places: map[string]*place{}, nodes: map[string]*node{}, clock: now.UnixNano(), oldest: math.MaxInt64,
	}
	e.shared.clear()
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
	e.ingest.e = e
	return e
}

func (e *Engine) nextSeq() uint64 {
	e.lastSeq++
	return e.lastSeq
}

// Stats returns the counts so far.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stats
}

// closedAt returns the end of the newest window that is closed at the wall
// clock now.
func (e *Engine) closedAt(now int64) int64 {
	t := now - e.grace
	end := t / e.length * e.length
	if end > t {
		end -= e.length
	}
	return end
}

// observe sets the wall clock.
func (e *Engine) observe(now int64) {
	if now < e.clock-e.maxGap {
		e.stepBack(now)
	}
	e.clock = max(e.clock, now)
	e.closed = max(e.closed, e.closedAt(e.clock))
}

// stepBack starts again at a wall clock that was set back: open windows and previous
// samples have times that no longer count. Windows that had closed are still sent.
func (e *Engine) stepBack(now int64) {
	e.stats.ClockSteps++
	for len(e.windows) > 0 && !e.due(e.windows[len(e.windows)-1], e.closed) {
		e.drop(len(e.windows) - 1)
	}
	e.era++
	e.restartNodes()
	for _, p := range e.order {
		for _, d := range p.list {
			d.Before, d.Newest, d.Second = 0, 0, 0
			for _, s := range d.series {
				s.Last, s.Moved = 0, 0
				s.Seen = min(s.Seen, now)
			}
		}
	}
	e.nextScan = 0
	e.clock = now
	e.closed = e.closedAt(now)
	e.sentUpTo = min(e.sentUpTo, e.closed)
}

// due reports whether a window is among those up to a time.
func (e *Engine) due(w *openWindow, upTo int64) bool { return w.era != e.era || w.end <= upTo }

// drop drops a window.
func (e *Engine) drop(i int) {
	e.stats.WindowsDropped++
	e.windows[i].sent = true
	e.windows = slices.Delete(e.windows, i, i+1)
}

// ClosedUpTo returns the end of the newest window that is closed at the wall
// clock now, and whether a window up to there waits to be fetched.
func (e *Engine) ClosedUpTo(now time.Time) (end time.Time, pending bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.observe(now.UnixNano())
	return time.Unix(0, e.closed), len(e.windows) > 0 && e.due(e.windows[0], e.closed)
}

// NextClose returns the wall clock at which the next window closes.
func (e *Engine) NextClose() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return time.Unix(0, e.closed+e.length+e.grace)
}

// window returns the window that holds t, which is not closed.
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
