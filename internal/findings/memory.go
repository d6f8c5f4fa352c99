package findings

import (
	"math"
	"time"
)

const (
	// fadeFactor is how much faster evidence decreases than it increases. One sample that does not
	// meet the condition does not end a finding, and a condition that holds for less than four
	// fifths of the time does not start one.
	fadeFactor = 4
	// retention is how long the state of a device without samples is kept.
	retention = time.Hour
)

// memory is the state of a device between two frames. It is small, because there is one for each
// device of the cluster.
type memory struct {
	seen        int64   // time of the last sample
	fingerprint uint64  // hash of the values that change constantly; 0 if they are not observed
	corrected   float64 // number of corrected errors; NaN if not observed
	mean        *means  // nil while spinning has no evidence
	// lowered has the exact times with lowered clocks when the condition of slow_device started to
	// hold, in seconds. It is nil while that rule has no evidence.
	lowered  *[numCauses]float32
	errors   float32 // corrected errors in the observed time of the current period
	observed uint32  // observed time of the current period, ms
	rate     float32 // corrected errors per hour in the last complete period; below 0 if unknown
	grown    uint32  // when the number of remapped rows last increased, s
	judged   [numRules]judgment
	remapped [2]int16 // number of rows; below 0 if unknown
	group    uint8    // group of devices that share a finding of spinning; 0 for none
	held     uint8    // one bit per rule: the condition held at the last sample
	open     uint8    // one bit per rule: there is an open finding
}

// judgment is the state of one rule for a device.
type judgment struct {
	since    uint32 // when the condition started to hold, s
	evidence uint32 // observed time for which it held, ms
}

// means has values that are collected while the condition of spinning holds.
type means struct {
	weight float32                // s
	sums   [len(averages)]float32 // sums of the values, each multiplied by its seconds
}

// averages are the values whose means are evidence of spinning.
var averages = [...]value{utilization, tensor, dram, power}

// of returns the means of averages.
func (m *means) of() (out [len(averages)]float64) {
	for i, sum := range m.sums {
		out[i] = float64(sum / m.weight)
	}
	return out
}

func newMemory() *memory {
	return &memory{corrected: math.NaN(), rate: -1, remapped: [2]int16{-1, -1}}
}

func bit(rule int) uint8 { return 1 << rule }

// fade reduces the evidence.
func (j *judgment) fade(d time.Duration) { j.evidence -= min(j.evidence, milliseconds(d)) }

// judge updates the evidence for a rule's condition with a verdict. dt is the time since the
// previous sample. The evidence is at most wait.
func (m *memory) judge(rule int, v verdict, t int64, dt, wait time.Duration) {
	j := &m.judged[rule]
	held := m.held&bit(rule) != 0
	m.held &^= bit(rule)
	switch {
	case v == unknown: // evidence neither for nor against the condition
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
		case held: // it held at both ends of the interval
			j.evidence = min(j.evidence+milliseconds(dt), milliseconds(wait))
		}
	}
}

// gap accounts for a time without samples. Because nothing is known about this time, evidence that
// is not yet a finding fades, but a finding stays open.
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

// count adds the errors and the remapped rows of a sample. dt is the time since the previous
// sample, or 0 after a gap.
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

// grew reports whether the number of remapped rows increased less than within before t.
func (m *memory) grew(t int64, within time.Duration) bool {
	return m.grown != 0 && t-int64(m.grown)*int64(time.Second) < int64(within)
}

// collect stores what the evidence of spinning and slow_device needs from a sample, and deletes it
// once a rule has no evidence.
func (m *memory) collect(r *reading, now *[numRules]verdict, dt time.Duration) {
	switch {
	case now[slow] == yes && m.lowered == nil:
		m.lowered = &[numCauses]float32{}
		for i := range m.lowered {
			m.lowered[i] = float32(r[lowered+value(i)])
		}
	case now[slow] != yes && m.judged[slow].evidence == 0:
		m.lowered = nil
	}
	switch {
	case now[spinning] == yes:
		m.gather(r, dt)
	case m.judged[spinning].evidence == 0:
		m.mean = nil
	}
}

// gather adds a sample to the means.
func (m *memory) gather(r *reading, dt time.Duration) {
	if m.mean == nil {
		m.mean = &means{}
	}
	w := float32(max(dt, time.Millisecond).Seconds())
	m.mean.weight += w
	for i, v := range averages {
		m.mean.sums[i] += w * float32(r[v])
	}
}

// milliseconds returns a duration in whole milliseconds, at most 49 days.
func milliseconds(d time.Duration) uint32 {
	return uint32(min(max(d, 0)/time.Millisecond, math.MaxUint32))
}

// seconds returns a time in whole seconds since the epoch. They fit in a uint32 until 2106.
func seconds(ns int64) uint32 {
	return uint32(min(max(ns/int64(time.Second), 0), math.MaxUint32))
}

// fingerprint returns a hash of the values that change constantly, and the metrics that it is
// computed from. The hash is 0 if these values are not observed. Without the energy counter, the
// power must have a finer resolution than 1 W, because whole watts may stay the same on an idle
// board.
func fingerprint(r *reading) (f uint64, fields []string) {
	switch {
	case r[energy] > 0: // a counter of 0 means that the board does not have one
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
