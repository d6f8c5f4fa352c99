package live

import (
	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuviewexporter/internal/store"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Problem is a kind of problem that a device can have. The page has tiles for some kinds of
// problems, and a filter for devices with problems.
type Problem string

// These are the kinds of problems. A device has the Throttled problem if the clocks were throttled
// during at least ProblemShare of the window. A device has the Pressure problem if there was memory
// pressure during at least ProblemShare of the window. A device has the PoorHealth problem if
// hw.status reports any state that is worse than ok.
const (
	Lost       Problem = "lost"
	Throttled  Problem = "throttled"
	Pressure   Problem = "pressure"
	XIDErrors  Problem = "xid"
	PoorHealth Problem = "health"
	Found      Problem = "finding"
)

// ProblemShare is the share of a window at which throttling or memory pressure counts as a problem.
const ProblemShare = 0.1

// The judge method reads the following fields and gauges.
var (
	pressure      = store.FieldOf(signal.MemoryPressureRatio, "")
	xidErrors     = store.FieldOf(signal.XIDErrors, "")
	power         = store.GaugeOf(signal.HwPower, "")
	instancePower = store.GaugeOf(signal.GPUInstancePower, "")
	// The states slice contains the gauges of hw.status, sorted from the best state to the worst.
	states = gauges(signal.HwStatus, signal.HardwareState)
	found  = gauges(signal.GPUFinding, signal.Finding)
)

// namedGauge contains a gauge, and the attribute value that identifies the gauge within its metric.
type namedGauge struct {
	value string
	gauge store.Gauge
}

func gauges(m *signal.Metric, attribute string) []namedGauge {
	var out []namedGauge
	for _, v := range signal.Values(attribute) {
		out = append(out, namedGauge{v, store.GaugeOf(m, v)})
	}
	return out
}

// The at function returns the number at the given index, or false if the number is absent. If a
// device is lost, its lists of numbers are empty.
func at[T ~uint8](numbers store.Numbers, i T) (v float64, ok bool) {
	if int(i) >= len(numbers) {
		return 0, false
	}
	v = float64(numbers[i])
	return v, v == v
}

// The judge method derives the idle state, power, health, findings and problems of a device from
// its numbers.
func (d *Device) judge() {
	if v, ok := at(d.Values, store.UtilizationAvg); ok {
		// Compare as float32. The float32 value nearest to 0.05 is slightly greater than the
		// float64 value nearest to 0.05, but the two must be treated as equal.
		d.Idle = new(float32(v) <= float32(1-signal.IdleShare))
	}
	watts := power
	if d.Parent != "" {
		watts = instancePower
	}
	if v, ok := at(d.Gauges, watts); ok {
		d.Power = new(float32(v))
	}
	for _, s := range states {
		if v, ok := at(d.Gauges, s.gauge); ok && v > 0 {
			d.Health = s.value
		}
	}
	for _, f := range found {
		if v, ok := at(d.Gauges, f.gauge); ok {
			if d.Findings == nil {
				d.Findings = []string{}
			}
			if v > 0 {
				d.Findings = append(d.Findings, f.value)
			}
		}
	}
	problem := func(p Problem, has bool) {
		if has {
			d.Problems = append(d.Problems, p)
		}
	}
	problem(Lost, d.Lost != nil)
	problem(Throttled, d.Throttle != nil && d.Throttle.Ratio >= ProblemShare)
	pressed, _ := at(d.Values, pressure)
	problem(Pressure, float32(pressed) >= ProblemShare)
	errors, _ := at(d.Values, xidErrors)
	problem(XIDErrors, errors > 0)
	problem(PoorHealth, d.Health != "" && d.Health != signal.StatusOK)
	problem(Found, len(d.Findings) > 0)
}
