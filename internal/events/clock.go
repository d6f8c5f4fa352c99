package events

// Skip is the reason why a sample or a frame was skipped.
type Skip int

// A sample or a frame is skipped only because of its timestamp, for one of the following reasons.
const (
	// Future samples are more than a minute ahead of the wall clock.
	Future Skip = iota
	// ClockSetBack samples are the first samples from a place after the place's clock was set back.
	// ClockSetBack samples are not compared with earlier samples.
	ClockSetBack
	// NumSkips is one more than the highest reason.
	NumSkips
)

// String returns the reason's name in the self-metric.
func (s Skip) String() string { return [...]string{"future", "clock_set_back"}[s] }

// After a place's clock was set back, setBack moves the stored times of the place back by the given
// number of nanoseconds. Active conditions continue, and missing devices can still be reported as
// lost. The stored values with which samples are compared are deleted, so the next samples are a
// baseline.
func (p *place) setBack(by int64) {
	move := func(times ...*int64) {
		for _, t := range times {
			if *t != 0 {
				*t -= by
			}
		}
	}
	for _, e := range p.Exporters {
		move(&e.Down, &e.Up, &e.First, &e.Time)
	}
	for _, k := range p.Devices {
		move(&k.Seen, &k.LostAt)
		k.Baseline, k.Errors, k.States, k.HoldersKnown, k.Holdings = true, nil, nil, false, nil
		for id, profile := range k.Profiles {
			move(&profile.Seen)
			k.Profiles[id] = profile
		}
		for _, s := range k.Throttles {
			move(&s.Open)
			*s = share{Open: s.Open}
		}
		if s := k.Pressure; s != nil {
			move(&s.Open)
			*s = share{Open: s.Open}
		}
	}
}

// The before method returns the time of the device's last frame with which new samples may be
// compared, or 0 if there is none.
func (b *device) before() int64 {
	if b.Baseline {
		return 0
	}
	return b.Seen
}

// lostSince reports whether a board was lost at or after the frame's time, which means that the
// frame is late.
func (c *frame) lostSince(id string) bool {
	b := c.place.Devices[id]
	return b != nil && b.Lost && b.Description.Parent == "" && c.f.Time <= b.LostAt
}

// newest returns the newest stored sample time of a place.
func (p *place) newest() int64 {
	t := p.Clock.Newest
	for _, k := range p.Devices {
		t = max(t, k.Seen)
	}
	return t
}
