package events

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/internal/stage"
)

const (
	// forgetAfter is how long the state of a missing device or place is kept.
	forgetAfter = 24 * time.Hour
	// The following constants limit memory usage. The maxDevices and maxExporters limits apply to
	// each place. The maxKinds limit is the maximum number of error types per device. No events are
	// sent for items that exceed the limits.
	maxPlaces    = 20_000
	maxDevices   = 2_000
	maxExporters = 100
	maxKinds     = 1_100
)

// Tracker detects the events in all places. A Tracker is safe for concurrent use.
type Tracker struct {
	// Refused counts the items that were ignored because a limit was reached.
	Refused atomic.Int64
	// Skipped counts, for each reason, the samples and frames whose timestamps were wrong.
	Skipped [NumSkips]atomic.Int64

	set    Settings
	places *stage.Nodes[place]
	outlet outlet

	mu sync.Mutex
	// The exporters map contains the place of each exporter, indexed by url.full. Exporters whose
	// place is not known from their frames are omitted.
	exporters map[string]gpudata.Place
}

// Describe returns the Resource attributes of a holder. For the zero Holder, Describe returns the
// Resource attributes of the place.
type Describe func(*gpudata.Frame, gpudata.Holder) map[string]any

// place is the stored state of one place.
type place struct {
	at   gpudata.Place
	Host string
	// First is true until a board has appeared in two frames.
	First bool `json:",omitempty"`
	// Clock is the clock of the frames and of gpu.exporter.up.
	Clock gpudata.Clock `json:"Seen"`
	// Arrived is the wall clock time at which the last frame or the last sample of gpu.exporter.up
	// arrived.
	Arrived int64
	// Resumed is the time of the first sample after the last period of more than LostAfter without
	// any sample, for example because the collector was down.
	Resumed   int64 `json:",omitempty"`
	Devices   map[string]*device
	Exporters map[string]*exporter `json:",omitempty"`
	// Incident is the incident that has not ended yet.
	Incident *incident `json:",omitempty"`
}

// device is the stored state of a board or an instance.
type device struct {
	Description gpudata.Description
	// holding describes the only known holder. If there is not exactly one known holder, holding
	// is zero.
	holding
	Seen int64
	Lost bool `json:",omitempty"`
	// LostAt is the time of the frame that showed the loss.
	LostAt int64 `json:",omitempty"`
	// Baseline is true if the next frame is a baseline, because a clock was set back.
	Baseline bool `json:",omitempty"`
	// Exporter is the url.full of the board's exporter, or "" if the exporter is unknown.
	Exporter string `json:",omitempty"`
	// Errors maps each error.type to its total.
	Errors map[string]*total `json:",omitempty"`
	// States maps each metric to its state.
	States map[string]*state `json:",omitempty"`
	// Throttles maps each reason or violation to the share of time in which it was active.
	Throttles map[string]*share `json:",omitempty"`
	// Throttle is the metric from which throttling is currently determined.
	Throttle string `json:",omitempty"`
	Pressure *share `json:",omitempty"`
	// Profiles maps the hw.id of each of the board's instances to the instance's profile.
	Profiles map[string]profile `json:",omitempty"`
	// LayoutUnknown is true if the board has not been read since its first frame.
	LayoutUnknown bool `json:"Uncut,omitempty"`
	// HoldersKnown is true if the holders are known. If the holders are known and Holdings is
	// empty, the device is free.
	HoldersKnown bool      `json:",omitempty"`
	Holdings     []holding `json:",omitempty"`
}

type total struct {
	Time  int64
	Value float64
}

type state struct {
	Time  int64
	Value string
}

type profile struct {
	Seen int64
	Name string // the profile's name, or unknown
}

const unknown = "unknown"

// New returns a tracker without state.
func New(set Settings) *Tracker {
	return &Tracker{
		set: set, places: stage.NewNodes(maxPlaces, func(string) *place { return &place{} }),
		exporters: map[string]gpudata.Place{}, outlet: outlet{set: set, folds: map[equal]*fold{}},
	}
}

