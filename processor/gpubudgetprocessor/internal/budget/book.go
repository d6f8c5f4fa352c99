package budget

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/dcgm"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpubudgetprocessor/internal/presets"
)

// retention is for how long the Book keeps what is not heard of any more, so that
// it can say that it is stale.
const retention = time.Hour

// Book keeps the newest list of processes of each node, the newest scrape of each
// series of other exporters, and who holds a node's devices. It is not safe for concurrent use.
type Book struct {
	// MaxAge is for how long they count, in nanoseconds.
	MaxAge int64
	// MaxRows bounds how many processes and rows are kept, of how many places and
	// exporters, and by itself how many holders.
	MaxRows int

	lists  map[gpudata.Place]*list
	frames map[FrameKey]*frame
	rows   int
	// instances are the MIG devices that exporters named, by MIG-<uuid>.
	instances map[string]instance
	held      map[gpudata.Place]map[string]*held // by hw.id
	holders   int
}

type instance struct {
	id   string // hw.id
	seen time.Time
}

// scrape is when something was said, by its own clock and by ours.
type scrape struct {
	time int64
	seen time.Time
}

// Process is a process on a device.
type Process struct {
	Device string // hw.id
	PID    string
	// Holder is what is known of its container; nothing for a host's process.
	Holder gpudata.Holder
	// Used is its memory, Unknown where it is not known.
	Used int64
}

type list struct {
	scrape
	processes map[pid]Process
	counts    map[string]int // of the processes of each device, where the list is whole
	counting  bool           // the source counts, or did so before
}

func (l *list) rows() int { return len(l.processes) + len(l.counts) }

type pid struct{ device, pid string }

// FrameKey identifies a series of one exporter.
type FrameKey struct {
	// Order is the rank of the series, the lowest goes first.
	Order int
	// Cluster and From identify the exporter; Cluster may be empty.
	Cluster, From string
}

type frame struct {
	scrape
	key   FrameKey
	scope presets.Scope
	rows  map[presets.Row]int64
}

// AddProcess takes over a process; several at one time are one list. It reports
// false when there is no room.
func (b *Book) AddProcess(place gpudata.Place, t int64, now time.Time, p Process) bool {
	l, room := b.list(place, t, now)
	if l == nil {
		return room
	}
	key := pid{p.Device, p.PID}
	known, ok := l.processes[key]
	if ok {
		known.Used = max(known.Used, p.Used)
		l.processes[key] = known
		return true
	}
	if b.rows >= b.MaxRows {
		return false
	}
	b.rows++
	p.Device, p.PID, p.Holder = strings.Clone(p.Device), strings.Clone(p.PID), p.Holder.Clone()
	l.processes[pid{p.Device, p.PID}] = p
	return true
}

// AddCount takes over how many processes are on a device: a list may have a point
// for fewer of them, or for none. It reports false when there is no room.
func (b *Book) AddCount(place gpudata.Place, t int64, now time.Time, device string, n int) bool {
	l, room := b.list(place, t, now)
	if l == nil {
		return room
	}
	l.counting = true
	if _, ok := l.counts[device]; !ok {
		if b.rows >= b.MaxRows {
			return false
		}
		b.rows++
		device = strings.Clone(device)
	}
	l.counts[device] = n
	return true
}

// list returns the place's list of that time, nil when a newer one is known or when
// there is no room.
func (b *Book) list(place gpudata.Place, t int64, now time.Time) (l *list, room bool) {
	l = b.lists[place]
	switch {
	case l == nil && len(b.lists) >= b.MaxRows:
		return nil, false
	case l == nil || b.newer(&l.scrape, t, now):
		counting := false
		if l != nil {
			b.rows -= l.rows()
			counting = l.counting
		} else {
			place = place.Clone()
		}
		l = &list{processes: map[pid]Process{}, counts: map[string]int{}, counting: counting}
		l.time = t
		if b.lists == nil {
			b.lists = map[gpudata.Place]*list{}
		}
		b.lists[place] = l
	case t != l.time:
		return nil, true
	}
	l.seen = now
	return l, true
}

// newer reports whether what is said at t replaces a scrape: also what is older,
// once nothing came for long, because then a clock was set back.
func (b *Book) newer(s *scrape, t int64, now time.Time) bool {
	return t > s.time || t < s.time && int64(now.Sub(s.seen)) > b.MaxAge
}

