package findings

import (
	"math"
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// reading contains the values of one device in one frame that the rules read. NaN means that a
// value is not observed. If a value has several samples, such as one for each direction of a link,
// the highest sample is used.
type reading [maxValues]float64

const maxValues = 64

// value is the index of a value in a reading.
type value int

// The causes of lowered clocks for all vendors. reasons come before violations, because violations
// are less precise.
var (
	reasons    = signal.Values(signal.ClockEventReason)
	violations = signal.Values(signal.ClockViolation)
	causes     = slices.Concat(reasons, violations)
)

// The values that the rules read. If a metric has several values, the index is the index of the
// first value.
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
	worse       = input(signal.HwStatus, signal.StatusDegraded, signal.StatusFailed) // these states hide the state pending
	active      = input(signal.GPUClockEventActive, reasons...)
	lowered     = input(signal.GPUClockEventTime, reasons...) // followed by the violations, so that the values of all causes are consecutive
	_           = input(signal.GPUClockThrottleTime, violations...)
)

// columns contains the columns of each metric, by the metric's index. An index is faster than a
// map.
var columns = make([][]column, len(signal.All())+1)

var numValues value // number of values in a reading

// column is the position of a sample's value in a reading. An empty own attribute matches all
// samples.
type column struct {
	own   string
	value value
}

// input adds values to the readings at consecutive positions, and returns the first position.
func input(m *signal.Metric, owns ...string) (first value) {
	first = numValues
	for _, own := range owns {
		columns[m.Index()] = append(columns[m.Index()], column{own, numValues})
		numValues++
	}
	return first
}

// Wants reports whether the rules read a metric. Frames contain some of these metrics as holders or
// processes instead of samples.
func Wants(m *signal.Metric) bool {
	return columns[m.Index()] != nil || m == signal.GPUDeviceHolder || m == signal.GPUSharingClients || m == signal.GPUProcessCount
}

// read reads the values of a device's samples.
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

// known reports whether all given values are observed.
func (r *reading) known(values ...value) bool {
	return !slices.ContainsFunc(values, func(v value) bool { return math.IsNaN(r[v]) })
}
