package window

import "github.com/otelcol-gpu/otelcol-gpu/internal/signal"

// The record method adds a sample of a series to its window.
func (in *Ingest) record(s *Series, info *Resource, t, start int64, v Number) Outcome {
	d, sh := s.device, s.shape
	if sh.metric == nil {
		d.recordTime(t)
		d.place.node.recordSample(t)
		s.Seen = max(s.Seen, in.now)
		return Ignored
	}
	m := in.momentOf(d, t)
	if m == nil {
		return Late
	}
	w, dw, sw := m.window, m.state, s.in(m.window)
	outcome := Accepted
	if t < s.Last {
		outcome = OutOfOrder
	}
	if sh.consumed {
		if !m.counted {
			m.position, m.counted = dw.timeIndex(t)
		}
		switch {
		case !m.counted:
			in.timesRefused++
			return Refused
		case sw.mark(m.position):
			return Duplicate
		case sh.metric.Kind != signal.Counter:
			in.addSample(w, s, v.Float())
		case t <= s.Last:
			outcome = OutOfOrder
		case !in.addIncrease(w, s, t, start, v.Float()):
			outcome = ImpossibleStep
		}
	} else if sw.Last != nil && sw.Last.Notes != nil && sw.Last.Time == t {
		return Duplicate
	}
	if sh.carried {
		if sw.Last == nil {
			sw.Last = &lastValue{}
		}
		if sw.Last.Notes == nil || t >= sw.Last.Time {
			*sw.Last = lastValue{t, start, v, &sh.notes}
		}
	}
	dw.addDescription(s.description, t)
	if sh.extra != "" || sh.notes.Attrs != "" {
		s.annotate(w, t)
	}
	if m.info != info {
		m.info = info
		d.place.storeResource(w, t, info)
	}
	if t > s.Last {
		s.Last, s.Start = t, start
	}
	s.Seen = max(s.Seen, in.now)
	return outcome
}

// moment is the state of a device at one sample time. The moment is cached, because all samples of
// a device in one scrape have the same moment.
type moment struct {
	device *device
	time   int64
	window *openWindow
	state  *deviceWindow
	// position is the index of the sample time in the list of the window's sample times. The index
	// is set only if counted is true. The counted flag becomes true when a rule consumes a sample
	// with this time.
	position int
	counted  bool
	info     *Resource // the Resource of the place at the sample time
}

// momentOf returns the moment of a device at time t, or nil if the window was closed or the clock
// was set back after the node was locked.
func (in *Ingest) momentOf(d *device, t int64) *moment {
	m := &in.moment
	if m.device != d || m.time != t {
		w := in.windowOf(t)
		if w == nil {
			return nil
		}
		d.recordTime(t)
		d.place.node.recordSample(t)
		*m = moment{device: d, time: t, window: w, state: d.in(w)}
	}
	return m
}

// storeResource stores the Resource of the place at time t.
func (p *place) storeResource(w *openWindow, t int64, info *Resource) {
	pw, isNew := p.windows.in(w)
	if isNew || t >= pw.Time {
		*pw = placeWindow{t, info}
		p.Info = info
	}
}

// addDescription adds the attributes that describe the device, from a sample with the time t.
func (dw *deviceWindow) addDescription(about *description, t int64) {
	if dw.applied != about {
		if dw.Known.Attrs == "" && about.attrs.Len() <= maxDescriptive {
			dw.Known.Attrs = about.attrs
		}
		dw.applied = nil
		if dw.Known.merge(about.attrs, t) {
			dw.applied = about
		}
	}
	dw.Known.Time = max(dw.Known.Time, t)
}

// annotate adds attributes to the outputs of the series: those that describe only the series, and
// those that describe only the sample.
func (s *Series) annotate(w *openWindow, t int64) {
	for _, o := range s.outputs {
		ow := o.in(w)
		if ow.Extra == nil {
			ow.Extra = &details{}
		}
		ow.Extra.merge(s.shape.extra, t)
		ow.Extra.merge(s.shape.notes.Attrs, t)
	}
}

// addSample adds a value to the outputs of the series.
func (in *Ingest) addSample(w *openWindow, s *Series, value float64) {
	clamped := false
	for _, o := range s.outputs {
		v := value * o.key.Rule.scale
		if o.key.Rule.ratios {
			var outside bool
			v, outside, _ = signal.Clamp(v) // shape.plausible has already checked that v is plausible
			clamped = clamped || outside
		}
		if !o.key.Rule.add(o.in(w).Function, observation{value: v}) {
			in.unkept++
		}
	}
	if clamped {
		in.clamped++
	}
}

// addIncrease adds the increase in a counter since its last sample to the outputs of the series. If
// the increase is impossible, the result is false.
func (in *Ingest) addIncrease(w *openWindow, s *Series, t, start int64, value float64) (possible bool) {
	previous, lastMoved, base := s.Last, s.Moved, s.Value
	first := previous == 0 || s.device.place.node.wasAbsent(previous, t)
	restarted := first
	switch {
	case first:
		// If the counter started at or after the time of the device's previous sample, the value of
		// the counter was 0 at the time of that sample.
		if previousOfDevice := s.device.lastSampleBefore(t, in.node.era); previousOfDevice > 0 && start >= previousOfDevice && start <= t &&
			!s.device.place.node.wasAbsent(previousOfDevice, t) {
			previous, lastMoved, base, first = previousOfDevice, previousOfDevice, 0, false
		}
	case value < base || start > previous && start <= t:
		base, restarted = 0, true
	}
	possible = true
	for _, o := range s.outputs {
		possible = o.key.Rule.add(o.in(w).Function, observation{
			first: first, increase: (value - base) * o.key.Rule.scale, elapsed: t - previous, still: t - lastMoved,
		}) && possible
	}
	if restarted || value != s.Value {
		s.Moved = t
	}
	s.Value = value
	return possible
}
