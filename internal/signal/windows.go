package signal

import (
	"strconv"
	"strings"
)

// Window functions, with the names that gpu_window's rules use.
const (
	Mean         = "mean"
	Max          = "max"
	ShareAtLeast = "share_at_least"
	Quantile     = "quantile"
	Increase     = "increase"
	TimeRatio    = "time_ratio"
)

// Window is a metric that gpu_window computes from one window of another metric's samples.
type Window struct {
	*Metric
	// Function is one of the functions above. ShareAtLeast uses the memory pressure threshold.
	Function string
	// Quantile is the parameter of the function Quantile, from 0 to 1.
	Quantile float64
	// Only selects samples by the value of their own attribute. With a trailing *, it is a prefix
	// of the value. If it is empty, all samples are read, and each value is a separate series.
	Only string
	// Absent also selects samples without the attribute.
	Absent bool
	// Label is the window's name on gpu_view's page, where * is replaced by the value of the
	// window's own attribute. If it is empty, the page renders the window differently or not at
	// all.
	Label string
	// Column is the header of the window's column in the page's table, or "" if it has none.
	// Explain describes the column. Steps are the values at which the saturation color changes.
	// Without steps, the column uses the colors for utilization.
	Column, Explain string
	Steps           []float64
	// Always shows the column even if no device has a value. Other columns are shown only if a
	// device has a value.
	Always bool
}

// made returns a window metric, which readFrom completes.
func made(name, openCost, description string) *Metric {
	return &Metric{Name: name, Stage: StageWindow, Description: description, OpenCost: openCost}
}

// off marks a metric as disabled by default.
func off(m *Metric) *Metric {
	m.Off = true
	return m
}

// readFrom completes the window with data from its samples' metric: unit, own attribute, and
// source.
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
		w.Unit = "1" // a fraction of time
	}
}

// Reads reports whether the window reads samples whose own attribute has a given value. part is
// this value, or a part of it before an underscore, such as xid for xid_48.
func (w *Window) Reads(part string) bool {
	prefix, many := strings.CutSuffix(w.Only, "*")
	return w.Only == "" || w.Only == part || w.Absent && part == "" || many && strings.HasPrefix(part+"_", prefix)
}

// window returns the metric that the function computes from m's samples.
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
