package budget

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

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

	lists  map[string]*list
	frames map[FrameKey]*frame
	rows   int
	// instances are the MIG devices that exporters named, by MIG-<uuid>.
	instances map[string]instance
	held      map[placeKey]map[string]*held // by hw.id
	holders   int
}

type instance struct {
	board, id string
	seen      time.Time
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
	// Container is what is known of its container; nothing for a host's process.
	Container
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
func (b *Book) AddProcess(place string, t int64, now time.Time, p Process) bool {
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
	p.own()
	l.processes[pid{p.Device, p.PID}] = p
	return true
}

// AddCount takes over how many processes are on a device: a list may have a point
// for fewer of them, or for none. It reports false when there is no room.
func (b *Book) AddCount(place string, t int64, now time.Time, device string, n int) bool {
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
func (b *Book) list(place string, t int64, now time.Time) (l *list, room bool) {
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
			place = strings.Clone(place)
		}
		l = &list{processes: map[pid]Process{}, counts: map[string]int{}, counting: counting}
		l.time = t
		if b.lists == nil {
			b.lists = map[string]*list{}
		}
		b.lists[place] = l
	case t != l.time:
		return nil, true
	}
	l.seen = now
	return l, true
}

// own makes the process independent of the batch that named it.
func (p *Process) own() {
	p.Device, p.PID = strings.Clone(p.Device), strings.Clone(p.PID)
	p.Container.own()
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
		b.instances[strings.Clone(r.MIGUUID)] = instance{strings.Clone(r.GPU), strings.Clone(r.Instance), now}
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
	for uuid, i := range b.instances {
		if now.Sub(i.seen) > retention {
			delete(b.instances, uuid)
		}
	}
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

// account is what one origin says of one device.
type account struct {
	used      map[*User]int64
	extra     []*User // who does not hold the device
	other     int64
	processes int
	// silent are containers of processes that do not tell their memory, or which one
	// of several they are of.
	silent []Container
	// complete says that who is not named uses nothing.
	complete   bool
	impossible bool
}

// speaks reports whether the origin names somebody, or a number that cannot be.
func (a *account) speaks() bool { return len(a.used) > 0 || a.impossible }

// ofHolder reports whether the origin names somebody who holds the device.
func (a *account) ofHolder() bool {
	for u := range a.used {
		if u.Holder {
			return true
		}
	}
	return false
}

// Fill says what the users of the place's devices use, adds those who do not
// hold their device, and tells budgets that other exporters know. What came in
// as Reported stays. It returns of how many holders it cannot keep that they are.
func (b *Book) Fill(p *Place, now time.Time) (refused int) {
	refused = b.recall(p, now)
	for _, d := range p.Devices {
		if d.MIGUUID == "" && d.Board != "" {
			var newest time.Time // an instance that is made anew has another UUID
			for uuid, i := range b.instances {
				if i.board == d.Board && i.id == d.Instance && i.seen.After(newest) {
					d.MIGUUID, newest = uuid, i.seen
				}
			}
		}
	}
	frames := b.of(p)
	processes := b.lists[p.Name]
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
			if d.user(&c, true) != nil {
				return true
			}
		}
	}
	return false
}

func containerOf(r *presets.Row) Container {
	return Container{Namespace: r.Namespace, Pod: r.Pod, UID: r.UID, Name: r.Container}
}

// named reports whether a UUID is the device's or its board's.
func (d *Device) named(uuid string) bool {
	return uuid == d.ID || uuid == d.MIGUUID || uuid == d.Board
}

