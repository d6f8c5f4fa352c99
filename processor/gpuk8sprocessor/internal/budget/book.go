package budget

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// retention is how long the Book keeps the values of a source that sends no more, so that their device
// is reported as stale.
const retention = time.Hour

// Book keeps the newest list of processes of each device and the newest values that exporters state
// about its containers in frames of their own. It is not safe for concurrent use.
type Book struct {
	// maxAge is how long they count at most, in nanoseconds. maxRows bounds the kept processes,
	// values of containers and devices.
	maxAge  int64
	maxRows int

	lists  map[gpudata.Device]*list
	stated map[gpudata.Device]*stated
	rows   int // of all lists and stated values
	// memory is the last reported memory of each device.
	memory map[gpudata.Device]memory
}

// NewBook returns an empty book. Lists and values count for maxAge at most; maxRows bounds the
// entries of each kind.
func NewBook(maxAge time.Duration, maxRows int) *Book {
	return &Book{
		maxAge: int64(maxAge), maxRows: maxRows,
		lists: map[gpudata.Device]*list{}, stated: map[gpudata.Device]*stated{}, memory: map[gpudata.Device]memory{},
	}
}

// scrape is the time of the newest values of a source.
type scrape struct {
	time int64 // by its own clock, nanoseconds since the epoch
	// interval is the time since the values before; 0 is unknown.
	interval int64
	seen     time.Time // by ours
	rows     int       // how many it has in the book
}

// Process is a process on a device.
type Process struct {
	PID string
	// Holder is its container as far as it is known; zero for a host's process.
	Holder gpudata.Holder
	// Used is its memory, Unknown where it is not known.
	Used int64
}

