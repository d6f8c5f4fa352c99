// Package idle determines the idle power of a board. The idle power is either configured or learned
// from samples that were taken while the board was idle. Package idle does not use pdata.
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

// Kind describes where a baseline comes from. A baseline is the idle power of a board.
type Kind uint8

// The kinds of baseline.
const (
	Unknown Kind = iota
	Configured
	Learned

	// NumKinds is the number of kinds.
	NumKinds
)

// String returns the kind as an attribute value of the self-metrics.
func (k Kind) String() string {
	return [...]string{"unknown", "configured", "learned"}[k]
}

// Layout describes how a board is partitioned. A Layout is a sorted list of MIG profiles, each with
// its number of instances, such as "1g.10gb*4,3g.40gb*1". The Layout of a board without instances
// is empty.
type Layout string

// LayoutOf returns the layout of a board whose instances have the given profiles. In the layout,
// "?" stands for an unknown profile. The profile of a compute instance, such as 1c.3g.40gb, is
// replaced with the profile of its GPU instance, such as 3g.40gb.
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

// Table contains the configured baselines, in W. The most specific baseline that matches a board is
// used. ByUUID is more specific than ByModel, and ByModel is more specific than All.
type Table struct {
	ByUUID map[string]float64
	// The keys of ByModel are models in the form that [catalogue.FoldModel] returns.
	ByModel map[string]float64
	// All is the baseline for boards that match neither ByUUID nor ByModel, or nil if no such
	// baseline is configured.
	All *float64
}

// Lookup returns the configured baseline of a board, in W. If no baseline is configured for the
// board, Lookup returns false. The uuid parameter is the hw.id of the board.
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

// Baseline is the learned idle power of a board: the lowest result of the runs of quiet samples.
// The result of a run is the highest power in the run.
type Baseline struct {
	// Watts is the baseline, in W.
	Watts float64 `json:"watts"`
	// Lowest is the time at which Watts was measured. Quiet is the last time at which the board was
	// known to be idle. Lowest and Quiet are in nanoseconds since the epoch.
	Lowest int64 `json:"lowest"`
	Quiet  int64 `json:"quiet"`
	// Next is the lowest power that was measured after Lowest, and NextTime is when Next was
	// measured. When Watts expires, Next replaces Watts. If Next is not set, NextTime is 0.
	Next     float64 `json:"next,omitempty"`
	NextTime int64   `json:"next_time,omitempty"`

	reportedQuiet int64 // reportedQuiet is the last value of Quiet that was reported as a change.
}

// Sample contains the power of a board that appears to be idle.
type Sample struct {
	Layout Layout
	// Time is the sample time, in nanoseconds since the epoch.
	Time  int64
	Watts float64
	// Until is the last time at which the board was known to be idle. After Until, the board may
	// have been busy. Therefore, a sample whose Time is after Until counts as quiet only after a
	// later sample confirms that the board was still idle at Time.
	Until int64
}

// A single sample is not enough to learn a baseline, because a sensor can report a wrong value, and
// because a board draws more power for a short time after the board was busy. Therefore, a baseline
// is learned only from runs of quiet samples. From each run, the highest power is used.
const (
	runSamples = 3
	runTime    = time.Minute
)

// run describes the sequence of quiet samples since the board was last busy, or since the previous
// run ended.
type run struct {
	layout      Layout
	first, last int64
	samples     int
	highest     float64
}

// Learner learns the baselines of one board. There is one baseline for each layout, because a
// partitioned board draws more power. The zero value is a Learner without baselines.
type Learner struct {
	Baselines map[Layout]Baseline
	run       run
}

// maxLayouts is the maximum number of layouts for which baselines are kept per board.
const maxLayouts = 8

// Busy records that the board was busy, and discards the current run of quiet samples.
func (l *Learner) Busy() { l.run = run{} }

// AddIdle adds a sample of a board that appears to be idle. AddIdle returns true if the learned
// baseline has changed, or if Baseline.Quiet has advanced by more than expire/10 since AddIdle last
// returned true.
func (l *Learner) AddIdle(s Sample, expire time.Duration) bool {
	if r := &l.run; s.Layout != r.layout || s.Time < r.last {
		l.run = run{layout: s.Layout}
	} else if s.Time == r.last {
		return false
	}
	// The Until time of the new sample can confirm that the board was idle during the earlier
	// samples.
	changed := l.learnFromRun(s.Until, expire)
	r := &l.run
	if r.samples == 0 {
		r.first = s.Time
	}
	r.last, r.samples, r.highest = s.Time, r.samples+1, max(r.highest, s.Watts)
	return l.learnFromRun(s.Until, expire) || changed
}

// If the current run is long enough and the board was known to be idle during the entire run,
// learnFromRun calls learn, starts a new run, and returns the result of learn. Otherwise,
// learnFromRun returns false.
func (l *Learner) learnFromRun(until int64, expire time.Duration) bool {
	r := l.run
	if r.samples < runSamples || r.last-r.first < int64(runTime) || r.last > until {
		return false
	}
	l.run = run{layout: r.layout, last: r.last}
	return l.learn(r.layout, r.last, r.highest, expire)
}

// learn updates the baseline of a layout with the highest power in a run. If the baseline is older
// than expire, learn replaces the baseline with the lowest power that was measured since then,
// because changes to drivers or exporters can change a board's idle power.
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

// Lookup returns the baseline that was learned for a layout, in W. If more time than expire has
// passed since the board was last idle, Lookup returns false.
func (l *Learner) Lookup(layout Layout, t int64, expire time.Duration) (float64, bool) {
	b, ok := l.Baselines[layout]
	if !ok || expired(b.Quiet, t, expire) {
		return 0, false
	}
	return b.Watts, true
}

// expired reports whether the two times are more than d apart, in either direction. A time in the
// future can also expire, because a future time shows that the clock was set back.
func expired(then, t int64, d time.Duration) bool {
	return t-then > int64(d) || then-t > int64(d)
}
