package live

import (
	"fmt"
	"slices"
	"strings"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuviewexporter/internal/store"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/diagnose"
	"github.com/otelcol-gpu/otelcol-gpu/internal/numberformat"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Window describes a windowed metric of the signal table for the page.
type Window struct {
	Metric string `json:"metric"`
	// Format is the name of the format in which the page shows the number.
	Format string `json:"format"`
	// Values are the values of the metric's own attribute.
	Values []string `json:"values"`
	// Label, Column, Explain, Steps and Always are copied from the signal table.
	Label   string    `json:"label"`
	Column  string    `json:"column"`
	Explain string    `json:"explain"`
	Steps   []float64 `json:"steps,omitempty"`
	Always  bool      `json:"always"`
	// First is the first of the windowed metrics that are computed from the same sample metric.
	First string `json:"first"`
	// Max is the windowed metric that contains the highest sample, or "".
	Max string `json:"max"`
	// board is true if the metric is measured for the board and not for MIG instances.
	board bool
	// fields are the exporter fields that the metric usually needs. It is empty if no NVIDIA
	// exporter provides the metric. profiling is true if these fields need profiling.
	fields    []string
	profiling bool
}

// Expired is what a page shows if it cannot get a newer document in time. The time in Why is 0, and
// the page replaces it with the end of the device's last window.
type Expired struct {
	State State `json:"state"`
	Why   Text  `json:"why"`
}

// findingNames are short descriptions of the findings.
var findingNames = map[string]string{
	"spinning": "kernels wait", signal.FindingLatched: "utilization not true", "slow_device": "slows its job", "memory_degrading": "memory fails",
	"frozen_telemetry": "values do not change",
}

// Windows returns a JavaScript module with the content of the page that does not depend on the
// devices: the windowed metrics that have a line or a column, and the formats, limits and names.
func Windows() []byte {
	list := []Window{}
	for _, samples := range signal.All() {
		for _, w := range samples.Windows {
			if w.Label != "" {
				list = append(list, describeWindow(samples, &w))
			}
		}
	}
	var out []byte
	for _, export := range []struct {
		name  string
		value any
	}{
		{"windows", list},
		{"throttles", causes()},
		{"problemShare", ProblemShare},
		{"idleShare", signal.IdleShare},
		{"formats", numberformat.All},
		{"findings", findingNames},
		{"expired", Expired{noNewData, nothingSince(0)}},
	} {
		out = fmt.Appendf(out, "export const %s = %s;\n", export.name, marshal(export.value))
	}
	return out
}

// describeWindow describes a windowed metric that is computed from a sample metric.
func describeWindow(samples *signal.Metric, w *signal.Window) Window {
	out := Window{
		Metric: w.Name, Values: []string{""}, First: samples.Windows[0].Name,
		Label: w.Label, Column: w.Column, Explain: w.Explain, Steps: w.Steps, Always: w.Always,
	}
	out.Format, _ = numberformat.OfUnit(w.Unit)
	if len(w.Attributes) > 0 {
		out.Values = signal.Values(w.Attributes[0])
	}
	if i := slices.IndexFunc(samples.Windows, func(o signal.Window) bool { return o.Function == signal.Max }); i >= 0 {
		out.Max = samples.Windows[i].Name
	}
	out.setFields(w.Metric)
	return out
}

// Cause describes a cause of throttling for the page, as measured by one metric.
type Cause struct {
	// Key is the name of the metric, followed by the cause in braces.
	Key string `json:"key"`
	// Value is the value of the metric's own attribute, and Name is its name on the page.
	Value string `json:"value"`
	Name  string `json:"name"`
	How   string `json:"how"`
	// Usual is true for the causes that NVIDIA boards report. The page shows other causes only if
	// they have a value.
	Usual bool `json:"usual"`
}

// causes returns all causes of throttling.
func causes() []Cause {
	usual := []string{"power", "thermal", "sync_boost", "board_limit", "sw_power_cap", "hw_slowdown", "sw_thermal", "hw_thermal", "hw_power_brake"}
	words := strings.NewReplacer("hw_power_brake", "power brake", "sw_", "software ", "hw_", "hardware ", "ave_", "average ", "pwr_", "power ", "psu_", "PSU ", "vr_", "VR ", "hbm_", "HBM ", "_", " ")
	var out []Cause
	for _, m := range []struct {
		metric *signal.Metric
		how    string
	}{
		{signal.ThrottleViolationRatio, "violation time"}, {signal.ThrottleTimeRatio, "exact time"}, {signal.ThrottleReasonRatio, "share of samples"},
	} {
		for _, f := range store.FieldsOf(m.metric) {
			v := f.Value()
			if m.metric == signal.ThrottleTimeRatio && v == "hw_slowdown" {
				continue // this reason has no exact counter
			}
			isUsual := slices.Contains(usual, v) && (m.metric == signal.ThrottleViolationRatio || v != "power" && v != "thermal")
			out = append(out, Cause{Key: m.metric.Name + "{" + v + "}", Value: v, Name: words.Replace(v), How: m.how, Usual: isUsual})
		}
	}
	return out
}

// setFields sets the exporter fields that a windowed metric needs.
func (w *Window) setFields(m *signal.Metric) {
	for _, s := range diagnose.Signals() {
		if !slices.Contains(s.Feeds, m) {
			continue
		}
		w.board = catalogue.ByID(s.Sources[0][0]).Scope == catalogue.Board
		for _, f := range s.Fields() {
			if !slices.Contains(w.fields, f) {
				w.fields = append(w.fields, f)
			}
			w.profiling = w.profiling || strings.Contains(f, "_PROF_")
		}
	}
}
