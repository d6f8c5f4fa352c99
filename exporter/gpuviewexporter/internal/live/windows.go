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

// Window contains what the page needs to know about a windowed metric in the signal table.
type Window struct {
	Metric string `json:"metric"`
	// Format is the name of the number format that the page uses for the metric.
	Format string `json:"format"`
	// Values contains the possible values of the metric's own attribute.
	Values []string `json:"values"`
	// Label, Column, Explain, Steps and Always are copied from the signal table.
	Label   string    `json:"label"`
	Column  string    `json:"column"`
	Explain string    `json:"explain"`
	Steps   []float64 `json:"steps,omitempty"`
	Always  bool      `json:"always"`
	// First is the name of the first windowed metric that is computed from the same sample metric.
	First string `json:"first"`
	// Max is the name of the windowed metric that contains the highest sample, or "" if there is
	// none.
	Max string `json:"max"`
	// board is true if the metric is measured for boards and not for MIG instances.
	board bool
	// The fields slice contains the exporter fields that the metric is usually computed from. If no
	// NVIDIA exporter provides the metric, fields is empty. If any of the fields needs profiling,
	// profiling is true.
	fields    []string
	profiling bool
}

// Expired contains the text that a page shows if the page cannot get a newer document in time. The
// time in Why is 0, and the page replaces the 0 with the end of the device's last window.
type Expired struct {
	State State `json:"state"`
	Why   Text  `json:"why"`
}

// findingNames contains a short description of each finding.
var findingNames = map[string]string{
	"spinning": "kernels wait", signal.FindingLatched: "utilization not true", "slow_device": "slows its job", "memory_degrading": "memory fails",
	"frozen_telemetry": "values do not change",
}

// Windows returns a JavaScript module with the data that the page needs regardless of the devices.
// The module contains the windowed metrics that have a line or a column, number formats,
// thresholds, and names.
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

// describeWindow returns the description of a windowed metric, given the sample metric that the
// windowed metric is computed from.
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

// Cause contains what the page needs to know about a cause of throttling, as measured by one
// metric.
type Cause struct {
	// Key is the name of the metric, followed by Value in braces.
	Key string `json:"key"`
	// Value is the value of the metric's own attribute. Name is the name of the cause on the page.
	Value string `json:"value"`
	Name  string `json:"name"`
	How   string `json:"how"`
	// Usual is true if NVIDIA boards report the cause. If Usual is false, the page shows the cause
	// only if there is a value.
	Usual bool `json:"usual"`
}

// The causes function returns all causes of throttling, for each metric that measures them.
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

// setFields sets the board, fields and profiling fields of a Window.
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