// list is a device's list of processes.
type list struct {
	scrape
	processes map[string]Process // by PID
	// count is the number of processes if counted is true: the list may have fewer.
	count   int
	counted bool
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

// stated is what an exporter states about the containers of a device in frames of its own.
type stated struct {
	usage  scrape
	used   map[gpudata.Holder]int64 // in bytes
	limits map[gpudata.Holder]limit
}

// limit is a budget that an exporter states. Exporters have different times, so each has its own.
type limit struct {
	bytes, time int64
	seen        time.Time
}

// hear records that a source has values of time t. If next is true, they replace the older ones; if
// late is true, newer ones are known. Older values replace newer ones if none came for long, because
// then a clock was set back.
func (b *Book) hear(s *scrape, t int64, now time.Time) (late, next bool) {
	setBack := t < s.time && int64(now.Sub(s.seen)) > b.maxAge
	next = t > s.time || setBack
	if late = t < s.time && !next; !late {
		s.seen = now
	}
	if next {
		s.interval = 0
		if s.time != 0 && !setBack {
			s.interval = t - s.time
		}
		b.rows -= s.rows
		s.time, s.rows = t, 0
	}
	return late, next
}

// fresh reports whether values still count at t: for two of their source's intervals, and for maxAge
// at most.
func (b *Book) fresh(s *scrape, t int64) bool {
	limit := b.maxAge
	if s.interval > 0 {
		limit = min(limit, 2*s.interval)
	}
	return max(t-s.time, s.time-t) <= limit
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

// AddProcess takes over a process of a device; several of one time are one list. It returns false if
// there is no room.
func (b *Book) AddProcess(d gpudata.Device, t int64, now time.Time, p Process) bool {
	l, ok := b.list(d, t, now)
	if l == nil {
		return ok
	}
	if known, twice := l.processes[p.PID]; twice {
		known.Used = max(known.Used, p.Used)
		l.processes[p.PID] = known
		return true
	}
	if !b.room(&l.scrape) {
		return false
	}
	p.PID, p.Holder = strings.Clone(p.PID), p.Holder.Clone()
	l.processes[p.PID] = p
	return true
}

// AddCount takes over how many processes are on a device: a list may have fewer of them, or none. It
// returns false if there is no room.
func (b *Book) AddCount(d gpudata.Device, t int64, now time.Time, n int) bool {
	l, ok := b.list(d, t, now)
	if l == nil {
		return ok
	}
	if !l.counted && !b.room(&l.scrape) {
		return false
	}
	l.count, l.counted = n, true
	return true
}

// list returns the list of a device of that time, nil if a newer one is known or if there is no room,
// which it reports as false.
func (b *Book) list(d gpudata.Device, t int64, now time.Time) (*list, bool) {
	l := b.lists[d]
	if l == nil {
		if len(b.lists) >= b.maxRows {
			return nil, false
		}
		l = &list{processes: map[string]Process{}}
		b.lists[d] = l
	}
	switch late, next := b.hear(&l.scrape, t, now); {
	case late:
		return nil, true
	case next:
		clear(l.processes)
		l.count, l.counted = 0, false
	}
	return l, true
}

// AddStated takes over what an exporter states of a container in a frame of its own: what it uses of a
// device and its budget, Unknown for nothing. It returns false if there is no room.
func (b *Book) AddStated(d gpudata.Device, t int64, now time.Time, h gpudata.Holder, used, budget int64) bool {
	if used == Unknown && budget == Unknown {
		return true
	}
	of := b.stated[d]
	if of == nil {
		if len(b.stated) >= b.maxRows {
			return false
		}
		of = &stated{used: map[gpudata.Holder]int64{}, limits: map[gpudata.Holder]limit{}}
		b.stated[d] = of
	}
	return b.addUsed(of, t, now, h, used) && b.addLimit(of, t, now, h, budget)
}

func (b *Book) addUsed(of *stated, t int64, now time.Time, h gpudata.Holder, used int64) bool {
	if used == Unknown {
		return true
	}
	switch late, next := b.hear(&of.usage, t, now); {
	case late:
		return true
	case next:
		clear(of.used)
	}
	if known, twice := of.used[h]; twice {
		of.used[h] = max(known, used)
		return true
	}
	if !b.room(&of.usage) {
		return false
	}
	of.used[h.Clone()] = used
	return true
}

func (b *Book) addLimit(of *stated, t int64, now time.Time, h gpudata.Holder, budget int64) bool {
	if budget == Unknown {
		return true
	}
	known, twice := of.limits[h]
	switch {
	case twice && t == known.time:
		budget = max(budget, known.bytes)
	case twice && t < known.time && int64(now.Sub(known.seen)) <= b.maxAge:
		return true // late
	case !twice && b.rows >= b.maxRows:
		return false
	case !twice:
		b.rows++
	}
	of.limits[h.Clone()] = limit{budget, t, now}
	return true
}

// Sweep forgets devices without data for long.
func (b *Book) Sweep(now time.Time) {
	old := func(seen time.Time) bool { return now.Sub(seen) > retention }
	for d, l := range b.lists {
		if old(l.seen) {
			b.rows -= l.rows
			delete(b.lists, d)
		}
	}
	for d, of := range b.stated {
		before := len(of.limits)
		maps.DeleteFunc(of.limits, func(_ gpudata.Holder, l limit) bool { return int64(now.Sub(l.seen)) > b.maxAge })
		b.rows -= before - len(of.limits)
		if old(of.usage.seen) && len(of.limits) == 0 {
			b.rows -= of.usage.rows
			delete(b.stated, d)
		}
	}
	maps.DeleteFunc(b.memory, func(_ gpudata.Device, m memory) bool { return old(m.seen) })
}

// Fill sets what the users of the place's devices use, adds those who do not hold their device, and
// sets the budgets that exporters state. What came in as Reported stays.
func (b *Book) Fill(p *Place) {
	for _, d := range p.Devices {
		if !slices.ContainsFunc(d.Users, func(u *User) bool { return u.Origin == Reported }) {
			d.apply(b.best(p, d))
		}
	}
	b.fillLimits(p)
}

// fillLimits sets the budgets that exporters state. A budget of a pod is for all of its containers on
// the device that have none of their own.
func (b *Book) fillLimits(p *Place) {
	for _, d := range p.Devices {
		ofPods := map[gpudata.Holder]int64{}
		for _, of := range b.statedOf(p, d) {
			for h, l := range of.limits {
				switch {
				case !h.InPod() || l.bytes > maxBytes || max(p.Time-l.time, l.time-p.Time) > b.maxAge || !p.isFor(of, d, h):
				case h.Container == "":
					ofPods[h] = l.bytes
				default:
					for _, u := range d.Users {
						if u.Fits(h) {
							u.Exported = max(u.Exported, l.bytes)
						}
					}
				}
			}
		}
		for _, h := range slices.SortedFunc(maps.Keys(ofPods), gpudata.Holder.Compare) {
			var users []*User
			for _, u := range d.Users {
				if u.Exported == 0 && u.Fits(h) {
					users = append(users, u)
				}
			}
			for _, u := range users {
				u.Exported = ofPods[h] / int64(len(users))
			}
		}
	}
}

// ofDevice is what exporters state about the containers of a device, or of the board of an instance.
type ofDevice struct {
	*stated
	board bool
}

// statedOf returns what exporters state about the containers of a device. An exporter may name the
// board of an instance.
func (b *Book) statedOf(p *Place, d *Device) (list []ofDevice) {
	if of := b.stated[d.Of.Device]; of != nil {
		list = append(list, ofDevice{of, false})
	}
	if d.Board == "" {
		return list
	}
	if of := b.stated[gpudata.NewDevice(p.Place, d.Board)]; of != nil {
		list = append(list, ofDevice{of, true})
	}
	return list
}

// isFor reports whether what an exporter states of a container is about the device: of a board, it is
// about the only instance of it that the container holds.
func (p *Place) isFor(of ofDevice, d *Device, h gpudata.Holder) bool {
	if !of.board {
		return true
	}
	for _, o := range p.Devices {
		if o.Board == d.Board && (o == d) != (o.user(h, true) != nil) {
			return false
		}
	}
	return true
}

// best returns the account that counts for a device: the first one that names somebody, else the first
// one that is complete and names nobody; nil for none. stale says that there is none because one of a
// holder is too old.
func (b *Book) best(p *Place, d *Device) (a *account, stale bool) {
	var nobody *account
	look := func(s *scrape, a *account) (found bool) {
		a.time = s.time
		switch {
		case !b.fresh(s, p.Time):
			stale = stale || a.ofHolder()
		case a.speaks():
			return true
		case nobody == nil && a.complete && a.other == 0 && len(a.silent) == 0:
			nobody = a
		}
		return false
	}
	if l := b.lists[d.Of.Device]; l != nil {
		if a := d.ofProcesses(l); look(&l.scrape, a) {
			return a, false
		}
	}
	for _, of := range b.statedOf(p, d) {
		if a := p.ofStated(d, of); look(&of.usage, a) {
			return a, false
		}
	}
	if stale {
		return nil, true
	}
	return nobody, false
}
