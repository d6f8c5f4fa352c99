package findings

import (
	"cmp"
	"fmt"
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
	// maxPlaces, and maxDevices for each place, bound the memory. Devices beyond them are not
	// evaluated.
	maxPlaces  = 20_000
	maxDevices = 2_000
	// sweepEvery is the time between two searches for devices that are gone.
	sweepEvery = 10 * time.Minute
)

// Tracker evaluates the frames of all places. It is safe for concurrent use.
type Tracker struct {
	// Refused counts devices and frames that were not evaluated because a limit was reached.
	Refused atomic.Int64
	// Future counts frames that were dropped because their time is too far ahead of the wall clock.
	// SetBack counts frames at which the time of a place restarted because a clock was set back.
	Future, SetBack atomic.Int64

	set    Settings
	places *stage.Nodes[place]
	unused sync.Pool // of *[]view
}

// place is the state of one place.
type place struct {
	clock   gpudata.Clock
	swept   int64
	devices map[gpudata.Device]*memory
	groups  uint8 // number of the newest group
}

// New returns a tracker without state.
func New(set Settings) *Tracker {
	return &Tracker{
		set:    set,
		places: stage.NewNodes(maxPlaces, func(string) *place { return &place{devices: map[gpudata.Device]*memory{}} }),
		unused: sync.Pool{New: func() any { return &[]view{} }},
	}
}

// Frame evaluates the devices of a frame. It adds the samples of gpu.finding to the devices, and
// the findings that started or ended to the frame.
func (t *Tracker) Frame(f *gpudata.Frame, now time.Time) {
	t.forget(now)
	if gpudata.Ahead(f.Time, now) {
		t.Future.Add(1)
		return
	}
	fits := t.places.With(f.Place, now, func(p *place) {
		if t.observe(p, f.Time, now) {
			t.evaluate(p, f)
		}
	})
	if !fits {
		t.Refused.Add(1)
	}
}

// observe reports whether a frame of a time is evaluated.
func (t *Tracker) observe(p *place, at int64, now time.Time) bool {
	before := p.clock.Newest
	switch p.clock.Observe(at, now, t.set.MaxGap) {
	case gpudata.SetBack:
		t.SetBack.Add(1)
		p.swept = 0
		for _, m := range p.devices {
			m.setBack(before - at)
		}
	case gpudata.Behind, gpudata.Future:
		return false
	case gpudata.OnTime:
	}
	return true
}

func (t *Tracker) evaluate(p *place, f *gpudata.Frame) {
	reused := t.unused.Get().(*[]view) //nolint:forcetypeassert // the pool has nothing else
	defer t.unused.Put(reused)
	views := t.read((*reused)[:0], f, p)
	*reused = views
	for i := range views {
		t.judge(&views[i])
	}
	for i := range views {
		for rule := range rules {
			if rules[rule].judging(&t.set).Enabled {
				t.change(f, p, &views[i], rule)
			}
		}
	}
	p.sweep(f)
	for i := range views {
		views[i].emit()
	}
	clear(views)
}

// read appends the views of a frame's devices.
func (t *Tracker) read(views []view, f *gpudata.Frame, p *place) []view {
	for _, d := range f.Devices {
		if !d.Observed {
			continue
		}
		m := p.devices[d.Device]
		if m == nil {
			if len(p.devices) >= maxDevices {
				t.Refused.Add(1)
				continue
			}
			m = newMemory()
			p.devices[d.Device] = m
		}
		if f.Time <= m.seen {
			continue
		}
		views = append(views, view{set: &t.set, d: d, r: read(d), m: m, time: f.Time, holders: holdersOf(f, d)})
	}
	for i := range views {
		views[i].all = views
	}
	return views
}

// judge evaluates each rule for a device.
func (t *Tracker) judge(v *view) {
	m, dt := v.m, time.Duration(v.time-v.m.seen)
	switch {
	case m.seen == 0:
		dt = 0
	case dt > t.set.MaxGap:
		m.gap(dt)
		dt = 0
	}
	m.seen = v.time
	now, _ := fingerprint(&v.r)
	if now != 0 && now == m.fingerprint && dt > 0 {
		v.still = dt
		if m.held&bit(frozen) != 0 {
			v.still += time.Duration(m.judged[frozen].evidence) * time.Millisecond
		}
	}
	m.fingerprint = now
	m.count(&v.r, v.time, dt, t.set.MemoryDegrading.For)
	for i := range rules {
		rule := &rules[i]
		if s := rule.judging(&t.set); s.Enabled && (i == frozen || v.still <= t.set.MaxGap) {
			v.now[i] = rule.judge(v)
			m.judge(i, v.now[i], v.time, dt, s.For)
		}
	}
	m.collect(&v.r, &v.now, dt)
}

