package findings

import (
	"math"
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// reasons are the values of gpu.clock.event.reason, most severe first.
var reasons = []string{"hw_thermal", "hw_power_brake", "hw_slowdown", "sw_thermal", "sw_power_cap", "sync_boost"}

// causes are the causes of lowered clocks with an exact time: the reasons and then the values of
// gpu.clock.violation, which are less precise.
var causes = slices.Concat(reasons, signal.Values(signal.ClockViolation))

const (
	numReasons = 6
	numCauses  = numReasons + 7
)

// value is the index of a value in a reading.
type value int

const (
	utilization value = iota
	tensor
	dram
	pcie
	pcieRate
	link // capacity of the PCIe link in one direction, B/s
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
	worse                           // a board state that is worse than pending, and hides it
	active                          // the first of numReasons values
	lowered   = active + numReasons // the first of numCauses values
	numValues = lowered + numCauses
)

// reading has the values of one device in one frame that the rules read. NaN means not observed. If
// several samples are the same value, such as the directions of a link, the highest one is used.
type reading [numValues]float64

// column maps samples with an own attribute to their position in a reading.
type column struct {
	own   string
	value value
}

// inputs are the metrics that the rules read.
var inputs = map[*signal.Metric][]column{
	signal.HwGPUUtilization:     {{signal.TaskGeneral, utilization}},
	signal.GPUPipeActive:        {{"tensor", tensor}},
	signal.GPUDRAMActive:        {{"", dram}},
	signal.GPUPCIeUtilization:   {{signal.DirectionTransmit, pcie}, {signal.DirectionReceive, pcie}},
	signal.GPUPCIeThroughput:    {{signal.DirectionTransmit, pcieRate}, {signal.DirectionReceive, pcieRate}},
	signal.GPUNVLinkUtilization: {{signal.DirectionTransmit, nvlink}, {signal.DirectionReceive, nvlink}},
	signal.GPUNVLinkThroughput:  {{signal.DirectionTransmit, nvlinkRate}, {signal.DirectionReceive, nvlinkRate}},
	signal.HwPower:              {{"", power}},
	signal.GPUPowerLimit:        {{"", limit}},
	signal.GPUPowerIdle:         {{"", idle}},
	signal.HwTemperature:        {{signal.LocationGPU, temperature}},
	signal.GPUClockFrequency:    {{signal.DomainSM, smClock}, {signal.DomainMemory, memoryClock}},
	signal.HwEnergy:             {{"", energy}},
	signal.HwErrors:             {{"corrected", corrected}, {"row_remap_uncorrectable", rowsUncorrectable}, {"row_remap_correctable", rowsCorrectable}},
	signal.HwStatus:             {{signal.StatusPredictedFailure, pending}, {signal.StatusDegraded, worse}, {signal.StatusFailed, worse}},
	signal.GPUClockEventActive:  numbered(reasons, active),
	signal.GPUClockEventTime:    numbered(causes[:numReasons], lowered),
	signal.GPUClockThrottleTime: numbered(causes[numReasons:], lowered+numReasons),
	// Frames have these as holders and processes, not as samples.
	signal.GPUDeviceHolder: nil, signal.GPUSharingClients: nil, signal.GPUProcessCount: nil,
}

// columns has the columns of each metric by the metric's index, for speed.
var columns = func() [][]column {
	out := make([][]column, len(signal.All())+1)
	for m, of := range inputs {
		out[m.Index()] = of
	}
	return out
}()

// numbered returns a column for each name, at consecutive positions.
func numbered(names []string, from value) (out []column) {
	for i, name := range names {
		out = append(out, column{name, from + value(i)})
	}
	return out
}

// Wants reports whether the rules read a metric.
func Wants(m *signal.Metric) bool {
	_, ok := inputs[m]
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
	switch {
	case d.FailurePredicted:
		r[pending] = 1
	case r[worse] > 0:
		r[pending] = math.NaN()
	}
	if r[pcie] > 0 && r[pcie] < 1 { // a utilization of 1 may have been clamped
		r[link] = r[pcieRate] / r[pcie]
	}
	return r
}

// known reports whether all of these values are observed.
func (r *reading) known(values ...value) bool {
	return !slices.ContainsFunc(values, func(v value) bool { return math.IsNaN(r[v]) })
}

// anyOf reports whether any of n consecutive values is observed.
func (r *reading) anyOf(from value, n int) bool {
	return slices.ContainsFunc(r[from:int(from)+n], func(v float64) bool { return v >= 0 })
}
