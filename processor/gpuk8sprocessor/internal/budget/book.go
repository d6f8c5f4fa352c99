package budget

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/exporters"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/presets"
)

// retention is how long the Book keeps a source that it hears nothing of any more,
// so that it can say that its numbers are stale.
const retention = time.Hour

// Book keeps the newest list of processes of each node, the newest scrape of each
// series of other exporters, and who holds a node's devices. It is not safe for
// concurrent use.
type Book struct {
	// maxAge is how long they count, in nanoseconds. maxRows bounds the processes and
	// rows that are kept, the places and exporters, and by itself the holders.
	maxAge  int64
	maxRows int

	lists  map[gpudata.Place]*list
	frames map[FrameKey]*frame
	rows   int // of all lists and frames
	// instances are the MIG devices that exporters named, by MIG-<uuid>.
	instances map[string]instance
	held      map[gpudata.Place]map[string]*held // by hw.id
	holders   int
	// memory is the last reported memory of each device.
	memory map[gpudata.Device]memory
}

// NewBook returns an empty book. Lists and scrapes count for maxAge; maxRows bounds the entries
// of each kind.
func NewBook(maxAge time.Duration, maxRows int) *Book {
	return &Book{
		maxAge: int64(maxAge), maxRows: maxRows,
		lists: map[gpudata.Place]*list{}, frames: map[FrameKey]*frame{},
		instances: map[string]instance{}, held: map[gpudata.Place]map[string]*held{}, memory: map[gpudata.Device]memory{},
	}
}

// scrape has the rows of one source at one time.
type scrape struct {
	time int64     // by its own clock, nanoseconds since the epoch
	seen time.Time // by ours
	rows int       // how many it has in the book
}

// Process is a process on a device.
type Process struct {
	Device string // hw.id
	PID    string
	// Holder is its container as far as it is known; zero for a host's process.
	Holder gpudata.Holder
	// Used is its memory, Unknown where it is not known.
	Used int64
}

// pid identifies a process of a place.
type pid struct{ device, pid string }

// list is a place's list of processes.
type list struct {
	scrape
	processes map[pid]Process
	counts    map[string]int // of the processes of each device, where the list is whole
}

// memory is a device's last reported memory, and the users whose usage has been sent.
type memory struct {
	time              int64
	seen              time.Time
	used, limit, free int64
	// sent are the users whose usage at usedAt has been sent.
	usedAt int64
	sent   []gpudata.Holder
}

// Memory stores the memory values of a frame's device. If a frame has none, such as a list of
// processes, it fills in the last values.
func (b *Book) Memory(d *Device, t int64, now time.Time) {
	id := d.Of.Device
	known, ok := b.memory[id]
	switch {
	case d.Of.Observed:
		if ok || len(b.memory) < b.maxRows {
			known.time, known.seen, known.used, known.limit, known.free = t, now, d.Used, d.Limit, d.Free
			b.memory[id] = known
		}
	case ok && max(t-known.time, known.time-t) <= b.maxAge:
		d.Used, d.Limit, d.Free = known.used, known.limit, known.free
	}
}

// First reports whether a user's usage at UsedAt has not been sent yet, and marks it as sent: the
// frames of a device repeat it until its source reports a new value.
func (b *Book) First(d *Device, u *User, now time.Time) bool {
	known, ok := b.memory[d.Of.Device]
	if !ok && len(b.memory) >= b.maxRows {
		return false
	}
	if known.usedAt != d.UsedAt {
		known.usedAt, known.sent = d.UsedAt, nil
	}
	if slices.ContainsFunc(known.sent, u.Fits) {
		return false
	}
	known.sent = append(known.sent, u.Clone())
	if !ok {
		known.used, known.limit, known.free = Unknown, Unknown, Unknown
	}
	known.seen = now
	b.memory[d.Of.Device] = known
	return true
}

// FrameKey identifies a series of one exporter.
type FrameKey struct {
	// Order is the rank of the series, the lowest goes first.
	Order int
	// Cluster and From identify the exporter; Cluster may be empty.
	Cluster, From string
}

// frame is a scrape of a series of another exporter.
type frame struct {
	scrape
	key    FrameKey
	scope  presets.Scope
	values map[presets.Row]int64 // in bytes, or millionths of the time
}