// change starts or ends the finding of a rule.
func (t *Tracker) change(f *gpudata.Frame, p *place, v *view, i int) {
	m, j, wait := v.m, &v.m.judged[i], rules[i].judging(&t.set).For
	isOpen := m.open&bit(i) != 0
	switch {
	case isOpen && j.evidence == 0:
		p.end(f, v.d.Device, m, i)
	case !isOpen && v.now[i] == yes && j.evidence >= milliseconds(wait):
		found := rules[i].evidence(v)
		if found == nil {
			return
		}
		found.Name, found.Device, found.Start = rules[i].Name, v.d.Device.ID(), true
		if found.Texts == nil {
			found.Texts = map[string]string{}
		}
		subject := "GPU " + found.Device
		if i == spinning {
			if group, other := together(v); group != nil {
				subject = p.startGroup(found, v.holders.workload, group, other)
			}
		}
		m.open |= bit(i)
		found.Texts[AttrAction] = rules[i].Action
		found.Texts[AttrSince] = time.Unix(int64(j.since), 0).UTC().Format(time.RFC3339)
		found.Body = fmt.Sprintf("%s: %s: %s.", subject, rules[i].Name, found.Body)
		f.Findings = append(f.Findings, *found)
	}
}

// startGroup makes the start of a finding apply to all spinning devices of a workload. It returns
// the subject of the finding's text. other is the only device of the workload that does not spin,
// or nil.
func (p *place) startGroup(found *gpudata.Finding, of workload, group []*view, other *view) string {
	p.groups = max(1, p.groups+1) // 0 is none
	var ids []string
	for _, o := range group {
		o.m.open |= bit(spinning)
		o.m.judged[spinning].evidence = milliseconds(o.set.Spinning.For)
		o.m.group = p.groups
		ids = append(ids, o.d.Device.ID())
	}
	slices.Sort(ids)
	found.Workload = true
	found.Lists = map[string][]string{AttrDevices: ids}
	subject := fmt.Sprintf("%d GPUs of %s %s", len(ids), of.kind, of.name)
	if o := cmp.Or(other, differing(group)); o != nil {
		found.Texts[AttrDiffers] = o.d.Device.ID()
		subject += ", of which " + o.d.Device.ID() + " differs"
	}
	return subject
}

// end ends a finding of a device. A finding about a workload ends with the last of its devices.
func (p *place) end(f *gpudata.Frame, d gpudata.Device, m *memory, i int) {
	m.open &^= bit(i)
	found := gpudata.Finding{Name: rules[i].Name, Device: d.ID(), Numbers: map[string]float64{}}
	subject := "GPU " + d.ID()
	if i == spinning && m.group != 0 {
		group := m.group
		m.group = 0
		for _, o := range p.devices {
			if o.group == group {
				return
			}
		}
		found.Workload, subject = true, "The workload's GPUs"
	}
	found.Duration = time.Duration(f.Time) - time.Duration(m.judged[i].since)*time.Second
	found.Body = fmt.Sprintf("%s: %s ended after %.0f s.", subject, rules[i].Name, found.Duration.Seconds())
	f.Findings = append(f.Findings, found)
}

// sweep ends the findings of devices that have been gone for the retention time, and deletes the
// state of these devices.
func (p *place) sweep(f *gpudata.Frame) {
	if f.Time-p.swept < int64(sweepEvery) {
		return
	}
	p.swept = f.Time
	byID := func(a, b gpudata.Device) int { return cmp.Compare(a.ID(), b.ID()) }
	for _, d := range slices.SortedFunc(maps.Keys(p.devices), byID) {
		m := p.devices[d]
		if m.seen == 0 { // the clock was set back, and the device has not been seen since
			m.seen = f.Time
		}
		if f.Time-m.seen <= int64(retention) {
			continue
		}
		for i := range rules {
			if m.open&bit(i) != 0 {
				p.end(f, d, m, i)
			}
		}
		delete(p.devices, d)
	}
}

// forget deletes places that have had no frame for a day.
func (t *Tracker) forget(now time.Time) {
	t.places.Sweep(now, sweepEvery, func(_ string, _ *place, used time.Time) (gone bool) { return now.Sub(used) > 24*time.Hour })
}

// emit adds a sample for each rule that has a verdict.
func (v *view) emit() {
	for i := range rules {
		if v.now[i] == unknown {
			continue
		}
		value := 0.0
		if v.m.open&bit(i) != 0 {
			value = 1
		}
		v.d.Samples.Add(gpudata.Sample{Metric: signal.GPUFinding, Own: rules[i].Name, Value: value})
	}
}
