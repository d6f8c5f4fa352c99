package budget

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/stage"
)

// retention is how long the Book keeps the values of a source that stopped sending. During that
// time, the device is reported as stale.
const retention = time.Hour

// Limits restricts the number of stored entries in the Books of all nodes.
type Limits struct {
	// rows counts the listed processes and the stated values. The others count devices.
	rows, lists, stated, memory *stage.Limit
}

// NewLimits returns limits of n entries of each kind.
func NewLimits(n int) *Limits {
	return &Limits{rows: stage.NewLimit(n), lists: stage.NewLimit(n), stated: stage.NewLimit(n), memory: stage.NewLimit(n)}
}

// Book keeps the newest list of processes for each device on a node. It also keeps the newest
// values that exporters state about containers in separate frames. It is not safe for concurrent
// use.
type Book struct {
	// maxAge is the maximum age of lists and values, in nanoseconds.
	maxAge int64
	limits *Limits

	lists  map[gpudata.Device]*processList
	stated map[gpudata.Device]*statedValues
	// memory contains the last reported memory of each device.
	memory map[gpudata.Device]deviceMemory
}

// NewBook returns an empty Book. It uses lists and values for at most maxAge.
func NewBook(maxAge time.Duration, limits *Limits) *Book {
	return &Book{
		maxAge: int64(maxAge), limits: limits,
		lists: map[gpudata.Device]*processList{}, stated: map[gpudata.Device]*statedValues{}, memory: map[gpudata.Device]deviceMemory{},
	}
}

// scrape describes the newest values from a source.
type scrape struct {
	time int64 // by the source's clock, in nanoseconds since the epoch
	// interval is the time since the previous values. 0 means unknown.
	interval int64
	seen     time.Time // by the local clock
	rows     int       // number of stored processes or values
}

// Process is a process on a device.
type Process struct {
	PID string
	// Holder is the process's container, as far as it is known. It is zero for a process on the
	// host.
	Holder gpudata.Holder
	// Used is the process's memory in bytes, or Unknown.
	Used int64
}

// processList is a device's list of processes.
type processList struct {
	scrape
	processes map[string]Process // by PID
	// count is the number of processes if counted is true. The list may contain fewer.
	count   int
	counted bool
}

// deviceMemory contains a device's last reported memory, and the users for which the usage was
// sent.
type deviceMemory struct {
	time              int64
	seen              time.Time
	used, limit, free int64
	// sent contains the users for which the usage at usedAt was sent.
	usedAt int64
	sent   []gpudata.Holder
}

// UpdateMemory stores the memory values of a frame's device. If the frame has no memory values, for
// example because it is a list of processes, UpdateMemory sets the device's memory to the last
// stored values.
func (b *Book) UpdateMemory(d *Device, t int64, now time.Time) {
	id := d.Frame.Device
	memory, ok := b.memory[id]
	switch {
	case d.Frame.Observed:
		if ok || b.limits.memory.Take() {
			memory.time, memory.seen, memory.used, memory.limit, memory.free = t, now, d.Used, d.Limit, d.Free
			b.memory[id] = memory
		}
	case ok && max(t-memory.time, memory.time-t) <= b.maxAge:
		d.Used, d.Limit, d.Free = memory.used, memory.limit, memory.free
	}
}

// MarkSent marks a user's usage at UsedAt as sent. It reports whether the usage must be sent,
// because it was not sent before. Until the source reports a new value, every frame of the device
// contains the same usage.
func (b *Book) MarkSent(d *Device, u *User, now time.Time) bool {
	memory, ok := b.memory[d.Frame.Device]
	if !ok && !b.limits.memory.Take() {
		return false
	}
	if memory.usedAt != d.UsedAt {
		memory.usedAt, memory.sent = d.UsedAt, nil
	}
	if slices.ContainsFunc(memory.sent, u.MayBeSame) {
		return false
	}
	memory.sent = append(memory.sent, u.Clone())
	if !ok {
		memory.used, memory.limit, memory.free = Unknown, Unknown, Unknown
	}
	memory.seen = now
	b.memory[d.Frame.Device] = memory
	return true
}

// statedValues contains the values that an exporter states about the containers of a device in
// separate frames.
type statedValues struct {
	usage  scrape
	used   map[gpudata.Holder]int64 // in bytes
	limits map[gpudata.Holder]statedLimit
}

// statedLimit is a budget that an exporter states. Each limit has a separate time, because several
// exporters may state limits at different times.
type statedLimit struct {
	bytes, time int64
	seen        time.Time
}