// instance is a MIG device that an exporter named.
type instance struct {
	id   string // hw.id
	seen time.Time
}

// hear takes notice that a source speaks at t. A new scrape, the next, replaces the one before.
// What is older, and late, replaces it too once nothing came for long, because then a clock was
// set back.
func (b *Book) hear(s *scrape, t int64, now time.Time) (late, next bool) {
	next = t > s.time || t < s.time && int64(now.Sub(s.seen)) > b.maxAge
	if late = t < s.time && !next; !late {
		s.seen = now
	}
	if next {
		b.rows -= s.rows
		s.time, s.rows = t, 0
	}
	return late, next
}

// fresh reports whether a scrape still counts at t.
func (b *Book) fresh(s *scrape, t int64) bool {
	return max(t-s.time, s.time-t) <= b.maxAge
}

// room reports whether one more row fits, and counts it.
func (b *Book) room(s *scrape) bool {
	if b.rows >= b.maxRows {
		return false
	}
	b.rows++
	s.rows++
	return true
}

// AddProcess takes over a process; several at one time are one list. It reports
// false when there is no room.
func (b *Book) AddProcess(place gpudata.Place, t int64, now time.Time, p Process) bool {
	l, ok := b.list(place, t, now)
	if l == nil {
		return ok
	}
	key := pid{p.Device, p.PID}
	if known, twice := l.processes[key]; twice {
		known.Used = max(known.Used, p.Used)
		l.processes[key] = known
		return true
	}
	if !b.room(&l.scrape) {
		return false
	}
	p.Device, p.PID, p.Holder = strings.Clone(p.Device), strings.Clone(p.PID), p.Holder.Clone()
	l.processes[pid{p.Device, p.PID}] = p
	return true
}

// AddCount takes over how many processes are on a device: a list may have a point
// for fewer of them, or for none. It reports false when there is no room.
func (b *Book) AddCount(place gpudata.Place, t int64, now time.Time, device string, n int) bool {
	l, ok := b.list(place, t, now)
	if l == nil {
		return ok
	}
	if _, twice := l.counts[device]; !twice && !b.room(&l.scrape) {
		return false
	}
	l.counts[strings.Clone(device)] = n
	return true
}

// list returns the place's list of that time, nil when a newer one is known or when
// there is no room, which it reports as false.
func (b *Book) list(place gpudata.Place, t int64, now time.Time) (*list, bool) {
	l := b.lists[place]
	if l == nil {
		if len(b.lists) >= b.maxRows {
			return nil, false
		}
		l = &list{processes: map[pid]Process{}, counts: map[string]int{}}
		b.lists[place.Clone()] = l
	}
	switch late, next := b.hear(&l.scrape, t, now); {
	case late:
		return nil, true
	case next:
		clear(l.processes)
		clear(l.counts)
	}
	return l, true
}

// AddRow takes over a row of another exporter; several at one time are one
// scrape. It reports false when there is no room.
func (b *Book) AddRow(key FrameKey, scope presets.Scope, t int64, now time.Time, r presets.Row, bytes int64) bool {
	if scope == presets.MIGInfo {
		if _, ok := b.instances[r.MIGUUID]; !ok && len(b.instances) >= b.maxRows {
			return false
		}
		b.instances[strings.Clone(r.MIGUUID)] = instance{exporters.InstanceID(r.GPU, r.Instance), now}
		return true
	}
	f := b.frames[key]
	if f == nil {
		if len(b.frames) >= b.maxRows {
			return false
		}
		key.Cluster, key.From = strings.Clone(key.Cluster), strings.Clone(key.From)
		f = &frame{key: key, scope: scope, values: map[presets.Row]int64{}}
		b.frames[key] = f
	}
	switch late, next := b.hear(&f.scrape, t, now); {
	case late:
		return true
	case next:
		clear(f.values)
	}
	if before, ok := f.values[r]; ok {
		f.values[r] = max(before, bytes)
		return true
	}
	if !b.room(&f.scrape) {
		return false
	}
	r.Holder, r.GPU, r.Slot = r.Clone(), strings.Clone(r.GPU), strings.Clone(r.Slot)
	f.values[r] = bytes
	return true
}