// Wants reports whether the tracker reads a metric.
func Wants(m *signal.Metric) bool {
	switch m.Name {
	case "hw.errors", statusMetric, actionMetric, throttleTime, eventTime, eventActive, "hw.gpu.memory.utilization", "gpu.device.holder", "gpu.sharing.clients":
		return true
	}
	return false
}

// frame is the state during a call to Tracker.Frame.
type frame struct {
	*Tracker
	describe Describe
	f        *gpudata.Frame
	place    *place
	// The before map contains the time of each board's previous frame with which the samples may be
	// compared, or 0 if there is no such frame.
	before map[string]int64
	now    int64
	out    []Event
}

// Frame processes a frame and returns the events to send immediately. The describe function may be
// nil.
func (t *Tracker) Frame(f *gpudata.Frame, now time.Time, describe Describe) (out []Event) {
	t.withPlace(f.Place, f.Time, now, func(p *place) { out = t.frame(p, f, now, describe) })
	return out
}

func (t *Tracker) frame(p *place, f *gpudata.Frame, now time.Time, describe Describe) []Event {
	if p.Devices == nil {
		p.Devices, p.First = map[string]*device{}, true
	}
	p.First = p.First && !slices.ContainsFunc(f.Devices, func(d *gpudata.DeviceFrame) bool {
		return d.Present() && p.Devices[boardOf(d)] != nil
	})
	p.Host = f.Host
	c := frame{Tracker: t, describe: describe, f: f, place: p, before: map[string]int64{}, now: now.UnixNano()}
	boards := map[string]bool{}
	room := func(id string) bool {
		known := p.Devices[id] != nil || len(p.Devices) < maxDevices
		if !known {
			t.Refused.Add(1)
		}
		return known
	}
	fresh := map[string]bool{} // boards that appear for the first time
	for _, d := range f.Devices {
		if id := boardOf(d); d.Present() && !boards[id] && room(id) && !c.lostSince(id) {
			boards[id] = true
			fresh[id] = c.board(id, d)
		}
	}
	for _, d := range f.Devices {
		if d.Present() && boards[boardOf(d)] && room(d.Device.ID()) {
			c.device(d)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(boards)) {
		c.partition(id, fresh[id])
	}
	c.missing(boards)
	c.findings()
	return c.out
}

// withPlace calls f with the state of a sample's place. The sample is dropped if the timestamp is
// too far ahead of the wall clock, or if the place is new and the tracker already has maxPlaces
// places.
func (t *Tracker) withPlace(at gpudata.Place, sample int64, now time.Time, f func(*place)) {
	if gpudata.Ahead(sample, now) {
		t.Skipped[Future].Add(1)
		return
	}
	fits := t.places.With(at, now, func(p *place) {
		if p.at != at {
			p.at = at.Clone()
		}
		p.Arrived = now.UnixNano()
		before := p.Clock.Newest
		if p.Clock.Observe(sample, now, t.set.MaxGap) == gpudata.SetBack {
			t.Skipped[ClockSetBack].Add(1)
			p.setBack(before - sample)
		}
		if before > 0 && sample-before > int64(t.set.LostAfter) {
			p.Resumed = sample
		}
		f(p)
	})
	if !fits {
		t.Refused.Add(1)
	}
}

// Forget deletes the places from which no data has arrived recently, and returns the deleted
// places.
func (t *Tracker) Forget(now time.Time) (gone []gpudata.Place) {
	t.places.Sweep(now, 0, func(_ string, p *place, _ time.Time) bool {
		old := now.UnixNano()-p.Arrived > int64(forgetAfter)
		if old {
			t.mu.Lock()
			defer t.mu.Unlock()
			maps.DeleteFunc(t.exporters, func(_ string, of gpudata.Place) bool { return of == p.at })
			gone = append(gone, p.at)
		}
		return old
	})
	return gone
}

func boardOf(d *gpudata.DeviceFrame) string { return cmp.Or(d.Parent, d.Device.ID()) }

// board records that a board has a row, and reports whether the board is new or was lost. The first
// frame of a place may not contain all boards of the place, because exporters are scraped one after
// another.
func (c *frame) board(id string, d *gpudata.DeviceFrame) (fresh bool) {
	b := c.place.Devices[id]
	if b == nil || b.Description.Parent != "" { // the board's first partition may have had the board's ID
		b = c.renamed(b, id, d)
	}
	fresh = b == nil || b.Lost
	if b == nil {
		b = &device{}
		c.place.Devices[id] = b
	}
	c.before[id] = b.before()
	if fresh {
		b.Description = described(d, id)
		if b.Lost || !c.place.First {
			c.emit(b, id, Event{Name: DeviceFound, Severity: Info, Body: "GPU " + id + " was found."})
		}
		b.Lost, b.LostAt = false, 0
	}
	b.Seen, b.Baseline = max(b.Seen, c.f.Time), false
	return fresh
}

// The renamed method returns the state of a board that was stored under a different ID, or b if
// there is no such state. For example, the ID of an AMD board may be the UUID while the board is
// unpartitioned, and the serial number while the board is partitioned. The renamed method also ends
// the active conditions and the holdings that were stored under the previous ID.
func (c *frame) renamed(b *device, id string, d *gpudata.DeviceFrame) *device {
	for _, was := range slices.Sorted(maps.Keys(c.place.Devices)) {
		k := c.place.Devices[was]
		named := k.Description.Serial == id || d.Device.ID() == id && d.Serial == was
		here := func(d *gpudata.DeviceFrame) bool { return d.Present() && boardOf(d) == was }
		if !named || was == id || k.Description.Parent != "" || slices.ContainsFunc(c.f.Devices, here) {
			continue
		}
		c.end(k, was)
		c.released(k, was)
		delete(c.place.Devices, was)
		if b != nil {
			c.end(b, id)
			c.released(b, id)
		}
		b = &device{
			Description: described(d, id), Seen: k.Seen, Lost: k.Lost, Errors: k.Errors, States: k.States,
			Profiles: k.Profiles, HoldersKnown: k.HoldersKnown, LostAt: k.LostAt, Baseline: k.Baseline,
		}
		c.place.Devices[id] = b
		break
	}
	return b
}

// The described function returns the description of the board with the given ID. If the given
// device is the board, described returns the device's description. If the given device is an
// instance of the board, described returns only the values that an instance shares with its board.
func described(d *gpudata.DeviceFrame, id string) gpudata.Description {
	if d.Device.ID() == id {
		return d.Description
	}
	return gpudata.Description{Name: d.Name, Model: d.Model, Vendor: d.Vendor, Driver: d.Driver}
}

// device processes the samples of a device.
func (c *frame) device(d *gpudata.DeviceFrame) {
	id := d.Device.ID()
	k := c.place.Devices[id]
	if k == nil || k.Lost {
		if b := c.place.Devices[d.Parent]; b != nil && b.hasInstanceAfter(c.f.Time) {
			return // the instance is part of an old layout
		}
		if k == nil {
			k = &device{}
			c.place.Devices[id] = k
		}
		k.Lost = false
	}
	before := k.before()
	if d.Parent == "" {
		before = c.before[id]
	}
	k.Description = d.Description
	k.holding = holding{}
	if one := c.holder(d); one != nil {
		k.holding = holding{one.Holder.Clone(), one.Strategy, one.Allocation}
	}
	if c.f.Time > before {
		c.holdings(k, id, d)
	}
	c.samples(k, id, d, before)
	k.Seen, k.Baseline = max(k.Seen, c.f.Time), false
}

// holder returns the only known holder of a device, or nil if there is not exactly one known
// holder. The holders of a board include the holders of the board's instances.
func (c *frame) holder(d *gpudata.DeviceFrame) (one *gpudata.User) {
	for _, o := range c.f.Devices {
		if o != d && o.Parent != d.Device.ID() {
			continue
		}
		for _, u := range o.Users {
			switch {
			case !u.Holds:
			case one == nil && o != d: // a holder of an instance; the allocation is the instance's, not the board's
				one = &gpudata.User{Holder: u.Holder, Strategy: signal.SharingMIG}
			case one == nil:
				one = u
			case !one.Holder.Same(u.Holder):
				return nil
			}
		}
	}
	return one
}

// The missing method finds boards that have had no row for LostAfter even though their exporter is
// up. The missing method also deletes the state of lost boards and lost instances that have had no
// row for forgetAfter.
func (c *frame) missing(present map[string]bool) {
	for _, id := range slices.Sorted(maps.Keys(c.place.Devices)) {
		k := c.place.Devices[id]
		instance := k.Description.Parent != ""
		if instance && !k.Lost || present[id] {
			continue
		}
		since, up := c.place.up(k, c.f.Time, int64(c.set.LostAfter))
		switch {
		case !up:
		case !k.Lost:
			if c.f.Time-max(k.Seen, since) >= int64(c.set.LostAfter) {
				c.lose(k, id)
			}
		case c.f.Time-k.Seen >= int64(forgetAfter):
			delete(c.place.Devices, id)
		}
	}
}

// The lose method ends all active conditions and holdings of a board and its instances, deletes the
// state of the instances except for the error counts, and sends the event about the lost board. If
// the board returns, its holders and the holders of its instances start again.
func (c *frame) lose(b *device, id string) {
	for _, inst := range slices.Sorted(maps.Keys(b.Profiles)) {
		if k := c.place.Devices[inst]; k != nil && inst != id {
			c.end(k, inst)
			c.released(k, inst)
			k.gone()
		}
	}
	c.end(b, id)
	c.released(b, id)
	c.emit(b, id, Event{Name: DeviceLost, Severity: Err, Body: "GPU " + id + " was lost."})
	// Errors and states are kept for comparison when the board returns.
	b.Lost, b.Throttles, b.Throttle, b.Pressure, b.Profiles = true, nil, "", nil, nil
	b.LostAt, b.holding = c.f.Time, holding{}
}

// Tick returns the merged events whose interval has ended, and the events of incidents that have
// ended.
func (t *Tracker) Tick(now time.Time) []Event { return t.tick(now, false) }

func (t *Tracker) tick(now time.Time, all bool) []Event {
	// Incidents are sent first, so that the rate limit suppresses other events before it suppresses
	// incidents.
	return t.outlet.tick(t.endIncidents(nil, now.UnixNano(), all), now.UnixNano(), all)
}

// Flush returns all delayed events, and one event for the suppressed events.
func (t *Tracker) Flush(now time.Time) []Event {
	return t.outlet.putSuppressed(t.tick(now, true), now.UnixNano(), true)
}

// Suppressed returns an event for the suppressed events without waiting for the end of the minute.
func (t *Tracker) Suppressed(now time.Time) []Event {
	return t.outlet.putSuppressed(nil, now.UnixNano(), true)
}

// emit completes and sends an event about a device and its only holder.
func (c *frame) emit(k *device, id string, e Event) {
	c.emitOf(k, id, &k.holding, e)
}

// emitOf completes and sends an event about a device and a holder.
func (c *frame) emitOf(k *device, id string, h *holding, e Event) {
	e.Time, e.Place, e.Host = c.f.Time, c.f.Place, c.f.Host
	e.Device, e.Description = id, k.Description
	e.Holder, e.Strategy, e.Allocation = h.Holder, h.Strategy, h.Allocation
	if c.describe != nil {
		e.Resource = c.describe(c.f, h.Holder)
	}
	c.out = c.outlet.put(c.out, e, c.now)
}
