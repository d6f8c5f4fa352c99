// Package idle has the power that a board draws without work: configured, else learned while
// nothing ran. It does not use pdata.
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

// Kind is where a baseline comes from.
type Kind uint8

// The kinds of baseline.
const (
	Unknown Kind = iota
	Configured
	Learned

	// NumKinds is the number of kinds.
	NumKinds
)

// String returns the kind as self-metrics show it.
func (k Kind) String() string {
	return [...]string{"unknown", "configured", "learned"}[k]
}

// Layout is how a board is cut: its MIG profiles in use, each with its number,
// sorted, such as "1g.10gb*4,3g.40gb*1". It is empty for a board that is not cut.
type Layout string

// LayoutOf returns the layout of a board with instances of these profiles. An instance without a
// known profile is a "?". The profile of a compute instance (1c.3g.40gb) counts as that of its
// GPU instance (3g.40gb).
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

// Table holds what was configured, in W. The most specific entry counts: UUID,
// then model, then All.
type Table struct {
	ByUUID map[string]float64
	// ByModel goes by folded names, see [catalogue.FoldModel].
	ByModel map[string]float64
	// All is for every other board; nil for none.
	All *float64
}

// Lookup returns the configured baseline of a board, in W. It reports false when
// none is configured. uuid is the hw.id of the board.
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

// Baseline is the lowest power that a board was seen to draw while nothing ran.
type Baseline struct {
	// Watts is that power.
	Watts float64 `json:"watts"`
	// Lowest is when Watts was drawn, Quiet when nothing ran last; nanoseconds
	// since the epoch.
	Lowest int64 `json:"lowest"`
	Quiet  int64 `json:"quiet"`
	// Next is the lowest power since Lowest, drawn at NextTime: what counts when
	// Watts is too old. A NextTime of 0 is none.
	Next     float64 `json:"next,omitempty"`
	NextTime int64   `json:"next_time,omitempty"`

	told int64 // the Quiet that was last reported as changed
}

// Sample is the power of a board while nothing ran on it, as far as is known.
type Sample struct {
	Layout Layout
	// Time is in nanoseconds since the epoch.
	Time  int64
	Watts float64
	// Until is until when it is sure that nothing ran. After it something may have
	// begun, which a sample that is not quiet will tell.
	Until int64
}

// One sample is no baseline: a sensor may err, and a board that has just become
// idle still draws more. So power counts only in runs of quiet samples, each with
// the highest power in it.
const (
	runSamples = 3
	runTime    = time.Minute
)

// run is the power of a board since something last ran, or since the run before.
type run struct {
	layout      Layout
	first, last int64
	samples     int
	highest     float64
}

// Learner keeps the baselines of one board, one for each layout: a board that is
// cut draws more. The zero Learner knows nothing.
type Learner struct {
	Baselines map[Layout]Baseline
	run       run
}

// maxLayouts bounds what one board can make the Learner remember.
const maxLayouts = 8

// Busy says that something ran: a run of quiet samples ends, and counts no more.
func (l *Learner) Busy() { l.run = run{} }

// Quiet takes in a sample. It reports whether what Lookup answers changed, or
// Quiet moved by more than a tenth of expire since that was reported last.
func (l *Learner) Quiet(s Sample, expire time.Duration) bool {
	if r := &l.run; s.Layout != r.layout || s.Time < r.last {
		l.run = run{layout: s.Layout}
	} else if s.Time == r.last {
		return false
	}
	// What came before may be sure only now.
	changed := l.settle(s.Until, expire)
	r := &l.run
	if r.samples == 0 {
		r.first = s.Time
	}
	r.last, r.samples, r.highest = s.Time, r.samples+1, max(r.highest, s.Watts)
	return l.settle(s.Until, expire) || changed
}

// settle learns from the run when it is long enough and it is sure that nothing
// ran in it; then the next one begins.
func (l *Learner) settle(until int64, expire time.Duration) bool {
	r := l.run
	if r.samples < runSamples || r.last-r.first < int64(runTime) || r.last > until {
		return false
	}
	l.run = run{layout: r.layout, last: r.last}
	return l.learn(r.layout, r.last, r.highest, expire)
}

// learn takes over the power of a run. A lowest power older than expire gives way
// to the lowest since, because drivers and exporters change what an idle board
// draws.
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
	changed := !ok || b.Watts != was || expired(b.told, t, expire/10)
	if changed {
		b.told = t
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

// Lookup returns the learned baseline at time t, in W. It reports false when
// nothing was learned within expire.
func (l *Learner) Lookup(layout Layout, t int64, expire time.Duration) (float64, bool) {
	b, ok := l.Baselines[layout]
	if !ok || expired(b.Quiet, t, expire) {
		return 0, false
	}
	return b.Watts, true
}

// expired reports whether the times lie more than d apart. Time that ran
// backwards is as good a reason for doubt as time that went by.
func expired(then, t int64, d time.Duration) bool {
	return t-then > int64(d) || then-t > int64(d)
}