// AddRow takes over a row of another exporter; several at one time are one
// scrape. It reports false when there is no room.
func (b *Book) AddRow(key FrameKey, scope presets.Scope, t int64, now time.Time, r presets.Row, bytes int64) bool {
	if scope == presets.MIGInfo {
		if b.instances == nil {
			b.instances = map[string]instance{}
		}
		if _, ok := b.instances[r.MIGUUID]; !ok && len(b.instances) >= b.MaxRows {
			return false
		}
		b.instances[strings.Clone(r.MIGUUID)] = instance{dcgm.InstanceID(r.GPU, r.Instance), now}
		return true
	}
	f := b.frames[key]
	switch {
	case f == nil && len(b.frames) >= b.MaxRows:
		return false
	case f == nil || b.newer(&f.scrape, t, now):
		if f != nil {
			b.rows -= len(f.rows)
		}
		key.Cluster, key.From = strings.Clone(key.Cluster), strings.Clone(key.From)
		f = &frame{key: key, scope: scope, rows: map[presets.Row]int64{}}
		f.time = t
		if b.frames == nil {
			b.frames = map[FrameKey]*frame{}
		}
		b.frames[key] = f
	case t != f.time:
		return true
	}
	f.seen = now
	if before, ok := f.rows[r]; ok {
		f.rows[r] = max(before, bytes)
		return true
	}
	if b.rows >= b.MaxRows {
		return false
	}
	b.rows++
	for _, s := range []*string{&r.Namespace, &r.Pod, &r.UID, &r.Container, &r.GPU, &r.Slot, &r.MIGUUID, &r.Instance} {
		*s = strings.Clone(*s)
	}
	f.rows[r] = bytes
	return true
}

// Sweep forgets what was not heard of for long.
func (b *Book) Sweep(now time.Time) {
	for place, l := range b.lists {
		if now.Sub(l.seen) > retention {
			b.rows -= l.rows()
			delete(b.lists, place)
		}
	}
	for key, f := range b.frames {
		if now.Sub(f.seen) > retention {
			b.rows -= len(f.rows)
			delete(b.frames, key)
		}
	}
	maps.DeleteFunc(b.instances, func(_ string, i instance) bool { return now.Sub(i.seen) > retention })
	for at, devices := range b.held {
		for id, h := range devices {
			if now.Sub(h.seen) > retention {
				b.release(at, id)
			}
		}
	}
}

// Rows is how many processes and rows are kept.
func (b *Book) Rows() int { return b.rows }

func (b *Book) fresh(s *scrape, t int64) bool {
	return max(t-s.time, s.time-t) <= b.MaxAge
}

// Fill says what the users of the place's devices use, adds those who do not
// hold their device, and tells budgets that other exporters know. What came in
// as Reported stays. It returns how many holders were refused because the limit was
// reached.
func (b *Book) Fill(p *Place, now time.Time) (refused int) {
	refused = b.recall(p, now)
	for _, d := range p.Devices {
		if d.MIGUUID == "" && d.Board != "" {
			var newest time.Time // an instance that is made anew has another UUID
			for uuid, i := range b.instances {
				if i.id == d.ID && i.seen.After(newest) {
					d.MIGUUID, newest = uuid, i.seen
				}
			}
		}
	}
	frames := b.of(p)
	processes := b.lists[p.Place]
	for _, d := range p.Devices {
		if slices.ContainsFunc(d.Users, func(u *User) bool { return u.Origin == Reported }) {
			continue
		}
		// found speaks of the device; nothing is a complete account that names
		// nobody there.
		var found, nothing *account
		stale := false
		try := func(s *scrape, a *account) {
			switch {
			case !b.fresh(s, p.Time):
				stale = stale || a.ofHolder()
			case found == nil && a.speaks():
				found = a
			case nothing == nil && a.complete && a.other == 0 && len(a.silent) == 0:
				nothing = a
			}
		}
		var owners map[pid]Process
		if processes != nil {
			try(&processes.scrape, d.ofProcesses(processes))
			if b.fresh(&processes.scrape, p.Time) { // a PID is used again
				owners = processes.processes
			}
		}
		for i := range frames {
			if s := frames[i].scope; s == presets.Process || s == presets.Pod {
				try(&frames[i].scrape, d.ofFrame(&frames[i], owners))
			}
		}
		if found == nil && !stale {
			found = nothing
		}
		d.apply(found, stale)
	}
	for i := range frames {
		if f := &frames[i]; f.scope == presets.Budget && b.fresh(&f.scrape, p.Time) {
			p.exported(f.frame)
		}
	}
	return refused
}