// Sweep forgets sources without data for long.
func (b *Book) Sweep(now time.Time) {
	old := func(seen time.Time) bool { return now.Sub(seen) > retention }
	for place, l := range b.lists {
		if old(l.seen) {
			b.rows -= l.rows
			delete(b.lists, place)
		}
	}
	for key, f := range b.frames {
		if old(f.seen) {
			b.rows -= f.rows
			delete(b.frames, key)
		}
	}
	maps.DeleteFunc(b.memory, func(_ gpudata.Device, m memory) bool { return old(m.seen) })
	maps.DeleteFunc(b.instances, func(_ string, i instance) bool { return old(i.seen) })
	for at, devices := range b.held {
		for id, h := range devices {
			if old(h.seen) {
				b.release(at, id)
			}
		}
	}
}

// Fill says what the users of the place's devices use, adds those who do not
// hold their device, and tells budgets and utilization that other exporters know. What came in
// as Reported stays. It returns how many holders were refused because the book is
// full.
func (b *Book) Fill(p *Place, now time.Time) (refused int) {
	refused = b.recall(p, now)
	for _, d := range p.Devices {
		if d.MIGUUID == "" && d.Board != "" {
			d.MIGUUID = b.migUUID(d)
		}
	}
	list, frames := b.lists[p.Place], b.of(p)
	for _, d := range p.Devices {
		if !slices.ContainsFunc(d.Users, func(u *User) bool { return u.Origin == Reported }) {
			d.apply(b.best(d, p.Time, list, frames))
		}
	}
	for i := range frames {
		switch f := &frames[i]; {
		case !b.fresh(&f.scrape, p.Time):
		case f.scope == presets.Budget:
			p.exported(f.frame)
		case f.scope == presets.Utilization && f.time == p.Time:
			f.utilization()
		}
	}
	return refused
}

// migUUID returns the UUID that an exporter named for an instance, the newest one:
// an instance that is made anew has another UUID.
func (b *Book) migUUID(d *Device) (uuid string) {
	var newest time.Time
	for u, i := range b.instances {
		if i.id == d.ID && i.seen.After(newest) {
			uuid, newest = u, i.seen
		}
	}
	return uuid
}

// best returns the account that counts for a device: the first one that names
// somebody, else the first one that is complete and names nobody; nil for none.
// stale says that there is none because one of a holder is too old.
func (b *Book) best(d *Device, t int64, l *list, frames []located) (a *account, stale bool) {
	var nobody *account
	look := func(s *scrape, a *account) (found bool) {
		a.time = s.time
		switch {
		case !b.fresh(s, t):
			stale = stale || a.ofHolder()
		case a.speaks():
			return true
		case nobody == nil && a.complete && a.other == 0 && len(a.silent) == 0:
			nobody = a
		}
		return false
	}
	var owners map[pid]Process
	if l != nil {
		if a := d.ofProcesses(l); look(&l.scrape, a) {
			return a, false
		}
		if b.fresh(&l.scrape, t) { // later a PID is used again
			owners = l.processes
		}
	}
	for i := range frames {
		f := &frames[i]
		if f.scope == presets.Process || f.scope == presets.Pod {
			if a := d.ofFrame(f, owners); look(&f.scrape, a) {
				return a, false
			}
		}
	}
	if stale {
		return nil, true
	}
	return nobody, false
}

// located is a frame that may be about a place.
type located struct {
	*frame
	devices map[presets.Row]*Device // of each row, nil where it is unknown
	pods    bool                    // rows name pods: one that does not is nobody's
}

// of returns the frames that may be about the place, best rank and newest first.
func (b *Book) of(p *Place) []located {
	var out []located
	for key, f := range b.frames {
		if key.Cluster != "" && key.Cluster != p.Cluster || !p.touches(f) {
			continue
		}
		l := located{frame: f, devices: make(map[presets.Row]*Device, len(f.values))}
		for r := range f.values {
			l.devices[r] = p.locate(&r)
			l.pods = l.pods || r.InPod()
		}
		out = append(out, l)
	}
	slices.SortFunc(out, func(x, y located) int {
		return cmp.Or(cmp.Compare(x.key.Order, y.key.Order), cmp.Compare(y.time, x.time), cmp.Compare(x.key.From, y.key.From))
	})
	return out
}
