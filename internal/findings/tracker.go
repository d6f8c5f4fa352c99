package findings

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/internal/stage"
)

const (
	// To limit memory usage, the tracker evaluates at most maxPlaces places and at most maxDevices
	// devices in each place.
	maxPlaces  = 20_000
	maxDevices = 2_000
	// The tracker keeps the state of a device without samples for deviceRetention, and the state of
	// a place without frames for placeRetention.
	deviceRetention = time.Hour
	placeRetention  = 24 * time.Hour
)

// Tracker evaluates the rules on the frames of all places. A place is a node; see [gpudata.Place].
// Tracker is safe for concurrent use.
type Tracker struct {
	// Refused counts devices and frames that were not evaluated because a limit was reached.
	Refused atomic.Int64
	// Future counts frames that were dropped because their time is too far ahead of the wall clock.
	// SetBack counts how often the tracker adjusted the times of a place because the place's clock
	// was set back.
	Future, SetBack atomic.Int64

	set    Settings
	places *stage.Nodes[place]
	unused sync.Pool // contains *[]view
}

// place is the state that the tracker keeps for one place.
type place struct {
	clock   gpudata.Clock
	devices map[gpudata.Device]*memory
}

// New returns a tracker that uses the given settings.
func New(set Settings) *Tracker {
	return &Tracker{
		set:    set,
		places: stage.NewNodes(maxPlaces, func(string) *place { return &place{devices: map[gpudata.Device]*memory{}} }),
		unused: sync.Pool{New: func() any { return &[]view{} }},
	}
}

// Frame evaluates the rules for the devices in a frame. Frame adds samples of gpu.finding to the
// devices, and adds the findings that have started or ended to the frame.
func (t *Tracker) Frame(f *gpudata.Frame, now time.Time) {
	t.places.Sweep(now, time.Hour, func(_ string, _ *place, used time.Time) (gone bool) { return now.Sub(used) > placeRetention })
	fits := t.places.With(f.Place, now, func(p *place) {
		before := p.clock.Newest
		switch p.clock.Observe(f.Time, now, t.set.MaxGap) {
		case gpudata.SetBack:
			t.SetBack.Add(1)
			p.setBack(f.Time-before, t.set.MaxGap)
			fallthrough
		case gpudata.OnTime:
			t.evaluate(p, f)
		case gpudata.Future:
			t.Future.Add(1)
		case gpudata.Behind:
		}
	})
	if !fits {
		t.Refused.Add(1)
	}
}

// setBack adjusts the stored times after a place's clock was set back. After the adjustment, the
// time between the last frame before the change and the first frame after the change is maxGap plus
// one second, so that this time counts as a gap.
func (p *place) setBack(by int64, maxGap time.Duration) {
	for _, m := range p.devices {
		m.seen += by - int64(maxGap+time.Second)
	}
}

func (t *Tracker) evaluate(p *place, f *gpudata.Frame) {
	reused := t.unused.Get().(*[]view) //nolint:forcetypeassert // the pool contains only this type
	views := t.read((*reused)[:0], f, p)
	for i := range views {
		views[i].all = views
		views[i].judge()
	}
	for i := range views {
		for rule := range rules {
			views[i].change(f, p, rule)
		}
	}
	p.sweep(f)
	for i := range views {
		views[i].emit()
	}
	clear(views)
	*reused = views
	t.unused.Put(reused)
}

// The read method appends a view of each observed device in a frame to the given views.
func (t *Tracker) read(views []view, f *gpudata.Frame, p *place) []view {
	for _, d := range f.Devices {
		m := p.devices[d.Device]
		switch {
		case !d.Observed || m != nil && f.Time <= m.seen:
			continue
		case m == nil && len(p.devices) >= maxDevices:
			t.Refused.Add(1)
			continue
		case m == nil:
			m = &memory{counts: [3]float64{math.NaN(), math.NaN(), math.NaN()}, rate: -1}
			p.devices[d.Device] = m
		}
		views = append(views, view{set: &t.set, d: d, m: m, dt: m.advance(f.Time, seconds(t.set.MaxGap))})
		v := &views[len(views)-1]
		v.r.read(d)
		v.workload, v.held, v.holdersKnown = f.HeldBy(d)
	}
	return views
}

// judge evaluates each rule for a device. If the device's values have not changed for longer than
// the maximum gap, judge evaluates only the frozen_telemetry rule, because frozen values are not
// evidence for the other rules. For these rules, the values count as missing.
func (v *view) judge() {
	v.m.count(&v.r, v.dt, seconds(v.set.MemoryDegrading.For))
	for i := range rules {
		still := v.now[frozen] == yes && v.m.judged[frozen].evidence > seconds(v.set.MaxGap)
		if s := v.set.Of(i); s.Enabled {
			if !still {
				v.now[i] = rules[i].judge(v)
			}
			v.m.judge(i, v.now[i], v.dt, seconds(s.For))
		}
	}
	v.m.collect(&v.r, &v.now, v.dt)
}

