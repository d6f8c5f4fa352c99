package signal

import (
	"strconv"
	"strings"
)

// gpu_window's rules use these names of window functions.
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
	// Function is the name of a window function. The ShareAtLeast function uses the memory pressure
	// threshold.
	Function string
	// Quantile is the quantile, from 0 to 1, that the Quantile window function computes.
	Quantile float64
	// The Only field selects samples by the value of their own attribute. If the field ends with *,
	// it selects all values that start with the text before the asterisk. If the field is "",
	// gpu_window reads all samples and creates a separate series for each value.
	Only string
	// If Absent is true, samples without the own attribute are also selected.
	Absent bool
	// Label is the name of the window metric on gpu_view's page. If Label contains *, the page
	// replaces the asterisk with the value of the window metric's own attribute. If Label is "",
	// the page shows the window metric in a different way or not at all.
	Label string
	// Column is the header of the window metric's column in the table on gpu_view's page, or "" if
	// there is no such column. Explain describes the column. Steps contains the values at which the
	// saturation color changes. If Steps is empty, the column uses the colors for utilization.
	Column, Explain string
	Steps           []float64
	// If Always is true, the page shows the column even if no device has a value in it.
	Always bool
}

// The made function returns an incomplete window metric. The readFrom method sets the remaining
// fields.
func made(name, openCost, description string) *Metric {
	return &Metric{Name: name, Stage: StageWindow, Description: description, OpenCost: openCost}
}

// The off function marks a metric as disabled by default.
func off(m *Metric) *Metric {
	m.Off = true
	return m
}

// readFrom completes a window metric that is computed from the given samples. readFrom sets the
// window metric's unit, own attribute, and source, which depend on the samples' metric.
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

// Reads reports whether the window metric is computed from samples whose own attribute has the
// given value. The part parameter is the attribute's value, or the part of the value before an
// underscore, such as xid for xid_48.
func (w *Window) Reads(part string) bool {
	prefix, many := strings.CutSuffix(w.Only, "*")
	return w.Only == "" || w.Only == part || w.Absent && part == "" || many && strings.HasPrefix(part+"_", prefix)
}

// The window method returns the first window metric that the given function computes from the
// samples of m.
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

// Metrics that describe the window itself.
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
