// Package idle says how much power a board draws without work: what was
// configured, else what was learned while nothing ran. It knows nothing of pdata.
package idle

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/dcgm"
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

// LayoutOf returns the layout of a board with instances of these profiles. An
// instance without a known profile is a "?".
func LayoutOf(profiles []string) Layout {
	count := map[string]int{}
	for _, p := range profiles {
		if p == "" {
			p = "?"
		}
		count[p]++
	}
	return layout(count)
}

func layout(count map[string]int) Layout {
	parts := make([]string, 0, len(count))
	for p, n := range count {
		parts = append(parts, p+"*"+strconv.Itoa(n))
	}
	slices.Sort(parts)
	return Layout(strings.Join(parts, ","))
}

// maxInstances is more than any board can be cut into.
const maxInstances = 64

// ParseLayout reads a layout as users write it: profiles in any order, separated
// by commas, each with an optional *<number>.
func ParseLayout(text string) (Layout, error) {
	count := map[string]int{}
	for part := range strings.SplitSeq(text, ",") {
		profile, times, counted := strings.Cut(strings.TrimSpace(part), "*")
		n := 1
		if counted {
			var err error
			if n, err = strconv.Atoi(times); err != nil || n < 1 || n > maxInstances {
				return "", fmt.Errorf("%q is not a number of instances from 1 to %d", times, maxInstances)
			}
		}
		if _, ok := dcgm.ParseProfile(profile); !ok {
			return "", fmt.Errorf("%q is not a MIG profile such as 1g.10gb", profile)
		}
		count[profile] += n
	}
	return layout(count), nil
}

// FoldModel makes model names comparable: exporters may replace blanks by
// dashes, and vendors vary the case.
func FoldModel(model string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(model), func(r rune) bool {
		return r == ' ' || r == '-' || r == '_'
	}), " ")
}

// Table holds what was configured, in W. The most specific entry counts: UUID,
// then layout, then model, then All.
type Table struct {
	ByUUID   map[string]float64
	ByLayout map[Layout]float64
	// ByModel goes by folded names.
	ByModel map[string]float64
	// All is for every other board; nil for none.
	All *float64
}

// Lookup returns the configured baseline of a board, in W. It reports false when
// none is configured. uuid is the hw.id of the board.
func (t *Table) Lookup(uuid, model string, l Layout) (float64, bool) {
	if w, ok := t.ByUUID[uuid]; ok {
		return w, true
	}
	if l != "" {
		if w, ok := t.ByLayout[l]; ok {
			return w, true
		}
	}
	if len(t.ByModel) > 0 {
		if w, ok := t.ByModel[FoldModel(model)]; ok {
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
}

// Learner keeps the baselines of one board, one for each layout: a board that is
// cut draws more. The zero Learner knows nothing.
type Learner struct {
	Baselines map[Layout]Baseline
}

// maxLayouts bounds what one board can make the Learner remember.
const maxLayouts = 8

// Quiet takes in what the board drew at time t, in nanoseconds since the epoch,
// while nothing ran. A lowest power older than expire gives way: drivers and
// exporters change what an idle board draws. It reports whether what Lookup
// answers changed, or Quiet moved by more than a tenth of expire.
func (l *Learner) Quiet(layout Layout, t int64, watts float64, expire time.Duration) bool {
	b, ok := l.Baselines[layout]
	was := b
	if !ok || watts <= b.Watts || expired(b.Lowest, t, expire) {
		b.Watts, b.Lowest = watts, t
	}
	b.Quiet = t
	if l.Baselines == nil {
		l.Baselines = map[Layout]Baseline{}
	}
	if !ok && len(l.Baselines) >= maxLayouts {
		l.forgetOldest()
	}
	l.Baselines[layout] = b
	return !ok || b.Watts != was.Watts || expired(was.Quiet, t, expire/10)
}

func (l *Learner) forgetOldest() {
	var oldest Layout
	first := true
	for k, b := range l.Baselines {
		if first || b.Quiet < l.Baselines[oldest].Quiet {
			oldest, first = k, false
		}
	}
	delete(l.Baselines, oldest)
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