// If the evidence for a rule requires it, the change method starts or ends the device's finding of
// the rule.
func (v *view) change(f *gpudata.Frame, p *place, i int) {
	m, j, about := v.m, &v.m.judged[i], &descriptions[i]
	isOpen := m.open&bit(i) != 0
	switch {
	case isOpen && j.evidence == 0:
		p.end(f, v.d.Device, m, i)
	case !isOpen && v.now[i] == yes && j.evidence >= seconds(v.set.Of(i).For):
		found := gpudata.Finding{
			Name: about.Name, Device: v.d.Device.ID(), Start: true,
			Texts: map[string]string{}, Numbers: map[string]float64{}, Lists: map[string][]string{},
		}
		body := rules[i].evidence(v, &found)
		if body == "" {
			return
		}
		m.open |= bit(i)
		subject := "GPU " + found.Device
		if i == spinning {
			if group, other := v.together(); group != nil {
				subject = p.startGroup(&found, group, other)
			}
		}
		found.Texts[signal.EvidenceAction] = about.Action
		since := f.Time - int64(float64(j.lasted)*1e9)
		found.Texts[signal.EvidenceSince] = time.Unix(0, since).UTC().Round(time.Second).Format(time.RFC3339)
		found.Body = fmt.Sprintf("%s: %s: %s.", subject, about.Name, body)
		f.Findings = append(f.Findings, found)
	}
}

// startGroup extends the start of a finding to all spinning devices of a workload. The result is
// the text that describes the devices in the finding's log message. The other parameter is the only
// device of the workload that does not spin, or nil.
func (p *place) startGroup(found *gpudata.Finding, group []*view, other *view) string {
	number := p.unusedGroup()
	var ids []string
	for _, o := range group {
		o.m.open |= bit(spinning)
		o.m.judged[spinning].evidence = seconds(o.set.Spinning.For)
		o.m.group = number
		ids = append(ids, o.d.Device.ID())
	}
	slices.Sort(ids)
	found.Workload, found.Lists[signal.EvidenceDevices] = true, ids
	of := group[0].workload
	subject := fmt.Sprintf("%d GPUs of %s %s", len(ids), of.Kind, of.Name)
	if o := cmp.Or(other, differing(group)); o != nil {
		found.Texts[signal.EvidenceDiffers] = o.d.Device.ID()
		subject += ", of which " + o.d.Device.ID() + " differs"
	}
	return subject
}

// unusedGroup returns the lowest group number that no device of the place has.
func (p *place) unusedGroup() uint16 {
	used := map[uint16]bool{0: true} // 0 means no group
	for _, m := range p.devices {
		used[m.group] = true
	}
	number := uint16(1)
	for used[number] {
		number++
	}
	return number
}

// The end method ends a device's finding of a rule. A finding about a workload ends when the
// findings of all of the workload's devices have ended.
func (p *place) end(f *gpudata.Frame, d gpudata.Device, m *memory, i int) {
	m.open &^= bit(i)
	found := gpudata.Finding{Name: descriptions[i].Name, Device: d.ID(), Numbers: map[string]float64{}}
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
	found.Duration = time.Duration(float64(m.judged[i].lasted)*1e9) + time.Duration(f.Time-m.seen)
	found.Body = fmt.Sprintf("%s: %s ended after %.0f s.", subject, descriptions[i].Name, found.Duration.Seconds())
	f.Findings = append(f.Findings, found)
}

// If a device has been missing for longer than the retention time, sweep ends the device's findings
// and deletes the device's state.
func (p *place) sweep(f *gpudata.Frame) {
	var gone []gpudata.Device
	for d, m := range p.devices {
		if f.Time-m.seen > int64(deviceRetention) {
			gone = append(gone, d)
		}
	}
	slices.SortFunc(gone, func(a, b gpudata.Device) int { return cmp.Compare(a.ID(), b.ID()) })
	for _, d := range gone {
		for i := range rules {
			if m := p.devices[d]; m.open&bit(i) != 0 {
				p.end(f, d, m, i)
			}
		}
		delete(p.devices, d)
	}
}

// emit adds a sample of gpu.finding to the device for each rule whose verdict is known.
func (v *view) emit() {
	for i := range rules {
		if v.now[i] != unknown {
			v.d.Samples.Add(gpudata.Sample{Metric: signal.GPUFinding, Own: descriptions[i].Name, Value: float64(v.m.open >> i & 1)})
		}
	}
}
