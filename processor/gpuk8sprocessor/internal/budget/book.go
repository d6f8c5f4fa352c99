package budget

import (
	"maps"
	"slices"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/stage"
)

// retention is how long the Book keeps the values from a source that has stopped sending data.
// While the Book keeps the values, the device is reported as stale.
const retention = time.Hour

// Limits contains the limits on the total number of entries in the Books of all nodes.
type Limits struct {
	// The rows field limits the number of values that exporters report. The stated and memory
	// fields limit the number of devices.
	rows, stated, memory *stage.Limit
}

// NewLimits returns Limits in which each limit is n.
func NewLimits(n int) *Limits {
	return &Limits{rows: stage.NewLimit(n), stated: stage.NewLimit(n), memory: stage.NewLimit(n)}
}

// Book stores the newest memory values for each device on a node. A Book also stores the newest
// values that exporters report about containers in separate frames. A Book is not safe for
// concurrent use.
type Book struct {
	// Values older than maxAge are not used.
	maxAge time.Duration
	limits *Limits

	stated map[gpudata.Device]*statedValues
	// memory contains the most recent memory values for each device.
	memory map[gpudata.Device]deviceMemory
}

// NewBook returns an empty Book that uses values for at most maxAge.
func NewBook(maxAge time.Duration, limits *Limits) *Book {
	return &Book{
		maxAge: maxAge, limits: limits,
		stated: map[gpudata.Device]*statedValues{}, memory: map[gpudata.Device]deviceMemory{},
	}
}

// scrape describes the last scrape that contained values from a source.
type scrape struct {
	time int64 // The time field is when the scrape was taken, according to the source's clock, in nanoseconds since the epoch.
	// interval is the time between the last two scrapes, or 0 if unknown.
	interval int64
	seen     time.Time // The seen field is when the scrape arrived, according to the local clock.
	rows     int       // rows is the number of stored values.
}

// deviceMemory contains the most recent memory values for a device, and the users whose usage was
// already sent.
type deviceMemory struct {
	used, limit storedValue
	free        int64 // The free field belongs to the same frame as used.
	// The seen field is when the last value arrived, or when the last usage was sent, according to
	// the local clock.
	seen time.Time
	// The sent field contains the users whose usage was already sent, for the last maxSent times of
	// a measurement.
	sent []sentUsage
}

// storedValue is the newest value of a device.
type storedValue struct {
	bytes, time int64
	arrived     time.Time // The arrived field is when the value arrived, according to the local clock.
}

// replace stores a value for time t and returns true, unless the stored value is newer than t. If
// no value has been stored for maxAge, a value with an earlier time also replaces the stored value,
// because the source's clock was set back.
func (s *storedValue) replace(bytes, t int64, now time.Time, maxAge time.Duration) bool {
	if t < s.time && now.Sub(s.arrived) <= maxAge {
		return false
	}
	*s = storedValue{bytes, t, now}
	return true
}

// at returns the stored value, or Unknown if its time differs from t by more than maxAge.
func (s *storedValue) at(t int64, maxAge time.Duration) int64 {
	if max(t-s.time, s.time-t) > int64(maxAge) {
		return Unknown
	}
	return s.bytes
}

// newDeviceMemory returns a deviceMemory in which all values are unknown.
func newDeviceMemory() deviceMemory {
	return deviceMemory{used: storedValue{bytes: Unknown}, limit: storedValue{bytes: Unknown}, free: Unknown}
}

// maxSent is the number of times of a measurement for which a Book remembers what was sent. Lists
// of different sources, and late frames, can have different times.
const maxSent = 4

// sentUsage contains the users whose usage at a time was sent.
type sentUsage struct {
	at    int64
	users []gpudata.Holder
}

// UpdateMemory stores the device's memory values from a frame. If the frame does not contain the
// usage or the limit, for example because the frame contains only a process list or the device's
// power, UpdateMemory sets the missing value to the stored value, unless the time of the stored
// value differs from t by more than maxAge.
func (b *Book) UpdateMemory(d *Device, t int64, now time.Time) {
	id := d.Frame.Device
	memory, ok := b.memory[id]
	if !ok {
		memory = newDeviceMemory()
	}
	stored := false
	if d.Used != Unknown {
		if memory.used.replace(d.Used, t, now, b.maxAge) {
			memory.free, stored = d.Free, true
		}
	} else if used := memory.used.at(t, b.maxAge); used != Unknown {
		d.Used, d.Free, d.UsedStored = used, memory.free, true
	}
	if d.Limit != Unknown {
		stored = memory.limit.replace(d.Limit, t, now, b.maxAge) || stored
	} else {
		d.Limit = memory.limit.at(t, b.maxAge)
	}
	if stored && (ok || b.limits.memory.Take()) {
		memory.seen = now
		b.memory[id] = memory
	}
}

// MarkSent marks the usage of u that was measured at d.UsedAt as sent. If MarkSent returns false,
// the caller must not send the usage, because the usage was already sent or the limit is reached.
// Without MarkSent, each frame of the device would repeat the same usage until the source reports a
// new value.
func (b *Book) MarkSent(d *Device, u *User, now time.Time) bool {
	memory, ok := b.memory[d.Frame.Device]
	if !ok {
		if !b.limits.memory.Take() {
			return false
		}
		memory = newDeviceMemory()
	}
	i := slices.IndexFunc(memory.sent, func(s sentUsage) bool { return s.at == d.UsedAt })
	if i < 0 {
		i = min(len(memory.sent), maxSent-1)
		memory.sent = append(slices.Clone(memory.sent[len(memory.sent)-i:]), sentUsage{at: d.UsedAt})
	}
	sent := &memory.sent[i]
	if slices.ContainsFunc(sent.users, u.MayBeSame) {
		return false
	}
	sent.users = append(sent.users, u.Clone())
	memory.seen = now
	b.memory[d.Frame.Device] = memory
	return true
}

