package budget

import (
	"slices"
	"strings"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// held is a device that pods were given.
type held struct {
	board   string // of an instance
	holders []gpudata.Holder
	// seen is when it or, without it, one of the pods was there.
	seen time.Time
}

// recall says which devices that are not in its samples the place's pods still hold: a
// pod holds its devices until it ends, so that a row that names none is not of those
// that are left. A pod is known by its UID, for another one of its name may hold
// something else. It keeps who holds the others, and returns for how many there was no
// room. Where no other exporter has rows there is nothing to tell.
func (b *Book) recall(p *Place, now time.Time) (refused int) {
	if len(b.frames) == 0 {
		return 0
	}
	for id, h := range b.held[p.Place] {
		switch {
		case slices.ContainsFunc(p.Devices, func(d *Device) bool { return d.ID == id }):
			h.seen = now
		case now.Sub(h.seen) > retention || slices.ContainsFunc(p.Devices, func(d *Device) bool { return d.Board == id || d.ID == h.board }):
			b.release(p.Place, id) // a board that was cut, and instances of one that is whole
		default:
			for _, c := range h.holders {
				if p.gave(c) {
					p.absent = append(p.absent, c)
					h.seen = now
				}
			}
		}
	}
	for _, d := range p.Devices {
		refused += b.hold(p.Place, d, now)
	}
	return refused
}

// gave reports whether a device of the place was given to the container's pod.
func (p *Place) gave(c gpudata.Holder) bool {
	return slices.ContainsFunc(p.Devices, func(d *Device) bool {
		return slices.ContainsFunc(d.Users, func(u *User) bool { return u.Holds && u.UID == c.UID })
	})
}

// hold keeps who holds a device, and returns how many they are if there is no room for
// them. Samples that name nobody change nothing.
func (b *Book) hold(at gpudata.Place, d *Device, now time.Time) (refused int) {
	var holders []gpudata.Holder
	for _, u := range d.Users {
		if u.Holds && u.UID != "" {
			holders = append(holders, u.Holder)
		}
	}
	h := b.held[at][d.ID]
	if holders == nil || h != nil && slices.Equal(h.holders, holders) {
		return 0
	}
	if h != nil {
		b.release(at, d.ID)
	}
	if b.holders+len(holders) > b.maxRows {
		return len(holders)
	}
	if b.held[at] == nil {
		at = at.Clone()
		b.held[at] = map[string]*held{}
	}
	for i := range holders {
		holders[i] = holders[i].Clone()
	}
	b.held[at][strings.Clone(d.ID)] = &held{strings.Clone(d.Board), holders, now}
	b.holders += len(holders)
	return 0
}

// release forgets who holds a device.
func (b *Book) release(at gpudata.Place, id string) {
	b.holders -= len(b.held[at][id].holders)
	delete(b.held[at], id)
	if len(b.held[at]) == 0 {
		delete(b.held, at)
	}
}
