package window

import "github.com/otelcol-gpu/otelcol-gpu/internal/signal"

// record takes a sample of a series into its window.
func (in *Ingest) record(s *Series, info *Resource, t, start int64, v Number) Outcome {
	d, sh := s.device, s.shape
	if sh.metric == nil {
		d.note(t)
		d.place.node.sees(t, in.e)
		s.Seen = max(s.Seen, in.now)
		return Ignored
	}
	m := in.at(d, t)
	w, dw, sw := m.window, m.state, s.in(m.window)
	outcome := Accepted
	if t < s.Last {
		outcome = OutOfOrder
	}
	if sh.consumed {
		if !m.counted {
			m.position, m.counted = dw.position(t)
		}
		switch {
		case !m.counted:
			return Refused
		case sw.mark(m.position):
			return Duplicate
		case sh.metric.kind != Counter:
			in.sample(w, s, v.Float())
		case t <= s.Last:
			outcome = OutOfOrder
		case !in.step(w, s, t, start, v.Float()):
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
	dw.describe(s.description, t)
	if len(sh.extra)+len(sh.notes.Attrs) > 0 {
		s.annotate(w, t)
	}
	if m.info != info {
		m.info = info
		d.place.says(w, t, info)
	}
	if t > s.Last {
		s.Last, s.Start = t, start
	}
	s.Seen = max(s.Seen, in.now)
	return outcome
}

// moment is a device at a sample time. The samples of a scrape share it.
type moment struct {
	device *device
	time   int64
	window *openWindow
	state  *deviceWindow
	// position is that of the time among the window's, once it is counted: a sample that a rule
	// consumed has it.
	position int
	counted  bool
	info     *Resource // what the place's Resource is known to say at that time
}

// at returns a device at a time.
func (in *Ingest) at(d *device, t int64) *moment {
	m := &in.moment
	if m.device != d || m.time != t {
		d.note(t)
		d.place.node.sees(t, in.e)
		w := in.e.window(t)
		*m = moment{device: d, time: t, window: w, state: d.in(w)}
	}
	return m
}

// says takes the Resource that a batch gives a place at t.
func (p *place) says(w *openWindow, t int64, info *Resource) {
	pw, isNew := p.windows.in(w)
	if isNew || t >= pw.Time {
		*pw = placeWindow{t, info}
		p.Info = info
	}
}

// describe takes what a sample at t says about the device.
func (dw *deviceWindow) describe(about *description, t int64) {
	if dw.taken != about {
		if len(dw.Known.Attrs) == 0 && len(about.attrs) <= maxDescriptive {
			dw.Known.Attrs = about.attrs
		}
		dw.taken = nil
		if _, all := dw.Known.take(about.attrs, t); all {
			dw.taken = about
		}
	}
	dw.Known.Time = max(dw.Known.Time, t)
}

// annotate gives the outputs the attributes that describe the series alone.
func (s *Series) annotate(w *openWindow, t int64) {
	for _, o := range s.outputs {
		ow := o.in(w)
		if ow.Extra == nil {
			ow.Extra = &details{}
		}
		ow.Extra.take(s.shape.extra, t)
		ow.Extra.take(s.shape.notes.Attrs, t)
	}
}

// sample adds a value to the outputs of its series.
func (in *Ingest) sample(w *openWindow, s *Series, value float64) {
	clamped := false
	for _, o := range s.outputs {
		v := value * o.key.Rule.scale
		if o.key.Rule.ratios {
			var outside bool
			v, outside, _ = signal.Clamp(v) // which is plausible: see shape.plausible
			clamped = clamped || outside
		}
		if !o.in(w).Function.add(observation{value: v}) {
			in.e.stats.Unkept++
		}
	}
	if clamped {
		in.e.stats.Clamped++
	}
}

// step adds what a counter did since its last sample to the outputs of its series, and
// reports whether that was possible.
func (in *Ingest) step(w *openWindow, s *Series, t, start int64, value float64) (possible bool) {
	previous, moved, base := s.Last, s.Moved, s.Value
	first := previous == 0 || s.device.place.node.missedSome(previous, t)
	restarted := first
	switch {
	case first:
		// A counter that was born since the device's previous sample was zero then.
		if before := s.device.lastBefore(t, in.e.era); before > 0 && start >= before && start <= t &&
			!s.device.place.node.missedSome(before, t) {
			previous, moved, base, first = before, before, 0, false
		}
	case value < base || start > previous && start <= t:
		base, restarted = 0, true
	}
	possible = true
	for _, o := range s.outputs {
		possible = o.in(w).Function.add(observation{
			first: first, increase: (value - base) * o.key.Rule.scale, elapsed: t - previous, still: t - moved,
		}) && possible
	}
	if restarted || value != s.Value {
		s.Moved = t
	}
	s.Value = value
	return possible
}