// user returns the one user that can be meant, nil for none or several.
func (d *Device) user(c *Container, holder bool) *User {
	var found *User
	for _, u := range d.Users {
		if (u.Holder || !holder) && u.Match(c) {
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
	if r.GPU == "" && r.Index < 0 && slices.ContainsFunc(p.absent, func(h Container) bool { return h.Match(&c) }) {
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
		if d.user(&c, true) != nil {
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

// add books bytes on a container, or on nobody.
func (a *account) add(d *Device, c Container, bytes int64) {
	if !d.Possible(bytes) {
		a.impossible = true
		return
	}
	u := d.user(&c, false)
	if i := slices.IndexFunc(a.extra, func(e *User) bool { return e.Container == c }); u == nil && i >= 0 {
		u = a.extra[i]
	}
	switch {
	case slices.ContainsFunc(d.Users, func(o *User) bool { return o != u && o.Match(&c) }):
		a.silent = append(a.silent, c)
		a.other += bytes
		return
	case u == nil && c.Pod == "":
		// It may be somebody's who is known by name alone.
		nameless := c.UID != "" && slices.ContainsFunc(d.Users, func(u *User) bool { return u.UID == "" })
		a.complete = a.complete && !nameless
		a.other += bytes
		return
	case u == nil:
		u = &User{Container: c}
		a.extra = append(a.extra, u)
	}
	a.used[u] += bytes
}

// ofProcesses is what a list of processes says of a device. Where the list's
// source counts processes, it is whole for the devices that it has a count of, and
// as many processes.
func (d *Device) ofProcesses(l *list) *account {
	a := &account{used: map[*User]int64{}, complete: true}
	n := 0
	for _, pr := range l.processes {
		if pr.Device != d.ID {
			continue
		}
		n++
		switch {
		case pr.Used != Unknown:
			a.processes++
			a.add(d, pr.Container, pr.Used)
		case pr.Pod == "" && pr.UID == "":
			a.complete = false // it may be anybody's
		default:
			a.silent = append(a.silent, pr.Container)
		}
	}
	if l.counting {
		count, listed := l.counts[d.ID]
		a.complete = a.complete && listed && n >= count
	}
	return a.settled()
}

// settled leaves out what is a part of what a container uses.
func (a *account) settled() *account {
	maps.DeleteFunc(a.used, func(u *User, _ int64) bool { return a.untold(u) })
	return a
}

// untold reports whether what a process uses that may be the container's is not known.
func (a *account) untold(u *User) bool {
	return slices.ContainsFunc(a.silent, func(c Container) bool { return u.Match(&c) })
}

// ofFrame is what a series of another exporter says of a device. A row with a
// PID and no pod is whose the list of processes says. Where that does not name the PID
// and the exporter knows no pods, it may be anybody's.
func (d *Device) ofFrame(f *located, owners map[pid]Process) *account {
	a := &account{used: map[*User]int64{}, complete: f.scope == presets.Process}
	for r, bytes := range f.rows {
		c := containerOf(&r)
		switch f.devices[r] {
		case d:
		case nil:
			if slices.ContainsFunc(d.Users, func(u *User) bool { return u.Match(&c) }) {
				a.complete = false // it may be on this device
			}
			continue
		default:
			continue
		}
		if c.Pod == "" && c.UID == "" {
			owner, listed := owners[pid{d.ID, r.Slot}]
			c, a.complete = owner.Container, a.complete && (listed || f.pods)
		}
		if f.scope == presets.Process {
			a.processes++
		}
		a.add(d, c, bytes)
	}
	return a.settled()
}

// apply takes over an account, nil for none.
func (d *Device) apply(a *account, stale bool) {
	sole := len(d.Users) == 1 && d.Users[0].Exclusive && d.Used >= 0
	if sole && (a == nil || len(a.extra) == 0 && a.other == 0) {
		d.Users[0].Used, d.Users[0].Origin = d.Used, OfDevice
		return
	}
	if a == nil {
		d.Stale = stale
		return
	}
	slices.SortFunc(a.extra, func(x, y *User) int { return x.Compare(&y.Container) })
	d.Users = append(d.Users, a.extra...)
	d.Other, d.Processes, d.Impossible = a.other, a.processes, d.Impossible || a.impossible
	for _, u := range d.Users {
		if bytes, ok := a.used[u]; ok {
			u.Used, u.Origin = bytes, Observed
		} else if a.complete && !a.untold(u) {
			u.Origin = Unlisted
		}
	}
}

// Compare orders containers by namespace, pod, UID and name.
func (c *Container) Compare(o *Container) int {
	return cmp.Or(cmp.Compare(c.Namespace, o.Namespace), cmp.Compare(c.Pod, o.Pod), cmp.Compare(c.UID, o.UID), cmp.Compare(c.Name, o.Name))
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
			devices = p.given(&c, false)
		}
		var users []*User
		for _, d := range devices {
			if r.GPU != "" && !d.named(r.GPU) || r.Index >= 0 && r.Index != d.Minor || !d.Possible(bytes) {
				continue
			}
			for _, u := range d.Users {
				if u.Match(&c) {
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