// recordScrape records that a source has values for time t. If next is true, these values replace
// the stored values. If late is true, the stored values are newer. If the stored values were not
// updated for maxAge, older values also replace them, because the source's clock was set back.
func (b *Book) recordScrape(s *scrape, t int64, now time.Time) (late, next bool) {
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
		b.limits.rows.Free(s.rows)
		s.time, s.rows = t, 0
	}
	return late, next
}

// fresh reports whether values are recent enough at time t: no older than two intervals of their
// source, and no older than maxAge.
func (b *Book) fresh(s *scrape, t int64) bool {
	limit := b.maxAge
	if s.interval > 0 {
		limit = min(limit, 2*s.interval)
	}
	return max(t-s.time, s.time-t) <= limit
}

// addRow counts one more process or value. It returns false if the book is full.
func (b *Book) addRow(s *scrape) bool {
	if !b.limits.rows.Take() {
		return false
	}
	s.rows++
	return true
}

// AddProcess stores a process on a device. Processes with the same time belong to one list. It
// returns false if the book is full.
func (b *Book) AddProcess(d gpudata.Device, t int64, now time.Time, p Process) bool {
	l, ok := b.list(d, t, now)
	if l == nil {
		return ok
	}
	if old, exists := l.processes[p.PID]; exists {
		old.Used = max(old.Used, p.Used)
		l.processes[p.PID] = old
		return true
	}
	if !b.addRow(&l.scrape) {
		return false
	}
	p.PID, p.Holder = strings.Clone(p.PID), p.Holder.Clone()
	l.processes[p.PID] = p
	return true
}

// AddCount stores the number of processes on a device. The list may contain fewer processes, or
// none. It returns false if the book is full.
func (b *Book) AddCount(d gpudata.Device, t int64, now time.Time, n int) bool {
	l, ok := b.list(d, t, now)
	if l == nil {
		return ok
	}
	if !l.counted && !b.addRow(&l.scrape) {
		return false
	}
	l.count, l.counted = n, true
	return true
}

// list returns the list of a device at time t. It returns nil and true if a newer list is stored,
// or nil and false if the book is full.
func (b *Book) list(d gpudata.Device, t int64, now time.Time) (*processList, bool) {
	l := b.lists[d]
	if l == nil {
		if !b.limits.lists.Take() {
			return nil, false
		}
		l = &processList{processes: map[string]Process{}}
		b.lists[d] = l
	}
	switch late, next := b.recordScrape(&l.scrape, t, now); {
	case late:
		return nil, true
	case next:
		clear(l.processes)
		l.count, l.counted = 0, false
	}
	return l, true
}

// AddStated stores the values that an exporter states about a container in a separate frame: the
// container's usage of the device and its budget. Either value may be Unknown. It returns false if
// the book is full.
func (b *Book) AddStated(d gpudata.Device, t int64, now time.Time, h gpudata.Holder, used, budget int64) bool {
	if used == Unknown && budget == Unknown {
		return true
	}
	values := b.stated[d]
	if values == nil {
		if !b.limits.stated.Take() {
			return false
		}
		values = &statedValues{used: map[gpudata.Holder]int64{}, limits: map[gpudata.Holder]statedLimit{}}
		b.stated[d] = values
	}
	return b.addUsed(values, t, now, h, used) && b.addLimit(values, t, now, h, budget)
}

func (b *Book) addUsed(values *statedValues, t int64, now time.Time, h gpudata.Holder, used int64) bool {
	if used == Unknown {
		return true
	}
	switch late, next := b.recordScrape(&values.usage, t, now); {
	case late:
		return true
	case next:
		clear(values.used)
	}
	if old, exists := values.used[h]; exists {
		values.used[h] = max(old, used)
		return true
	}
	if !b.addRow(&values.usage) {
		return false
	}
	values.used[h.Clone()] = used
	return true
}

func (b *Book) addLimit(values *statedValues, t int64, now time.Time, h gpudata.Holder, budget int64) bool {
	if budget == Unknown {
		return true
	}
	old, exists := values.limits[h]
	switch {
	case exists && t == old.time:
		budget = max(budget, old.bytes)
	case exists && t < old.time && int64(now.Sub(old.seen)) <= b.maxAge:
		return true // late
	case !exists && !b.limits.rows.Take():
		return false
	}
	values.limits[h.Clone()] = statedLimit{budget, t, now}
	return true
}

