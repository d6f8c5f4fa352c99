package findings

import (
	"math"
	"time"
)

const (
	// fadeFactor is how much faster evidence goes than it comes: one sample that does not fit is no end,
	// and a condition that holds for less than four fifths of the time is no finding.
	fadeFactor = 4
	// retention is how long a device without samples is remembered.
	retention = time.Hour
)

// memory is what is remembered of a device between two frames. It is small, as there is one for each
// device of a fleet.
type memory struct {
	seen        int64   // time of the last sample
	fingerprint uint64  // of the values that change all the time, 0 is not observed
	corrected   float64 // errors, NaN is not observed
	mean        *means  // while a condition holds that needs it
	errors      float32 // corrected errors in the observed time of this period
	observed    uint32  // ms of this period
	rate        float32 // corrected errors an hour in the last period, below 0 is not known
	grown       uint32  // when remapped rows grew last, s
	judged      [numRules]judgment
	remapped    [2]int16 // rows, below 0 is not known
	group       uint8    // of devices with one finding of spinning, 0 for none
	held        uint8    // bit for each rule: the condition held at the last sample
	open        uint8    // bit for each rule: there is a finding
	violations  bool     // mean.times are of violations and not of reasons
}

// judgment is what is remembered of one rule.
type judgment struct {
	since    uint32 // when the condition began to hold, s
	evidence uint32 // observed time for which it held, ms
}

// means are gathered while the condition of spinning or slow_device holds.
type means struct {
	weight                           float32            // s
	utilization, tensor, dram, power float32            // sums, times s
	times                            [numCauses]float32 // when the condition began, s
}

func newMemory() *memory {
	return &memory{corrected: math.NaN(), rate: -1, remapped: [2]int16{-1, -1}}
}

func bit(rule int) uint8 { return 1 << rule }

// fade takes evidence away.
func (j *judgment) fade(d time.Duration) { j.evidence -= min(j.evidence, milliseconds(d)) }

// judge adds a verdict of a rule, dt after the last one, to the evidence for the condition.
func (m *memory) judge(rule int, v verdict, t int64, dt, wait time.Duration) {
	j := &m.judged[rule]
	held := m.held&bit(rule) != 0
	m.held &^= bit(rule)
	switch {
	case v == unknown: // no evidence for either
		j.fade(dt)
	case v == no && rules[rule].averaged:
		j.evidence = 0
	case v == no:
		j.fade(fadeFactor * dt)
	default:
		m.held |= bit(rule)
		if j.evidence == 0 && !held {
			j.since = seconds(t)
		}
		switch {
		case rules[rule].averaged:
			j.evidence = milliseconds(wait)
		case held: // at both ends of the interval
			j.evidence = min(j.evidence+milliseconds(dt), milliseconds(wait))
		}
	}
}

// gap takes a time without samples. Nothing is known of it: evidence that is not yet a finding fades,
// a finding stays.
func (m *memory) gap(d time.Duration) {
	m.held = 0
	for i := range m.judged {
		if m.open&bit(i) == 0 {
			m.judged[i].fade(d)
		}
	}
}

// setBack adjusts the times to a clock that was set back. The next sample is a baseline.
func (m *memory) setBack(by int64) {
	m.seen, m.held, m.fingerprint = 0, 0, 0
	move := func(t *uint32) { *t -= min(*t, seconds(by)) }
	move(&m.grown)
	for i := range m.judged {
		move(&m.judged[i].since)
	}
}

// count adds the errors and the remapped rows of a sample, dt after the last one; 0 is after a gap.
func (m *memory) count(r *reading, t int64, dt, period time.Duration) {
	if r.known(corrected) && !math.IsNaN(m.corrected) && dt > 0 {
		more := r[corrected] - m.corrected
		if more < 0 { // the counter restarted
			more = r[corrected]
		}
		m.errors += float32(more)
		if m.observed += milliseconds(dt); m.observed >= milliseconds(period) {
			m.rate = m.errors * float32(time.Hour/time.Millisecond) / float32(m.observed)
			m.errors, m.observed = 0, 0
		}
	}
	m.corrected = r[corrected]
	for i := range m.remapped {
		rows := r[rowsUncorrectable+value(i)]
		if math.IsNaN(rows) {
			continue
		}
		now := int16(min(max(rows, 0), math.MaxInt16))
		if m.remapped[i] >= 0 && now > m.remapped[i] {
			m.grown = seconds(t)
		}
		m.remapped[i] = now
	}
}

// grew reports whether rows were remapped within a time before t.
func (m *memory) grew(t int64, within time.Duration) bool {
	return m.grown != 0 && t-int64(m.grown)*int64(time.Second) < int64(within)
}

// begin allocates the means. The exact times of the reading are those at the beginning.
func (m *memory) begin(r *reading) {
	if m.mean != nil {
		return
	}
	from, _ := r.times()
	m.mean, m.violations = &means{}, from == byViolation
	for i := range m.mean.times {
		m.mean.times[i] = float32(r[from+value(i)])
	}
}

// gather adds a sample to the means.
func (m *memory) gather(r *reading, dt time.Duration) {
	w := float32(max(dt, time.Millisecond).Seconds())
	m.mean.weight += w
	m.mean.utilization += w * float32(r[utilization])
	m.mean.tensor += w * float32(r[tensor])
	m.mean.dram += w * float32(r[dram])
	m.mean.power += w * float32(r[power])
}

// milliseconds returns a duration in whole milliseconds, at most 49 days.
func milliseconds(d time.Duration) uint32 {
	return uint32(min(max(d, 0)/time.Millisecond, math.MaxUint32))
}

// seconds returns a time in whole seconds since the epoch, which fit until 2106.
func seconds(ns int64) uint32 {
	return uint32(min(max(ns/int64(time.Second), 0), math.MaxUint32))
}

// fingerprint returns a number that is another one if the values that change all the time did, and the
// metrics that it is made of. 0 is that they are not observed. Without the energy counter the power
// must be finer than 1 W: whole watts may stay equal on an idle board.
func fingerprint(r *reading) (f uint64, fields []string) {
	switch {
	case r[energy] > 0: // a counter of 0 is one that the board does not have
		return math.Float64bits(r[energy]) | 1<<63, energyFields
	case r.known(power, temperature, smClock, memoryClock) && r[power] != math.Trunc(r[power]):
		for _, v := range [...]value{power, temperature, smClock, memoryClock} {
			f = (f ^ math.Float64bits(r[v])) * 0x9E3779B97F4A7C15
		}
		return f&^(1<<63) | 1, otherFields
	}
	return 0, nil
}

var (
	energyFields = []string{"hw.energy"}
	otherFields  = []string{"gpu.clock.frequency", "hw.power", "hw.temperature"}
)
