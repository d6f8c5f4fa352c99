package synth

import (
	"maps"
	"slices"
	"time"
)

// namedBy identifies a device by the source that exposes it and by its hw.id.
type namedBy struct {
	source *Source
	device string // hw.id
}

// noteHolders stores the holders from one scrape for boards that have several sources. The holders
// must be stored because the source whose samples are kept might not name them.
func (s *node) noteHolders(rows []observation) {
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
		if o.ambiguous || !s.holds(o) {
			continue
		}
		if d.claims.named == nil {
			d.claims.named = map[namedBy][]holder{}
		}
		d.claims.named[k], _ = addHolder(d.claims.named[k], o.row)
	}
}

// borrowHolders copies the device's holders from another source if the source of the current scrape
// names no holders. The result reports whether any holders were copied.
func (a *accumulator) borrowHolders(by *Source, at int64, arrived time.Duration) bool {
	c := a.device.claims
	if len(a.holders) > 0 || by == nil || c == nil || len(c.named) == 0 {
		return false
	}
	for i := range c.list {
		x := &c.list[i]
		if x.source == by || !x.isPresent(by, at, arrived) {
			continue
		}
		if named := c.named[namedBy{x.source, a.device.ID}]; len(named) > 0 {
			a.holders = append(a.holders, named...)
			return true
		}
	}
	return false
}

// forgetHolders deletes the holders of sources that no longer expose the board.
func (c *claims) forgetHolders() {
	maps.DeleteFunc(c.named, func(k namedBy, _ []holder) bool {
		return !slices.ContainsFunc(c.list, func(x claim) bool { return x.source == k.source })
	})
}
