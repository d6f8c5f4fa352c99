package dcgmsim

import "time"

// In a story with a fault, faultBegins and faultEnds are the beats at which the fault begins and
// ends. Stories with a fault have 60 beats of 30 s: 5 minutes without the fault, 15 minutes with
// the fault, and 10 minutes without it.
const faultBegins, faultEnds = 10, 40

// fault returns a curve whose value is the second argument during the fault and the first argument
// at all other times.
func (s script) fault(usual, faulty float64) curve {
	return newCurve(s.at(0, usual), s.at(faultBegins, usual), s.at(faultBegins, faulty), s.at(faultEnds, faulty), s.at(faultEnds, usual), s.at(60, usual))
}

func (s script) duringFault() gate { return s.gate(s.on(faultBegins, faultEnds)) }

// spinning is the story of a device whose job keeps polling a rank that does not respond.
func (s script) spinning() *story {
	return &story{
		load: s.fault(.85, .99), memory: s.flat(.7), power: s.fault(.6, .2), temperature: s.fault(60, 48), clock: s.flat(1),
		waits: s.duringFault(),
	}
}

// latchedUtilization is the story of a free device that reports a utilization of 1 even though
// nothing is running.
func (s script) latchedUtilization() *story {
	return &story{
		load: s.fault(0, 1), memory: s.flat(0), power: s.flat(0), temperature: s.flat(31), clock: s.flat(.175),
		reasons: map[Reason]gate{ReasonGPUIdle: s.gate(s.on(0, 60))},
		waits:   s.duringFault(),
	}
}

// slowDevice is the story of a device that a job uses. The hardware reduces the device's clock
// because the device is too hot.
func (s script) slowDevice() *story {
	hot := s.duringFault()
	return &story{
		load: s.flat(.85), memory: s.flat(.7), power: s.fault(.7, .5), temperature: s.fault(62, 89), clock: s.fault(1, .7),
		reasons: map[Reason]gate{ReasonHWThermal: hot, ReasonHWSlowdown: hot},
	}
}

// memoryDegrading is the story of a device with corrected memory errors and with memory rows that
// will be remapped at the next reset.
func (s script) memoryDegrading() *story {
	st := s.healthy()
	st.sbe = events{period: s.time(60)}
	for at := s.time(faultBegins); at < s.time(faultEnds); at += 2 * time.Second {
		st.sbe.times = append(st.sbe.times, at)
	}
	st.remaps = s.duringFault()
	return st
}

// frozenTelemetry is the story of a busy device whose exposed values stop changing.
func (s script) frozenTelemetry() *story {
	st := s.healthy()
	st.frozen = s.duringFault()
	return st
}

// shown returns the time of the values that the exporter exposes at time t. If the values are
// frozen, shown returns the time at which they froze. Otherwise, shown returns t.
func (g *gpu) shown(t time.Duration) time.Duration {
	frozen := &g.story.frozen
	if len(frozen.spans) == 0 {
		return t
	}
	u := (g.phase + t) % frozen.period
	if i := frozen.after(u) - 1; i >= 0 && u < frozen.spans[i].to {
		return max(0, t-(u-frozen.spans[i].from))
	}
	return t
}
