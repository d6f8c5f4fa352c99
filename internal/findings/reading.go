package findings

import (
	"math"
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// reading contains the values that the rules read for one device in one frame. A value that is not
// observed is NaN. If there are several samples for a value, such as one for each direction of a
// link, the reading contains the highest of them.
type reading [maxValues]float64

const maxValues = 64

// value is the index of a value in a reading.
type value int

// Causes of lowered clocks for all vendors. Clock event reasons come before policy violations,
// because violations are less precise.
var (
	reasons    = signal.Values(signal.ClockEventReason)
	violations = signal.Values(signal.ClockViolation)
	causes     = slices.Concat(reasons, violations)
)

// Indexes of the values that the rules read. If a metric has several values, its variable contains
// the index of the first value.
var (
	utilization = input(signal.HwGPUUtilization, signal.TaskGeneral)
	tensor      = input(signal.GPUPipeActive, "tensor")
	dram        = input(signal.GPUDRAMActive, "")
	pcie        = input(signal.GPUPCIeUtilization, "")
	pcieRate    = input(signal.GPUPCIeThroughput, "")
	lanes       = input(signal.GPUPCIeLinkWidth, "")
	nvlink      = input(signal.GPUNVLinkUtilization, "")
	nvlinkRate  = input(signal.GPUNVLinkThroughput, "")
	power       = input(signal.HwPower, "")
	limit       = input(signal.GPUPowerLimit, "")
	idle        = input(signal.GPUPowerIdle, "")
	temperature = input(signal.HwTemperature, signal.LocationGPU)
	smClock     = input(signal.GPUClockFrequency, signal.DomainSM)
	memoryClock = input(signal.GPUClockFrequency, signal.DomainMemory)
	energy      = input(signal.HwEnergy, "")
	corrected   = input(signal.HwErrors, "corrected")
	remapped    = input(signal.HwErrors, "row_remap_uncorrectable", "row_remap_correctable")
	pending     = input(signal.HwStatus, signal.StatusPredictedFailure)
	worse       = input(signal.HwStatus, signal.StatusDegraded, signal.StatusFailed) // while one of these states is active, hw.status does not show a predicted failure
	active      = input(signal.GPUClockEventActive, reasons...)
	lowered     = input(signal.GPUClockEventTime, reasons...) // the violations follow immediately, so that the values of all causes are consecutive
	_           = input(signal.GPUClockThrottleTime, violations...)
)

// columns contains each metric's columns. The slice is indexed by the metric's index, because a
// slice is faster than a map.
var columns = make([][]column, len(signal.All())+1)

var numValues value // number of values in a reading

// Each column maps samples of a metric to a position in a reading. If column.own is empty, the
// column applies to all samples of the metric. Otherwise, the column applies only to samples whose
// own attribute has the value column.own.
type column struct {
	own   string
	value value
}

// The input function adds one value to all readings for each given attribute value. The new values
// have consecutive positions. The result is the first of these positions.
func input(m *signal.Metric, owns ...string) (first value) {
	first = numValues
	for _, own := range owns {
		columns[m.Index()] = append(columns[m.Index()], column{own, numValues})
		numValues++
	}
	return first
}

// Wants reports whether the rules read a metric. Frames represent some of these metrics as holders
// or processes instead of samples.
func Wants(m *signal.Metric) bool {
	return columns[m.Index()] != nil || m == signal.GPUDeviceHolder || m == signal.GPUSharingClients || m == signal.GPUProcessCount
}

// The read method fills the reading with the values from a device's samples.
func (r *reading) read(d *gpudata.DeviceFrame) {
	for i := range r {
		r[i] = math.NaN()
	}
	samples := d.Samples.All()
	for i := range samples {
		s := &samples[i]
		for _, c := range columns[s.Metric.Index()] {
			if (c.own == s.Own || c.own == "") && !s.Ended && !(r[c.value] >= s.Value) {
				r[c.value] = s.Value
			}
		}
	}
}

// The known method reports whether all of the given values are observed.
func (r *reading) known(values ...value) bool {
	return !slices.ContainsFunc(values, func(v value) bool { return math.IsNaN(r[v]) })
}
