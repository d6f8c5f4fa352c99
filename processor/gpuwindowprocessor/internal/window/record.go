package window

// record takes a sample of a series into its window.
func (in *Ingest) record(s *Series, info *Resource, t, start int64, v Number) Outcome {
	e, d, sh := in.e, s.device, s.Shape
	d.note(t)
	if sh.metric == nil {
		s.Seen = max(s.Seen, in.now)
		return Ignored
	}
	w := e.window(t)
	dw, sw := d.in(w), s.in(w)
	outcome := Accepted
	if t < s.Last {
		outcome = OutOfOrder
	}
	if sh.consumed {
		at, ok := dw.position(t)
		switch {
		case !ok:
			return Refused
		case sw.mark(at):
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
	pw, isNew := d.place.Windows.in(w)
	if isNew || t >= pw.Time {
		*pw = placeWindow{t, info}
		d.place.Info = info
	}
	if t > s.Last {
		s.Last, s.Start = t, start
	}
	s.Seen = max(s.Seen, in.now)
	return outcome
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
		ow.Extra.take(s.Shape.extra, t)
		ow.Extra.take(s.Shape.notes.Attrs, t)
	}
}

// sample adds a value to the outputs of its series.
func (in *Ingest) sample(w *openWindow, s *Series, value float64) {
	clamped := false
	for _, o := range s.outputs {
		v := value * o.Key.scale
		if o.Key.ratios && (v < 0 || v > 1) {
			v = min(max(v, 0), 1)
			clamped = true
		}
		o.in(w).Function.add(observation{value: v})
	}
	if clamped {
		in.e.stats.Clamped++
	}
}

// step adds what a counter did since its last sample to the outputs of its series, and
// reports whether that was possible.
func (in *Ingest) step(w *openWindow, s *Series, t, start int64, value float64) (possible bool) {
	previous, moved, base := s.Last, s.Moved, s.Value
	first := previous == 0
	restarted := first
	switch {
	case first:
		// A counter that was born since the device's previous sample was zero then.
		if before := s.device.lastBefore(t, in.e.era); before > 0 && start >= before && start <= t {
			previous, moved, base, first = before, before, 0, false
		}
	case value < base || start > previous && start <= t:
		base, restarted = 0, true
	}
	possible = true
	for _, o := range s.outputs {
		possible = o.in(w).Function.add(observation{
			first: first, increase: (value - base) * o.Key.scale, elapsed: t - previous, still: t - moved,
		}) && possible
	}
	if restarted || value != s.Value {
		s.Moved = t
	}
	s.Value = value
	return possible
}
