package findings

import "time"

// While a condition does not hold, evidence decreases fadeFactor times as fast as it increases
// while the condition holds. Because evidence decreases gradually, a single sample that does not
// meet the condition does not end a finding. If the condition holds for less than four fifths of
// the time, no finding starts.
const fadeFactor = 4

const numCauses = 23 // length of causes

// memory is the state of a device that the tracker keeps between two frames. The struct is kept
// small, because there is one for each device in the cluster. Durations are in seconds.
type memory struct {
	seen   int64                   // Time of the last sample, in nanoseconds since the epoch.
	counts [3]float64              // Totals of corrected errors and of both kinds of remapped rows, or NaN if not observed.
	means  *[len(averages)]float32 // Mean values, or nil while there is no evidence of spinning.
	// For each cause of lowered clocks, this array contains the value that the cause's time counter
	// had when the condition of the slow_device rule started to hold. The pointer is nil while
	// there is no evidence for slow_device.
	lowered     *[numCauses]float32
	fingerprint uint32  // Hash of the values that constantly change, or 0 if the values are not observed.
	errors      float32 // Number of corrected errors in the observed part of the current period.
	observed    float32 // Length of the observed part of the current period.
	rate        float32 // Corrected errors per hour in the last complete period, or a negative number if unknown.
	growing     float32 // Time for which the last increase in remapped rows remains evidence.
	judged      [numRules]judgment
	group       uint16 // Number of the group of devices that share a finding of the spinning rule, or 0.
	held        uint8  // One bit per rule, which is set if the condition held at the last sample.
	open        uint8  // One bit per rule, which is set while a finding has started but not ended.
}

// judgment is the state of one rule for one device.
type judgment struct {
	lasted   float32 // Time since the condition started to hold.
	evidence float32 // Observed time for which the condition held; decreases while it does not.
}

// averages lists the values whose means are reported as evidence in findings of the spinning rule.
var averages = [...]value{utilization, tensor, dram, power}

func bit(rule int) uint8              { return 1 << rule }
func seconds(d time.Duration) float32 { return float32(d.Seconds()) }

// fade reduces the evidence.
func (j *judgment) fade(by float32) { j.evidence = max(0, j.evidence-by) }

// advance updates the device's state to the time of the next sample. The result is the time since
// the previous sample, or 0 if that time exceeds maxGap. During a gap longer than maxGap, the
// device's condition is unknown: evidence for findings that have not started decreases, and
// findings that have started continue.
func (m *memory) advance(to int64, maxGap float32) (dt float32) {
	if m.seen == 0 {
		m.seen = to
	}
	dt, m.seen = seconds(time.Duration(to-m.seen)), to
	for i := range m.judged {
		m.judged[i].lasted += dt
		if dt > maxGap && m.open&bit(i) == 0 {
			m.judged[i].fade(dt)
		}
	}
	m.growing = max(0, m.growing-dt)
	if dt > maxGap {
		m.held = 0
		return 0
	}
	return dt
}

// judge uses the verdict for the current sample to update the evidence for a rule. The wait
// parameter is the upper limit for the evidence.
func (m *memory) judge(rule int, v verdict, dt, wait float32) {
	j, held, step := &m.judged[rule], m.held&bit(rule) != 0, dt
	m.held &^= bit(rule)
	if rules[rule].averaged {
		step = wait
	}
	switch v {
	case unknown: // no evidence for or against the condition
		j.fade(dt)
	case no:
		j.fade(fadeFactor * step)
	case yes:
		m.held |= bit(rule)
		if j.evidence == 0 && !held {
			j.lasted = 0
		}
		if held || rules[rule].averaged { // the condition held at both ends of the interval
			j.evidence = min(j.evidence+step, wait)
		}
	}
}

// The count method processes a sample's counters of corrected errors and remapped rows. If a
// counter decreases, the counter is assumed to have restarted from zero. An increase in remapped
// rows is evidence of degrading memory for one period.
func (m *memory) count(r *reading, dt, period float32) {
	for i := range m.counts {
		now, before := r[corrected+value(i)], m.counts[i]
		more := now - before
		if more < 0 {
			more = now
		}
		switch {
		case i == 0 && more >= 0 && dt > 0:
			m.errors += float32(more)
			if m.observed += dt; m.observed >= period {
				m.rate = float32(3600 * float64(m.errors) / float64(m.observed))
				m.errors, m.observed = 0, 0
			}
		case i > 0 && more > 0:
			m.growing = period
		}
		if i == 0 || now >= 0 {
			m.counts[i] = now
		}
	}
}

// collect stores the sample's values that findings of the spinning and slow_device rules report as
// evidence. When there is no longer any evidence for one of the two rules, collect deletes the
// values stored for that rule.
func (m *memory) collect(r *reading, now *[numRules]verdict, dt float32) {
	switch {
	case now[slow] == yes && m.lowered == nil:
		m.lowered = &[numCauses]float32{}
		for i := range m.lowered {
			m.lowered[i] = float32(r[lowered+value(i)])
		}
	case now[slow] != yes && m.judged[slow].evidence == 0:
		m.lowered = nil
	}
	switch j := &m.judged[spinning]; {
	case now[spinning] == yes:
		share := float32(1) // weight of the sample in the means; the weight of the first sample is 1
		if m.means == nil {
			m.means = &[len(averages)]float32{}
		} else if j.lasted > 0 {
			share = dt / j.lasted
		}
		for i, v := range averages {
			m.means[i] += (float32(r[v]) - m.means[i]) * share
		}
	case j.evidence == 0:
		m.means = nil
	}
}
