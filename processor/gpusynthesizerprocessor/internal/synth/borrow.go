package synth

import (
	"maps"
	"slices"
	"time"
)

// namedBy is a device as a source shows it.
type namedBy struct {
	source *Source
	device string // hw.id
}

// noteHolders remembers the holders that the rows of one scrape name, of boards that have other
// sources as well: the source whose samples are kept need not be the one that names holders.
func (s *Synthesizer) noteHolders(rows []observation) {
	begun := map[namedBy]bool{}
	for i := range rows {
		o := &rows[i]
		d := o.row.device
		if d.claims == nil || len(d.claims.list) < 2 {
			continue
		}
		k := namedBy{o.source, d.ID}
		if !begun[k] {
			begun[k] = true
			delete(d.claims.named, k)
		}
		if o.untold || !s.holds(o) {
			continue
		}
		if d.claims.named == nil {
			d.claims.named = map[namedBy][]holder{}
		}
		d.claims.named[k], _ = addHolder(d.claims.named[k], o.row)
	}
}

// borrowHolders takes the holders of the device from another source that is present, where the
// source of this scrape names none. It reports whether there are some.
func (a *accumulator) borrowHolders(by *Source, at int64, arrived time.Duration) bool {
	c := a.device.claims
	if len(a.holders) > 0 || by == nil || c == nil || len(c.named) == 0 {
		return false
	}
	for i := range c.list {
		x := &c.list[i]
		if x.source == by || !x.there(by, at, arrived) {
			continue
		}
		if named := c.named[namedBy{x.source, a.device.ID}]; len(named) > 0 {
			a.holders = append(a.holders, named...)
			return true
		}
	}
	return false
}

// forgetHolders forgets what sources named that expose the board no more.
func (c *claims) forgetHolders() {
	maps.DeleteFunc(c.named, func(k namedBy, _ []holder) bool {
		return !slices.ContainsFunc(c.list, func(x claim) bool { return x.source == k.source })
	})
}