// statedValues contains the values that a container exporter reports about the containers of a
// device in separate frames.
type statedValues struct {
	usage  scrape
	used   map[gpudata.Holder]int64 // in bytes
	limits map[gpudata.Holder]statedLimit
}

// statedLimit is a budget that an exporter reports. Each budget has its own timestamp, because
// several exporters can report budgets at different times.
type statedLimit struct {
	bytes, time int64
	seen        time.Time
}

// recordScrape records that a source has reported values for time t. If the new values replace the
// stored values, next is true. If the stored values are newer than t and are kept, late is true. If
// the stored values have not been updated for maxAge, values with an earlier time also replace the
// stored values, because the source's clock was set back.
func (b *Book) recordScrape(s *scrape, t int64, now time.Time) (late, next bool) {
	setBack := t < s.time && now.Sub(s.seen) > b.maxAge
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

// addRow counts one more stored value for the given scrape. If the limit is reached, addRow returns
// false.
func (b *Book) addRow(s *scrape) bool {
	if !b.limits.rows.Take() {
		return false
	}
	s.rows++
	return true
}

// AddStated stores the usage and the budget that an exporter reports for a container on a device.
// The usage, the budget, or both may be Unknown. If a limit is reached, AddStated returns false.
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
	case exists && t < old.time && now.Sub(old.seen) <= b.maxAge:
		return true // late
	case !exists && !b.limits.rows.Take():
		return false
	}
	values.limits[h.Clone()] = statedLimit{budget, t, now}
	return true
}

// Sweep deletes budgets that are older than maxAge, and devices for which no data has arrived for
// longer than retention.
func (b *Book) Sweep(now time.Time) {
	isOld := func(seen time.Time) bool { return now.Sub(seen) > retention }
	for d, values := range b.stated {
		before := len(values.limits)
		maps.DeleteFunc(values.limits, func(_ gpudata.Holder, l statedLimit) bool { return now.Sub(l.seen) > b.maxAge })
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
func (b *Book) IsEmpty() bool { return len(b.stated)+len(b.memory) == 0 }

// Fill sets the usage of all users of the devices in p, and the budgets that exporters report. If a
// container uses a device without holding the device, Fill adds the container as a user. If the
// Origin of any user of a device is Reported, Fill does not change the usage of that device's
// users.
func (b *Book) Fill(p *Place) {
	for _, d := range p.Devices {
		if !slices.ContainsFunc(d.Users, func(u *User) bool { return u.Origin == Reported }) {
			d.apply(b.bestAccount(p, d))
		}
	}
	b.fillLimits(p)
}

// fillLimits sets the budgets that exporters report. If an exporter reports a budget for a pod,
// fillLimits divides the budget among those containers of the pod that use the device and have no
// reported budget of their own.
func (b *Book) fillLimits(p *Place) {
	for _, d := range p.Devices {
		podLimits := map[gpudata.Holder]int64{}
		for _, source := range b.statedSources(p, d) {
			for h, l := range source.limits {
				switch {
				case !h.InPod() || l.bytes > maxBytes || max(p.Time-l.time, l.time-p.Time) > int64(b.maxAge) || !p.appliesTo(source, d, h):
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

// statedSource contains the values that exporters report about the containers of a device. If
// isBoard is true, the device is an instance and the values were reported for the instance's board.
type statedSource struct {
	*statedValues
	isBoard bool
}

// statedSources returns the values that exporters report about the containers of a device. For an
// instance, the result also contains the values for the instance's board, because exporters can
// report the board instead of the instance.
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

// appliesTo reports whether the values that an exporter reports for the container h apply to the
// device d. Values for a board apply to an instance only if the container holds that instance and
// no other instance on the board.
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

// bestAccount returns the account to use for a device. The returned account is the first account
// that contains usage. If no account contains usage, the returned account is the first account that
// is complete but empty, or nil if there is no such account. The stale result is true if the
// returned account is nil because an account that contains a holder's usage is too old.
func (b *Book) bestAccount(p *Place, d *Device) (a *account, stale bool) {
	var empty *account
	usable := func(t, interval int64, a *account) (found bool) {
		a.time = t
		switch {
		case !gpudata.Applies(t, interval, p.Time, b.maxAge):
			stale = stale || a.namesHolder()
		case a.reportsUsage():
			return true
		case empty == nil && a.complete && a.other == 0 && len(a.uncertain) == 0:
			empty = a
		}
		return false
	}
	if l := d.Frame.ProcessList; l != nil {
		if a := d.accountOfProcesses(l); usable(l.Time, l.Interval, a) {
			return a, false
		}
	}
	for _, source := range b.statedSources(p, d) {
		if a := p.accountOfStated(d, source); usable(source.usage.time, source.usage.interval, a) {
			return a, false
		}
	}
	if stale {
		return nil, true
	}
	return empty, false
}
