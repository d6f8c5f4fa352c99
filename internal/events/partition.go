package events

import (
	"cmp"
	"slices"
	"strings"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// partition determines the layout of a board's instances in the frame. If an instance is new or its
// profile has changed, the frame is assumed to contain the complete layout, so instances that are
// not in the frame no longer exist. If no instance is new or has changed, a missing instance is
// removed after LostAfter. Late frames and unread boards are ignored.
func (c *frame) partition(id string, baseline bool) {
	b := c.place.Devices[id]
	if b.hasInstanceAfter(c.f.Time) {
		return
	}
	unread := slices.ContainsFunc(c.f.Devices, func(d *gpudata.DeviceFrame) bool { return d.Unread && d.Device.ID() == id })
	from, recut, cut := b.profiles(), false, false
	for _, d := range c.f.Devices {
		inst := d.Device.ID()
		if k := c.place.Devices[inst]; d.Parent != id || !d.Present() || k == nil || k.Lost {
			continue
		}
		if b.Profiles == nil {
			b.Profiles = map[string]profile{}
		}
		was, known := b.Profiles[inst]
		name := cmp.Or(d.Profile, was.Name, unknown)
		cut = true
		recut = recut || !known || was.Name != unknown && was.Name != name
		b.Profiles[inst] = profile{c.f.Time, name}
	}
	if unread && !cut {
		b.LayoutUnknown = b.LayoutUnknown || baseline
		for inst, p := range b.Profiles {
			b.Profiles[inst] = profile{max(p.Seen, c.f.Time), p.Name}
		}
		return
	}
	if b.LayoutUnknown && !unread { // the first frame that shows the layout
		baseline, b.LayoutUnknown = true, false
	}
	var gone []string
	for inst, p := range b.Profiles {
		if age := c.f.Time - p.Seen; age >= int64(c.set.LostAfter) || age > 0 && recut {
			gone = append(gone, inst)
		}
	}
	slices.Sort(gone)
	for _, inst := range gone {
		if k := c.place.Devices[inst]; k != nil && inst != id {
			c.end(k, inst)
			c.released(k, inst)
			k.gone()
		}
		delete(b.Profiles, inst)
	}
	if baseline || !recut && len(gone) == 0 {
		return
	}
	to := b.profiles()
	e := Event{Name: PartitionChange, Severity: Info, Device: id, Texts: map[string]string{AttrFrom: from, AttrTo: to}}
	e.describe()
	c.emit(b, id, e)
}

// The gone method deletes the state of an instance, except for the state that is needed if the
// instance returns: the error counts, and whether the holders are known. The caller has ended the
// holdings, so each holder of an instance that returns is a new holder.
func (b *device) gone() {
	*b = device{
		Description: gpudata.Description{Parent: b.Description.Parent}, Seen: b.Seen, Errors: b.Errors,
		HoldersKnown: b.HoldersKnown, Baseline: b.Baseline, Lost: true,
	}
}

// hasInstanceAfter reports whether an instance of the board was seen after the given time.
func (b *device) hasInstanceAfter(than int64) bool {
	for _, p := range b.Profiles {
		if p.Seen > than {
			return true
		}
	}
	return false
}

// profiles returns the profiles of a board's instances, sorted and separated by commas.
func (b *device) profiles() string {
	var names []string
	for _, p := range b.Profiles {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}
