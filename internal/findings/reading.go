package findings

import (
	"maps"
	"math"
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// reasons are the values of gpu.clock.event.reason, most severe first.
var reasons = []string{"hw_thermal", "hw_power_brake", "hw_slowdown", "sw_thermal", "sw_power_cap", "sync_boost"}

// violations are the values of gpu.clock.violation.
var violations = signal.Values(signal.ClockViolation)

// numCauses is at least the number of reasons, and at least the number of violations.
const numCauses = 7

// value is the index of a value in a reading.
type value int

const (
	utilization value = iota
	tensor
	dram
	pcie
	nvlink
	nvlinkRate
	power
	limit
	idle
	temperature
	smClock
	memoryClock
	energy
	corrected
	rowsUncorrectable
	rowsCorrectable
	pending
	worse       // a board state that is worse than pending, and hides it
	active      // the first of numCauses values, one per reason
	byReason    = active + numCauses
	byViolation = byReason + numCauses
	numValues   = byViolation + numCauses
)

// reading has the values of one device in one frame that the rules read. NaN means not observed. If
// several samples are the same value, such as the directions of a link, the highest one is used.
type reading [numValues]float64

// values maps a sample's metric and own attribute to its position in a reading.
var values = map[*signal.Metric]map[string]value{
	signal.HwGPUUtilization:     {signal.TaskGeneral: utilization},
	signal.GPUPipeActive:        {"tensor": tensor},
	signal.GPUDRAMActive:        {"": dram},
	signal.GPUPCIeUtilization:   {signal.DirectionTransmit: pcie, signal.DirectionReceive: pcie},
	signal.GPUNVLinkUtilization: {signal.DirectionTransmit: nvlink, signal.DirectionReceive: nvlink},
	signal.GPUNVLinkThroughput:  {signal.DirectionTransmit: nvlinkRate, signal.DirectionReceive: nvlinkRate},
	signal.HwPower:              {"": power},
	signal.GPUPowerLimit:        {"": limit},
	signal.GPUPowerIdle:         {"": idle},
	signal.HwTemperature:        {signal.LocationGPU: temperature},
	signal.GPUClockFrequency:    {signal.DomainSM: smClock, signal.DomainMemory: memoryClock},
	signal.HwEnergy:             {"": energy},
	signal.HwErrors:             {"corrected": corrected, "row_remap_uncorrectable": rowsUncorrectable, "row_remap_correctable": rowsCorrectable},
	signal.HwStatus:             {signal.StatusPredictedFailure: pending, signal.StatusDegraded: worse, signal.StatusFailed: worse},
	signal.GPUClockEventActive:  numbered(reasons, active),
	signal.GPUClockEventTime:    numbered(reasons, byReason),
	signal.GPUClockThrottleTime: numbered(violations, byViolation),
	// Frames have these as holders and processes, not as samples.
	signal.GPUDeviceHolder: nil, signal.GPUSharingClients: nil, signal.GPUProcessCount: nil,
}

// column maps a sample of a metric, by its own attribute, to a value.
type column struct {
	own   string
	value value
}

// columns has the columns of each metric by the metric's index, for speed.
var columns = func() [][]column {
	out := make([][]column, len(signal.All())+1)
	for m, own := range values {
		for _, name := range slices.Sorted(maps.Keys(own)) {
			out[m.Index()] = append(out[m.Index()], column{name, own[name]})
		}
	}
	return out
}()

func numbered(names []string, from value) map[string]value {
	m := map[string]value{}
	for i, name := range names[:min(len(names), numCauses)] {
		m[name] = from + value(i)
	}
	return m
}

// Wants reports whether the rules read a metric.
func Wants(m *signal.Metric) bool {
	_, ok := values[m]
	return ok
}

// read returns the values of a device's samples that the rules read.
func read(d *gpudata.DeviceFrame) (r reading) {
	for i := range r {
		r[i] = math.NaN()
	}
	samples := d.Samples.All()
	for i := range samples {
		s := &samples[i]
		for _, c := range columns[s.Metric.Index()] {
			if c.own == s.Own && !s.Ended && !(r[c.value] >= s.Value) {
				r[c.value] = s.Value
			}
		}
	}
	if r[worse] > 0 {
		r[pending] = math.NaN()
	}
	return r
}

// known reports whether all of these values are observed.
func (r *reading) known(values ...value) bool {
	return !slices.ContainsFunc(values, func(v value) bool { return math.IsNaN(r[v]) })
}

// any reports whether any of the numCauses values that start at from is observed.
func (r *reading) any(from value) bool {
	return slices.ContainsFunc(r[from:from+numCauses], func(v float64) bool { return v >= 0 })
}

// times returns where the exact times with lowered clocks begin, and the names of their causes. It
// prefers the times by reason, which are more precise than those by violation. If neither is observed,
// names is nil.
func (r *reading) times() (from value, names []string) {
	switch {
	case r.any(byReason):
		return byReason, reasons
	case r.any(byViolation):
		return byViolation, violations
	}
	return byReason, nil
}