// located is a frame that may speak of a place.
type located struct {
	*frame
	devices map[presets.Row]*Device // of each row, nil where that cannot be told
	pods    bool                    // rows name pods: one that does not is nobody's
}

// of returns the frames that may speak of the place, best rank and newest first.
func (b *Book) of(p *Place) []located {
	var out []located
	for key, f := range b.frames {
		if key.Cluster != "" && key.Cluster != p.Cluster || !p.touches(f) {
			continue
		}
		l := located{frame: f, devices: make(map[presets.Row]*Device, len(f.rows))}
		for r := range f.rows {
			l.devices[r] = p.locate(&r)
			l.pods = l.pods || r.Pod != "" || r.UID != ""
		}
		out = append(out, l)
	}
	slices.SortFunc(out, func(x, y located) int {
		return cmp.Or(cmp.Compare(x.key.Order, y.key.Order), cmp.Compare(y.time, x.time), cmp.Compare(x.key.From, y.key.From))
	})
	return out
}

// touches reports whether a frame names a device of the place or somebody who
// holds one.
func (p *Place) touches(f *frame) bool {
	for r := range f.rows {
		c := containerOf(&r)
		for _, d := range p.Devices {
			if r.GPU != "" {
				if d.named(r.GPU) {
					return true
				}
				continue
			}
			if d.user(c, true) != nil {
				return true
			}
		}
	}
	return false
}

func containerOf(r *presets.Row) gpudata.Holder {
	return gpudata.Holder{Namespace: r.Namespace, Pod: r.Pod, UID: r.UID, Container: r.Container}
}

// named reports whether a UUID is the device's or its board's.
func (d *Device) named(uuid string) bool {
	return uuid == d.ID || uuid == d.MIGUUID || uuid == d.Board
}

// user returns the one user that can be meant, nil for none or several.
func (d *Device) user(c gpudata.Holder, holds bool) *User {
	var found *User
	for _, u := range d.Users {
		if (u.Holds || !holds) && u.Fits(c) {
			if found != nil {
				return nil
			}
			found = u
		}
	}
	return found
}

// locate returns the device that a row speaks of, nil when that cannot be told.
func (p *Place) locate(r *presets.Row) *Device {
	c := containerOf(r)
	if r.GPU == "" && r.Index < 0 && slices.ContainsFunc(p.absent, func(h gpudata.Holder) bool { return h.Fits(c) }) {
		return nil
	}
	var one, held *Device
	candidates, holds := 0, 0
	for _, d := range p.Devices {
		switch {
		case r.GPU != "":
			if r.GPU == d.ID || r.GPU == d.MIGUUID {
				return d
			}
			if r.GPU != d.Board {
				continue
			}
		case r.Index >= 0 && r.Index != d.Minor:
			continue
		}
		candidates++
		one = d
		if d.user(c, true) != nil {
			holds++
			held = d
		}
	}
	switch {
	case holds == 1:
		return held
	case candidates == 1 && holds == 0:
		return one
	}
	return nil
}

// exported takes over budgets that another exporter knows, where no better one
// has told one.
func (p *Place) exported(f *frame) {
	sums := map[*User]int64{}
	for r, bytes := range f.rows {
		c := containerOf(&r)
		if c.Pod == "" && c.UID == "" {
			continue
		}
		// A row that names no device is for all that its container holds.
		devices := p.Devices
		if r.GPU == "" && r.Index < 0 {
			devices = p.given(c, false)
		}
		var users []*User
		for _, d := range devices {
			if r.GPU != "" && !d.named(r.GPU) || r.Index >= 0 && r.Index != d.Minor || !d.Possible(bytes) {
				continue
			}
			for _, u := range d.Users {
				if u.Fits(c) {
					users = append(users, u)
				}
			}
		}
		for _, u := range users {
			sums[u] += bytes / int64(len(users))
		}
	}
	for u, sum := range sums {
		if u.Exported == 0 {
			u.Exported = sum
		}
	}
}