// Sweep deletes budgets older than maxAge, and devices without data for the retention time.
func (b *Book) Sweep(now time.Time) {
	isOld := func(seen time.Time) bool { return now.Sub(seen) > retention }
	for d, l := range b.lists {
		if isOld(l.seen) {
			b.limits.rows.Free(l.rows)
			b.limits.lists.Free(1)
			delete(b.lists, d)
		}
	}
	for d, values := range b.stated {
		before := len(values.limits)
		maps.DeleteFunc(values.limits, func(_ gpudata.Holder, l statedLimit) bool { return int64(now.Sub(l.seen)) > b.maxAge })
		b.limits.rows.Free(before - len(values.limits))
		if isOld(values.usage.seen) && len(values.limits) == 0 {
			b.limits.rows.Free(values.usage.rows)
			b.limits.stated.Free(1)
			delete(b.stated, d)
		}
	}
	before := len(b.memory)
	maps.DeleteFunc(b.memory, func(_ gpudata.Device, m deviceMemory) bool { return isOld(m.seen) })
	b.limits.memory.Free(before - len(b.memory))
}

// IsEmpty reports whether the Book is empty.
func (b *Book) IsEmpty() bool { return len(b.lists)+len(b.stated)+len(b.memory) == 0 }

// Fill sets the usage of all users on the place's devices, and the budgets that exporters state. It
// adds users that do not hold their device. It does not change devices with Reported usage.
func (b *Book) Fill(p *Place) {
	for _, d := range p.Devices {
		if !slices.ContainsFunc(d.Users, func(u *User) bool { return u.Origin == Reported }) {
			d.apply(b.bestAccount(p, d))
		}
	}
	b.fillLimits(p)
}

// fillLimits sets the budgets that exporters state. A pod's budget is divided among the pod's
// containers on the device that have no budget of their own.
func (b *Book) fillLimits(p *Place) {
	for _, d := range p.Devices {
		podLimits := map[gpudata.Holder]int64{}
		for _, source := range b.statedSources(p, d) {
			for h, l := range source.limits {
				switch {
				case !h.InPod() || l.bytes > maxBytes || max(p.Time-l.time, l.time-p.Time) > b.maxAge || !p.appliesTo(source, d, h):
				case h.Container == "":
					podLimits[h] = l.bytes
				default:
					for _, u := range d.Users {
						if u.MayBeSame(h) {
							u.Exported = max(u.Exported, l.bytes)
						}
					}
				}
			}
		}
		for _, h := range slices.SortedFunc(maps.Keys(podLimits), gpudata.Holder.Compare) {
			var users []*User
			for _, u := range d.Users {
				if u.Exported == 0 && u.MayBeSame(h) {
					users = append(users, u)
				}
			}
			for _, u := range users {
				u.Exported = podLimits[h] / int64(len(users))
			}
		}
	}
}

// statedSource contains the values that exporters state about the containers of a device, or of the
// board of an instance.
type statedSource struct {
	*statedValues
	isBoard bool
}

// statedSources returns the values that exporters state about the containers of a device. An
// exporter may report an instance's board instead of the instance.
func (b *Book) statedSources(p *Place, d *Device) (sources []statedSource) {
	if values := b.stated[d.Frame.Device]; values != nil {
		sources = append(sources, statedSource{values, false})
	}
	if d.Board == "" {
		return sources
	}
	if values := b.stated[gpudata.NewDevice(p.Place, d.Board)]; values != nil {
		sources = append(sources, statedSource{values, true})
	}
	return sources
}

// appliesTo reports whether an exporter's values for a container apply to the device. Values for a
// board apply to an instance only if it is the container's only instance on that board.
func (p *Place) appliesTo(source statedSource, d *Device, h gpudata.Holder) bool {
	if !source.isBoard {
		return true
	}
	for _, o := range p.Devices {
		if o.Board == d.Board && (o == d) != (o.matchUser(h, true) != nil) {
			return false
		}
	}
	return true
}

// bestAccount returns the account to use for a device: the first account with usage, otherwise the
// first complete and empty account, otherwise nil. stale is true if it returns nil because a
// holder's account is too old.
func (b *Book) bestAccount(p *Place, d *Device) (a *account, stale bool) {
	var empty *account
	usable := func(s *scrape, a *account) (found bool) {
		a.time = s.time
		switch {
		case !b.fresh(s, p.Time):
			stale = stale || a.namesHolder()
		case a.reportsUsage():
			return true
		case empty == nil && a.complete && a.other == 0 && len(a.uncertain) == 0:
			empty = a
		}
		return false
	}
	if l := b.lists[d.Frame.Device]; l != nil {
		if a := d.accountOfProcesses(l); usable(&l.scrape, a) {
			return a, false
		}
	}
	for _, source := range b.statedSources(p, d) {
		if a := p.accountOfStated(d, source); usable(&source.usage, a) {
			return a, false
		}
	}
	if stale {
		return nil, true
	}
	return empty, false
}
