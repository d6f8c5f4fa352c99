package synth

import (
	"cmp"
	"maps"
	"slices"
)

// xidSource is the kind of field from which the XID events of a device are read.
type xidSource uint8

const (
	xidNone  xidSource = iota
	xidLast            // Changes in the last code.
	xidCount           // Increases in the counts of a sliding window.
	xidTotal           // Increases in the exporter's own counters.
)

// xidState contains the state that is needed to compute one monotonic count per code from the last
// codes and from the exporter's counts.
type xidState struct {
	source xidSource
	last   int             // Last code.
	counts map[int]float64 // Last counts in the sliding window.
	totals map[int]float64 // Last values of the exporter's counters.
	hidden map[int]bool    // Codes in totals that the last scrape with counters did not contain.
	codes  []xidCounter    // Counted events, by code.
	since  int64           // Time of the first scrape with XID fields.
	time   int64           // Newest processed sample time.
}

// maxEvents is the maximum event count. Counts are converted to float64, which cannot represent all
// larger integers exactly.
const maxEvents = 1 << 53

// xidCounter counts the events with one code.
type xidCounter struct {
	code  int
	start int64 // last sample time before the first event
	count int64
}

// event is the number of XID events with one code in one scrape.
type event struct {
	code int
	n    int64
}

// readXID detects the XID events in the current scrape, and stores the values as the baseline for
// the next scrape. The first scrape of a device only sets the baseline. The result reports whether
// the baseline changed.
func (a *accumulator) readXID(t int64) (changed bool) {
	if a.device.of.Code == 0 {
		return false
	}
	s := &a.device.xid
	last, hasLast := a.get(a.device.of.Code)
	now := xidNone
	switch {
	case a.hasTotals:
		now = xidTotal
	case a.hasCounts:
		now = xidCount
	case hasLast:
		now = xidLast
	}
	if now == xidNone || t <= s.time {
		return false
	}
	a.xidSeen = true
	s.time = t
	s.since = cmp.Or(s.since, t)
	changed = a.forgetTotals()
	present := func(x xidSource) bool {
		return x == xidTotal && a.hasTotals || x == xidCount && a.hasCounts || x == xidLast && hasLast
	}
	detect := now
	switch s.source {
	case now:
	case xidNone:
		if a.prev == 0 {
			detect = xidNone // the errors of a new device may have occurred before the first scrape
		}
	default:
		// Exporters expose DCGM_EXP_XID_ERRORS_TOTAL only after an error, so the source changes
		// exactly when an event must be counted. If the previous source is still present, the
		// events of the current scrape are read from that source.
		if detect = s.source; !present(detect) {
			detect = xidNone
		}
	}
	switch detect {
	case xidLast:
		if code := int(last); code != s.last && code != 0 {
			a.events = append(a.events, event{code, 1})
		}
	case xidCount:
		a.moves(a.counts, s.counts, false)
	case xidTotal:
		a.moves(a.totals, s.totals, true)
	}
	changed = changed || s.source != now
	s.source = now
	if hasLast && s.last != int(last) {
		s.last, changed = int(last), true
	}
	if a.hasCounts && !maps.Equal(s.counts, a.counts) {
		s.counts, changed = maps.Clone(a.counts), true
	}
	if s.totals == nil && len(a.totals) > 0 {
		s.totals = map[int]float64{}
	}
	for code, v := range a.totals {
		if was, known := s.totals[code]; !known || was != v {
			s.totals[code], changed = v, true
		}
	}
	if a.hasTotals {
		changed = s.hide(a.totals) || changed
	}
	return changed
}

// hide records which of the known codes are missing from a scrape, and reports whether they changed.
func (s *xidState) hide(now map[int]float64) (changed bool) {
	var hidden map[int]bool
	for code := range s.totals {
		if _, shown := now[code]; shown {
			continue
		}
		if hidden == nil {
			hidden = map[int]bool{}
		}
		hidden[code] = true
	}
	changed = !maps.Equal(hidden, s.hidden)
	s.hidden = hidden
	return changed
}

// forgetTotals clears the stored counters if the exporter was restarted, because the exporter's
// counters then start at 0 again. A restart is detected if a counter decreased, or if only rows
// without a code remain. Rows without a code mean that no error has occurred since the exporter
// started. The absence of a single code is not treated as a restart. If the code that decreased was
// missing from the previous scrape, the exporter may have been restarted before that scrape. In
// this case, only the codes that were missing are cleared, because the counters of the other codes
// may already have been read since the restart. The result reports whether any counters were
// cleared.
func (a *accumulator) forgetTotals() bool {
	s := &a.device.xid
	restarted, earlier := a.hasTotals && len(a.totals) == 0, false
	for code, v := range a.totals {
		if v < s.totals[code] {
			restarted, earlier = restarted || !s.hidden[code], earlier || s.hidden[code]
		}
	}
	switch {
	case len(s.totals) == 0:
		return false
	case restarted:
		clear(s.totals)
	case earlier:
		maps.DeleteFunc(s.totals, func(code int, _ float64) bool { return s.hidden[code] })
	}
	return restarted || earlier
}

// The moves method appends an event for each code whose count increased. If a counter decreased, it
// is assumed to have been reset to 0.
func (a *accumulator) moves(now, before map[int]float64, counter bool) {
	for code, v := range now {
		step := v - before[code]
		if step < 0 && counter {
			step = v
		}
		if n := int64(min(step, maxEvents)); n > 0 {
			a.events = append(a.events, event{code, n})
		}
	}
	slices.SortFunc(a.events, func(x, y event) int { return cmp.Compare(x.code, y.code) })
}

// liftXID moves an event to the board if all instances with XID fields show the event, because
// exporters repeat an error of the board on each instance. The result reports whether XID counting
// started on the board.
func (a *accumulator) liftXID() (began bool) {
	var watched []*accumulator
	for _, in := range a.instances {
		if in.xidSeen {
			watched = append(watched, in)
		}
	}
	if len(watched) < 2 {
		return false
	}
	a.xidSeen = true
	if a.device.xid.since == 0 {
		a.device.xid.since = watched[0].device.xid.time
		began = true
	}
	for _, e := range slices.Clone(watched[0].events) {
		everywhere := true
		for _, in := range watched[1:] {
			everywhere = everywhere && slices.Contains(in.events, e)
		}
		if !everywhere {
			continue
		}
		a.events = append(a.events, e)
		for _, in := range watched {
			in.events = slices.DeleteFunc(in.events, func(x event) bool { return x == e })
		}
	}
	return began
}

// The count method adds the events of the current scrape to the counters of the device.
func (a *accumulator) count(t int64) {
	s := &a.device.xid
	start := t
	if a.prev != 0 {
		start = max(a.prev, a.device.unread)
	}
	for _, e := range a.events {
		i, found := slices.BinarySearchFunc(s.codes, e.code, func(c xidCounter, code int) int {
			return cmp.Compare(c.code, code)
		})
		if !found {
			s.codes = slices.Insert(s.codes, i, xidCounter{code: e.code, start: start})
		}
		// A count that stops at its maximum is better than one that wraps around.
		s.codes[i].count += min(e.n, maxEvents-s.codes[i].count)
	}
}
