package synth

import (
	"fmt"
	"maps"
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/exporters"
)

// StateVersion is the version of [State].
const StateVersion = 1

// State is the state of XID counting that survives a restart, as JSON.
type State struct {
	Version int            `json:"version"`
	Devices []storedDevice `json:"devices"`
}

type storedDevice struct {
	Host     string          `json:"host,omitempty"`
	Node     string          `json:"node,omitempty"`
	Board    string          `json:"board"`
	Instance string          `json:"instance,omitempty"`
	Source   xidSource       `json:"source,omitempty"`
	Last     int             `json:"last,omitempty"`
	Since    int64           `json:"since"`
	Counts   map[int]float64 `json:"counts,omitempty"`
	Totals   map[int]float64 `json:"totals,omitempty"`
	Codes    []storedCode    `json:"codes,omitempty"`
	Failed   bool            `json:"failed,omitempty"`
	Energy   float64         `json:"energy,omitempty"`
}

// keeps reports whether something of the device has to survive a restart.
func (d *Device) keeps() bool { return d.xid.since != 0 || d.health.failed }

type storedCode struct {
	Code  int   `json:"code"`
	Start int64 `json:"start"`
	Count int64 `json:"count"`
}

// TakeDirty reports whether the State changed since the last call.
func (s *Synthesizer) TakeDirty() bool {
	dirty := s.dirty
	s.dirty = false
	return dirty
}

// State returns what has to survive a restart, so that an error which comes
// while nobody scrapes is counted and none is counted twice.
func (s *Synthesizer) State() *State {
	out := &State{Version: StateVersion}
	for k, d := range s.devices {
		x := &d.xid
		if !d.keeps() {
			continue
		}
		stored := storedDevice{
			Host: k.place.Host, Node: k.place.Node, Board: k.board, Instance: k.instance,
			Source: x.source, Last: x.last, Since: x.since, Counts: x.counts, Totals: x.totals,
			Failed: d.health.failed, Energy: d.health.energy,
		}
		for _, c := range x.codes {
			stored.Codes = append(stored.Codes, storedCode{c.code, c.start, c.count})
		}
		out.Devices = append(out.Devices, stored)
	}
	return out
}

// Restore takes over the state of an earlier process. now is the time in
// nanoseconds since the epoch: events that the first scrape shows happened
// before it, and their counters start there. A state that cannot be leaves the
// Synthesizer as it was.
func (s *Synthesizer) Restore(in *State, now int64) error {
	for i := range in.Devices {
		if !in.Devices[i].valid() {
			return fmt.Errorf("device %d", i)
		}
	}
	s.swept = now
	for i := range in.Devices {
		stored := &in.Devices[i]
		d := s.device(exporters.Coded, Place{Host: stored.Host, Node: stored.Node}, catalogue.Identity{Board: stored.Board, Instance: stored.Instance})
		if d == nil {
			break
		}
		d.last = now
		if d.Parent != nil {
			d.Parent.last = now
		}
		d.xid = xidState{
			source: stored.Source, last: stored.Last, since: stored.Since,
			counts: maps.Clone(stored.Counts), totals: maps.Clone(stored.Totals),
		}
		d.health = health{stored.Failed, stored.Energy}
		for _, c := range stored.Codes {
			d.xid.codes = append(d.xid.codes, xidCounter{code: c.Code, start: c.Start, count: c.Count})
		}
	}
	return nil
}

func (d *storedDevice) valid() bool {
	inOrder := slices.IsSortedFunc(d.Codes, func(a, b storedCode) int { return a.Code - b.Code })
	for i, c := range d.Codes {
		if c.Code <= 0 || c.Code > catalogue.MaxCode || c.Count < 0 || c.Count > maxEvents || c.Start < 0 || i > 0 && c.Code == d.Codes[i-1].Code {
			return false
		}
	}
	for _, values := range []map[int]float64{d.Counts, d.Totals} {
		for code, v := range values {
			if code <= 0 || code > catalogue.MaxCode || v < 0 {
				return false
			}
		}
	}
	return inOrder && d.Board != "" && d.Source <= xidTotal && d.Last >= 0 && d.Last <= catalogue.MaxCode && (d.Since > 0 || d.Since == 0 && d.Failed) && d.Energy >= 0
}
