package synth

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/exporters"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// StateVersion is the version of [State].
const StateVersion = 1

// State is the part of the XID counting state of a place that must survive a restart. A State is
// stored as JSON. Up to v0.1.0, a single value without Newest contained the state of all places.
type State struct {
	Version int            `json:"version"`
	Newest  gpudata.Clock  `json:"newest,omitzero"`
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
	Hidden   map[int]bool    `json:"hidden,omitempty"`
	Codes    []storedCode    `json:"codes,omitempty"`
	Failed   bool            `json:"failed,omitempty"`
	Energy   float64         `json:"energy,omitempty"`
}

// The mustBeStored method reports whether the device has state that must survive a restart.
func (d *Device) mustBeStored() bool { return d.xid.since != 0 || d.health.failed }

type storedCode struct {
	Code  int   `json:"code"`
	Start int64 `json:"start"`
	Count int64 `json:"count"`
}

// State returns the part of a place's state that must survive a restart, or nil if there is no such
// state. The stored state makes it possible to count errors that occur during a restart, without
// counting any error twice.
func (s *Synthesizer) State(p Place) (out *State) {
	s.nodes.Visit(s.place(p), func(n *node) { out = n.state(p) })
	return out
}

func (s *node) state(p Place) *State {
	h := s.places[p]
	if h == nil {
		return nil
	}
	out := &State{Version: StateVersion, Newest: h.clock}
	for _, d := range h.devices {
		x := &d.xid
		if !d.mustBeStored() {
			continue
		}
		stored := storedDevice{
			Host: p.Host, Node: p.Node, Board: d.board(), Instance: d.instance,
			Source: x.source, Last: x.last, Since: x.since, Counts: maps.Clone(x.counts), Totals: maps.Clone(x.totals),
			Hidden: maps.Clone(x.hidden), Failed: d.health.failed, Energy: d.health.energy,
		}
		for _, c := range x.codes {
			stored.Codes = append(stored.Codes, storedCode{c.code, c.start, c.count})
		}
		out.Devices = append(out.Devices, stored)
	}
	if out.Devices == nil {
		return nil
	}
	return out
}

// Restore restores the state that an earlier process stored. Restore must be called before the
// first batch. The now parameter is the current time in nanoseconds since the epoch. If the first
// scrape shows new events, the counters of these events start at the time in the now parameter. If
// the state is invalid, Restore returns an error and changes nothing.
func (s *Synthesizer) Restore(in *State, now int64) error {
	for i := range in.Devices {
		if !in.Devices[i].valid() {
			return fmt.Errorf("device %d", i)
		}
	}
	b := s.Begin(time.Time{})
	defer b.End()
	for i := range in.Devices {
		stored := &in.Devices[i]
		b.withNode(stored.Node, func(n *node) { n.restore(stored, in.Newest.Newest, now) })
	}
	return nil
}

func (s *node) restore(stored *storedDevice, newest, now int64) {
	d := s.device(exporters.Coded, stored.Place(), catalogue.Identity{Board: stored.Board, Instance: stored.Instance})
	if d == nil {
		return
	}
	d.home.clock.Newest = max(d.home.clock.Newest, newest)
	for _, of := range []*Device{d, d.Parent} {
		if of != nil {
			of.last, of.restored = newest, now
		}
	}
	d.xid = xidState{
		source: stored.Source, last: stored.Last, since: stored.Since, time: newest,
		counts: maps.Clone(stored.Counts), totals: maps.Clone(stored.Totals),
		hidden: maps.Clone(stored.Hidden),
	}
	d.health = health{failed: stored.Failed, energy: stored.Energy, open: stored.Last != 0}
	for _, c := range stored.Codes {
		d.xid.codes = append(d.xid.codes, xidCounter{code: c.Code, start: c.Start, count: c.Count})
	}
}

// Place returns the place of a stored device.
func (d *storedDevice) Place() Place { return Place{Host: d.Host, Node: d.Node} }

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
