// Package idle determines the idle power of a board: the configured power or, if none is
// configured, the power that was learned while the board was idle. It does not use pdata.
package idle

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
)

// Kind is the origin of a baseline.
type Kind uint8

// The kinds of baseline.
const (
	Unknown Kind = iota
	Configured
	Learned

	// NumKinds is the number of kinds.
	NumKinds
)

// String returns the value of the self-metrics' attribute.
func (k Kind) String() string {
	return [...]string{"unknown", "configured", "learned"}[k]
}

// Layout describes the partitions of a board: the sorted MIG profiles, each with its number of
// instances, such as "1g.10gb*4,3g.40gb*1". It is empty for a board without instances.
type Layout string

// LayoutOf returns the layout of a board with instances of these profiles. An unknown profile is
// "?". The profile of a compute instance (1c.3g.40gb) counts as the profile of its GPU instance
// (3g.40gb).
func LayoutOf(profiles []string) Layout {
	count := map[string]int{}
	for _, p := range profiles {
		if _, whole, part := strings.Cut(p, "c."); part {
			p = whole
		}
		count[cmp.Or(p, "?")]++
	}
	parts := make([]string, 0, len(count))
	for p, n := range count {
		parts = append(parts, p+"*"+strconv.Itoa(n))
	}
	slices.Sort(parts)
	return Layout(strings.Join(parts, ","))
}

// Table contains the configured baselines, in W. The most specific baseline is used: by UUID, then
// by model, then All.
type Table struct {
	ByUUID map[string]float64
	// The keys of ByModel are model names, folded by [catalogue.FoldModel].
	ByModel map[string]float64
	// All is the baseline of all other boards, or nil.
	All *float64
}

// Lookup returns the configured baseline of a board, in W, or false if there is none. uuid is the
// hw.id of the board.
func (t *Table) Lookup(uuid, model string) (float64, bool) {
	if w, ok := t.ByUUID[uuid]; ok {
		return w, true
	}
	if len(t.ByModel) > 0 {
		if w, ok := t.ByModel[catalogue.FoldModel(model)]; ok {
			return w, true
		}
	}
	if t.All != nil {
		return *t.All, true
	}
	return 0, false
}

// Baseline is the lowest power that a board drew while it was idle.
type Baseline struct {
	// Watts is the baseline, in W.
	Watts float64 `json:"watts"`
	// Lowest is the time at which Watts was measured. Quiet is the last time at which the board was
	// certainly idle. Both are in nanoseconds since the epoch.
	Lowest int64 `json:"lowest"`
	Quiet  int64 `json:"quiet"`
	// Next is the lowest power since Lowest, measured at NextTime. It replaces Watts when Watts
	// expires. NextTime is 0 if Next is not set.
	Next     float64 `json:"next,omitempty"`
	NextTime int64   `json:"next_time,omitempty"`

	reportedQuiet int64 // the last value of Quiet that was reported as a change
}

// Sample is the power of a board that seems to be idle.
type Sample struct {
	Layout Layout
	// Time is in nanoseconds since the epoch.
	Time  int64
	Watts float64
	// Until is the last time at which the board was certainly idle. The board may have been busy
	// after Until, so samples after Until are not quiet until a later Until confirms them.
	Until int64
}

// One sample is not enough for a baseline: a sensor may be wrong, and a board draws more power
// shortly after it was busy. Therefore, only runs of quiet samples are used, each with its highest
// power.
const (
	runSamples = 3
	runTime    = time.Minute
)

// run is a sequence of quiet samples since the board was last busy, or since the previous run.
type run struct {
	layout      Layout
	first, last int64
	samples     int
	highest     float64
}

// Learner learns the baselines of one board, one per layout, because a partitioned board draws more
// power. The zero Learner has no baselines.
type Learner struct {
	Baselines map[Layout]Baseline
	run       run
}

// maxLayouts limits the number of layouts per board.
const maxLayouts = 8

// Busy records that the board was busy. It discards the current run of quiet samples.
func (l *Learner) Busy() { l.run = run{} }

// AddIdle adds a sample. It reports whether the result of Lookup changed, or whether Baseline.Quiet
// advanced by more than a tenth of expire since the last report.
func (l *Learner) AddIdle(s Sample, expire time.Duration) bool {
	if r := &l.run; s.Layout != r.layout || s.Time < r.last {
		l.run = run{layout: s.Layout}
	} else if s.Time == r.last {
		return false
	}
	// The new Until may confirm the samples before this one.
	changed := l.learnFromRun(s.Until, expire)
	r := &l.run
	if r.samples == 0 {
		r.first = s.Time
	}
	r.last, r.samples, r.highest = s.Time, r.samples+1, max(r.highest, s.Watts)
	return l.learnFromRun(s.Until, expire) || changed
}

// learnFromRun learns from the run and starts the next one, if the run is long enough and the board
// was certainly idle during the run. It returns the result of learn, or false if it does not learn.
func (l *Learner) learnFromRun(until int64, expire time.Duration) bool {
	r := l.run
	if r.samples < runSamples || r.last-r.first < int64(runTime) || r.last > until {
		return false
	}
	l.run = run{layout: r.layout, last: r.last}
	return l.learn(r.layout, r.last, r.highest, expire)
}

// learn updates the baseline with the power of a run. If the lowest power is older than expire, it
// is replaced by the lowest power since then, because drivers and exporters can change the idle
// power of a board.
func (l *Learner) learn(layout Layout, t int64, watts float64, expire time.Duration) bool {
	b, ok := l.Baselines[layout]
	was := b.Watts
	if b.NextTime == 0 || watts <= b.Next || expired(b.NextTime, t, expire) {
		b.Next, b.NextTime = watts, t
	}
	switch {
	case !ok || watts <= b.Watts:
		b.Watts, b.Lowest, b.Next, b.NextTime = watts, t, 0, 0
	case expired(b.Lowest, t, expire):
		b.Watts, b.Lowest, b.Next, b.NextTime = b.Next, b.NextTime, watts, t
	}
	b.Quiet = t
	changed := !ok || b.Watts != was || expired(b.reportedQuiet, t, expire/10)
	if changed {
		b.reportedQuiet = t
	}
	if l.Baselines == nil {
		l.Baselines = map[Layout]Baseline{}
	}
	if !ok && len(l.Baselines) >= maxLayouts {
		delete(l.Baselines, slices.MinFunc(slices.Collect(maps.Keys(l.Baselines)), func(a, b Layout) int {
			return cmp.Compare(l.Baselines[a].Quiet, l.Baselines[b].Quiet)
		}))
	}
	l.Baselines[layout] = b
	return changed
}

// Lookup returns the learned baseline at time t, in W, or false if the board was not idle within
// expire.
func (l *Learner) Lookup(layout Layout, t int64, expire time.Duration) (float64, bool) {
	b, ok := l.Baselines[layout]
	if !ok || expired(b.Quiet, t, expire) {
		return 0, false
	}
	return b.Watts, true
}

// expired reports whether the times are more than d apart, in either direction. If the clock was
// set back by more than d, the value is not trusted.
func expired(then, t int64, d time.Duration) bool {
	return t-then > int64(d) || then-t > int64(d)
}
