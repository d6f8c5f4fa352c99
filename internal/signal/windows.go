package signal

import (
	"strconv"
	"strings"
)

// The functions of windows, as rules of gpu_window name them.
const (
	Mean         = "mean"
	Max          = "max"
	ShareAtLeast = "share_at_least"
	Quantile     = "quantile"
	Increase     = "increase"
	TimeRatio    = "time_ratio"
)

// Window is a metric that gpu_window makes of the samples of another one in one window.
type Window struct {
	*Metric
	// Function is one of the functions above. ShareAtLeast uses the threshold of memory
	// pressure.
	Function string
	// Quantile is the parameter of the function Quantile, from 0 to 1.
	Quantile float64
	// Only is the value of the samples' own attribute that is read; with * at its end it is
	// a prefix. When it is empty all values are, each as a series of its own.
	Only string
	// Absent reads samples without that attribute as well.
	Absent bool
	// Label is what gpu_view's page calls it; * stands for the value of its own attribute.
	// When it is empty the page shows the window in a way of its own, or not.
	Label string
	// Column is the head of its column of the page's table, empty where it has none, and Explain
	// its explanation. Steps are the values from which it is coloured as saturation; without
	// steps it is coloured as utilization.
	Column, Explain string
	Steps           []float64
	// Always shows the column although no device has a value; another one comes with the
	// first.
	Always bool
}

// made is a metric of windows; readFrom completes it.
func made(name, openCost, description string) *Metric {
	return &Metric{Name: name, Stage: StageWindow, Description: description, OpenCost: openCost}
}

// off marks a metric that is made only where it is switched on.
func off(m *Metric) *Metric {
	m.Off = true
	return m
}

// readFrom completes the window from its samples' metric: unit, own attribute, and the text
// about its source.
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
		w.Unit = "1" // a share of flags
	}
}

// Reads reports whether the window reads samples with that value of their own attribute,
// or part of its value: xid of xid_48.
func (w *Window) Reads(part string) bool {
	prefix, many := strings.CutSuffix(w.Only, "*")
	return w.Only == "" || w.Only == part || w.Absent && part == "" || many && strings.HasPrefix(part+"_", prefix)
}

// window returns the metric that a function makes of the samples.
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

// The metrics about the window itself.
var (
	// WindowCoverage is the share of the window that was observed.
	WindowCoverage = add(Metric{
		Name: "gpu.window.coverage", Unit: "1", Stage: StageWindow,
		Description: "Fraction of the window that lies between samples of the device no more than max_gap apart.",
		Source:      "sample times of the device",
	})
	// WindowSamples is the number of distinct sample times in the window.
	WindowSamples = add(Metric{
		Name: "gpu.window.samples", Unit: "{sample}", Int: true, Stage: StageWindow,
		Description: "Distinct times at which the device was sampled in the window.",
		Source:      "sample times of the device",
	})
)
