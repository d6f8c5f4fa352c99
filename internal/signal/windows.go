package signal

import (
	"strconv"
	"strings"
)

// The window functions, with the names that gpu_window's rules use.
const (
	Mean         = "mean"
	Max          = "max"
	ShareAtLeast = "share_at_least"
	Quantile     = "quantile"
	Increase     = "increase"
	TimeRatio    = "time_ratio"
)

// Window is a metric that gpu_window computes from the samples of another metric in one window.
type Window struct {
	*Metric
	// Function is one of the functions above. The threshold of ShareAtLeast is the memory pressure
	// threshold.
	Function string
	// Quantile is the parameter of the function Quantile, from 0 to 1.
	Quantile float64
	// Only selects samples by the value of their own attribute. If Only ends with *, the value must
	// start with the text before it. If Only is "", all samples are read, and each value has a
	// separate series.
	Only string
	// Absent is true if samples without the attribute are also selected.
	Absent bool
	// Label is the window's name on gpu_view's page. The value of the window's own attribute
	// replaces *. If Label is "", the page shows the window in a different form or not at all.
	Label string
	// Column is the header of the window's column in the page's table, or "" if it has no column.
	// Explain describes the column. Steps are the values at which the saturation color changes.
	// Without steps, the column uses the colors for utilization.
	Column, Explain string
	Steps           []float64
	// Always is true if the column is shown even if no device has a value.
	Always bool
}

// made returns a window metric. readFrom completes it.
func made(name, openCost, description string) *Metric {
	return &Metric{Name: name, Stage: StageWindow, Description: description, OpenCost: openCost}
}

// off marks a metric as disabled by default.
func off(m *Metric) *Metric {
	m.Off = true
	return m
}

// readFrom completes the window with data from the metric whose samples it reads: the unit, the own
// attribute, and the source.
func (w *Window) readFrom(samples *Metric) {
	of := samples.Name
	if w.Only == "" {
		w.Attributes = samples.Attributes
	} else {
		of += " with " + samples.Attributes[0] + " " + w.Only
	}
	w.Unit = samples.Unit
	switch w.Function {
	case Mean:
		w.Source = "mean of " + of
	case Max:
		w.Source = "maximum of " + of
	case Quantile:
		w.Source = strconv.FormatFloat(w.Quantile, 'g', -1, 64) + " quantile of " + of
	case Increase:
		w.Source = "increase of " + of
		w.Int = samples.Int
		return
	case TimeRatio:
		w.Source = "increase of " + of + " / observed time"
		w.Unit = "1"
	case ShareAtLeast:
		w.Source = "share of " + of + " >= memory_pressure_threshold"
		w.Unit = "1"
	}
	if samples.Unit == "{state}" {
		w.Unit = "1" // the value is a fraction of time
	}
}

// Reads reports whether the window reads samples with a given value of their own attribute. part is
// the value, or the part of it before an underscore, such as xid for xid_48.
func (w *Window) Reads(part string) bool {
	prefix, many := strings.CutSuffix(w.Only, "*")
	return w.Only == "" || w.Only == part || w.Absent && part == "" || many && strings.HasPrefix(part+"_", prefix)
}

// window returns the metric that the function computes from the samples of m.
func (m *Metric) window(function string) *Metric {
	for _, w := range m.Windows {
		if w.Function == function {
			return w.Metric
		}
	}
	panic("signal: no window of " + m.Name + " with " + function)
}

// The windows by name.
var (
	ThrottleViolationRatio = GPUClockThrottleTime.window(TimeRatio)
	ThrottleReasonRatio    = GPUClockEventActive.window(Mean)
	ThrottleTimeRatio      = GPUClockEventTime.window(TimeRatio)
	MemoryUtilizationAvg   = HwGPUMemoryUtilization.window(Mean)
	MemoryUtilizationMax   = HwGPUMemoryUtilization.window(Max)
	MemoryUtilizationP95   = HwGPUMemoryUtilization.window(Quantile)
	MemoryPressureRatio    = HwGPUMemoryUtilization.window(ShareAtLeast)
	XIDErrors              = HwErrors.window(Increase)
	DRAMActiveAvg          = GPUDRAMActive.window(Mean)
	DRAMActiveMax          = GPUDRAMActive.window(Max)
	SMActiveAvg            = GPUSMActive.window(Mean)
	SMOccupancyAvg         = GPUSMOccupancy.window(Mean)
	PCIeThroughputAvg      = GPUPCIeThroughput.window(Mean)
	NVLinkThroughputAvg    = GPUNVLinkThroughput.window(Mean)
	PCIeUtilizationAvg     = GPUPCIeUtilization.window(Mean)
	NVLinkUtilizationAvg   = GPUNVLinkUtilization.window(Mean)
	UtilizationAvg         = HwGPUUtilization.window(Mean)
	UtilizationMax         = HwGPUUtilization.window(Max)
	UtilizationP95         = HwGPUUtilization.window(Quantile)
)

// The metrics that describe the window itself.
var (
	// WindowCoverage is the fraction of the window that was observed.
	WindowCoverage = add(Metric{
		Name: "gpu.window.coverage", Unit: "1", Stage: StageWindow,
		Description: "Fraction of the window between samples of the device that are at most max_gap apart.",
		Source:      "sample times of the device",
	})
	// WindowSamples is the number of distinct sample times in the window.
	WindowSamples = add(Metric{
		Name: "gpu.window.samples", Unit: "{sample}", Int: true, Stage: StageWindow,
		Description: "Distinct times at which the device was sampled in the window.",
		Source:      "sample times of the device",
	})
)
