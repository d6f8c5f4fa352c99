package synth

import (
	"slices"
	"strconv"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// emitter adds the samples of one device to its frame.
type emitter struct {
	s    *node
	a    *accumulator
	to   *gpudata.DeviceFrame
	time int64
}

func (e *emitter) point(m *signal.Metric, own string, start int64, v float64, more ...gpudata.Attr) {
	if slices.Contains(e.s.disabled, m) {
		return
	}
	if start > e.time {
		start = 0 // the clock was set back after the start time
	}
	if c := e.a.device.claims; c != nil && e.a.device.Parent == nil {
		c.note(m, own, e.time, v)
	}
	if !e.a.device.claims.rises(e.a.device.ID, m, own, e.time, v) {
		e.s.stats.Dropped[DropSecondSource]++
		return
	}
	e.to.Samples.Add(gpudata.Sample{Metric: m, Own: own, Start: start, Value: v, More: more})
}

// The states method adds a sample for each state: 1 for the state with the given number, and 0 for
// all other states. If the number is unknown, it is counted as a dropped value.
func (e *emitter) states(m *signal.Metric, states []string, number float64) {
	known := false
	for i, state := range states {
		is := 0.0
		if number == float64(i) {
			is, known = 1, true
		}
		e.point(m, state, 0, is)
	}
	if !known {
		e.s.stats.Dropped[DropAbsurd]++
	}
}

// The ratio method clamps a ratio to [0, 1] and counts clamped ratios. If the ratio is implausible,
// the method returns false and counts the ratio as dropped.
func (e *emitter) ratio(v float64) (inRange float64, ok bool) {
	v, clamped, verdict := catalogue.Clamp(v)
	if clamped {
		e.s.stats.Clamped++
	}
	if verdict != catalogue.Valid {
		e.s.stats.Dropped[DropImplausible]++
		return 0, false
	}
	return v, true
}

// device adds all samples of the device.
func (e *emitter) device() {
	for _, s := range e.a.device.of.AllSignals() {
		switch s.By {
		case catalogue.ByFields:
			e.signal(s)
		case catalogue.ByTracker:
			e.tracked(s)
		case catalogue.ByHealth:
			e.health(s)
		case catalogue.ByEvents:
			e.xid()
		case catalogue.ByHolders:
			e.holders()
		case catalogue.ByProcesses: // with the holders
		}
	}
}

// signal adds the samples for a signal that is derived from fields.
func (e *emitter) signal(s *catalogue.Signal) {
	v, ok := e.a.make(s)
	if !ok {
		return
	}
	if s.Capacity != nil {
		capacity := e.a.Capacity(s)
		if capacity <= 0 {
			return
		}
		if s.Metric.Unit == "1" {
			v /= capacity
		} else {
			v = capacity
		}
	}
	switch {
	case s.Bits != nil:
		for _, b := range s.Bits {
			active := 0.0
			if uint64(v)&b.Mask != 0 {
				active = 1
			}
			e.point(s.Metric, b.Part, 0, active)
		}
	case s.States != nil:
		e.states(s.Metric, s.States, v)
	case s.Metric.Unit == "1":
		if v, ok := e.ratio(v); ok {
			e.point(s.Metric, s.Part, 0, v)
		}
	default:
		e.point(s.Metric, s.Part, 0, v)
	}
}

// The tracked method adds the sample for a signal that has a tracker. The tracker reads the first
// set whose fields all have a value.
func (e *emitter) tracked(s *catalogue.Signal) {
	a := e.a
	for _, set := range s.Sets {
		a.values = a.values[:0]
		for _, id := range set {
			if v, has := a.get(id); has {
				a.values = append(a.values, v)
			}
		}
		if len(a.values) < len(set) {
			continue
		}
		start, v, ok, verdict := a.device.tracker(s).Add(e.time, a.values)
		if ok {
			e.point(s.Metric, s.Part, start, v)
		}
		if verdict != catalogue.Valid {
			e.s.stats.Dropped[dropReasons[verdict]]++
		}
		return
	}
}

// xid adds a sample for the count of each XID code, or one sample with the value 0 if no XID event
// has occurred yet.
func (e *emitter) xid() {
	if !e.a.xidSeen {
		return
	}
	s := &e.a.device.xid
	if len(s.codes) == 0 {
		e.point(signal.HwErrors, "", s.since, 0)
	}
	source := s.source
	if source == xidNone && len(e.a.instances) > 0 {
		source = e.a.instances[0].device.xid.source // the events were moved from the instances
	}
	for _, c := range s.codes {
		e.point(signal.HwErrors, xidErrorTypes[c.code], c.start, float64(c.count), eventSources[source]...)
	}
}

// eventSources contains the attributes that name the source of the counted XID errors.
var eventSources = [...][]gpudata.Attr{
	xidNone: nil, xidLast: {{Key: signal.EventSource, Value: signal.EventSourceLastCode}},
	xidCount: {{Key: signal.EventSource, Value: signal.EventSourceCounter}},
	xidTotal: {{Key: signal.EventSource, Value: signal.EventSourceCounter}},
}

// xidErrorTypes contains the attribute value for each XID code, to avoid an allocation for each
// point.
var xidErrorTypes = func() (names [catalogue.MaxCode + 1]string) {
	for code := range names {
		names[code] = signal.ErrorTypeXIDPrefix + strconv.Itoa(code)
	}
	return names
}()

// The holders method adds the holders that are named in the labels, and their usage of the device.
func (e *emitter) holders() {
	a := e.a
	holds := !slices.Contains(e.s.disabled, signal.GPUDeviceHolder)
	for i := range a.holders {
		h := &a.holders[i]
		u := &gpudata.User{
			Holder: h.Holder, Owner: h.owner, Holds: holds, Source: signal.HolderSourceLabels,
			Allocation: h.dra.allocation(), Replicas: len(h.vgpus),
		}
		if u.Replicas > 0 {
			u.Strategy = signal.SharingTimeSlicing
		}
		if a.device.of.OfContainers {
			e.containers(i, u)
			continue
		}
		e.to.AddUser(u) // the device had no users before, so each user has the same index as its holder
	}
	if a.device.of.OfContainers {
		return
	}
	sharing := []gpudata.Attr{{Key: signal.SharingStrategy, Value: a.sharing()}}
	for _, u := range a.usage {
		if !a.cell(u.field.ID).bareRow {
			continue // the values are copies of the device's value instead of the usage of processes
		}
		v, m, ok := u.value, u.field.Process.Metric, true
		a.device.claims.noteProcess(m, e.time)
		if m.Unit == "1" {
			v, ok = e.ratio(v)
		}
		if ok && !slices.Contains(e.s.disabled, m) {
			e.to.Users[u.holder].Samples.Add(gpudata.Sample{Metric: m, Value: v, More: sharing})
		}
	}
}

// sharing determines the sharing strategy of the device from the labels.
func (a *accumulator) sharing() string {
	replica, claimed := false, true
	for i := range a.holders {
		replica = replica || len(a.holders[i].vgpus) > 0
		claimed = claimed && a.holders[i].dra.Claim != ""
	}
	switch {
	case len(a.holders) == 1 && !replica:
		return signal.SharingUnknown
	case claimed:
		return signal.SharingDRA
	}
	return signal.SharingTimeSlicing
}
