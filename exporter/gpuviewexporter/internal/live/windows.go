package live

import (
	"slices"
	"strings"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/diagnose"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Window describes a windowed metric of the signal table for the page.
type Window struct {
	Metric string `json:"metric"`
	Unit   string `json:"unit"`
	// Values are the values of its own attribute.
	Values []string `json:"values"`
	// Label, Column, Explain, Steps and Always are copied from the table.
	Label   string    `json:"label"`
	Column  string    `json:"column"`
	Explain string    `json:"explain"`
	Steps   []float64 `json:"steps,omitempty"`
	Always  bool      `json:"always"`
	// First is the first windowed metric of the same sample metric.
	First string `json:"first"`
	// Max is the metric with the highest sample, or empty.
	Max string `json:"max"`
	// Board is true if the metric is measured for the board and not for MIG instances.
	Board bool `json:"board"`
	// Fields are the exporter fields that the metric usually needs, empty if no NVIDIA exporter
	// provides it. Profiling is true if these fields need profiling.
	Fields    []string `json:"fields"`
	Profiling bool     `json:"profiling"`
}

// Windows returns a JavaScript module with the windowed metrics that have a line or a column on the
// page, and with the limits that the page states.
func Windows() []byte {
	list := []Window{}
	for _, samples := range signal.All() {
		for _, w := range samples.Windows {
			if w.Label == "" {
				continue
			}
			out := Window{
				Metric: w.Name, Unit: w.Unit, Values: []string{""}, First: samples.Windows[0].Name,
				Label: w.Label, Column: w.Column, Explain: w.Explain, Steps: w.Steps, Always: w.Always,
				Fields: []string{},
			}
			if len(w.Attributes) > 0 {
				out.Values = signal.Values(w.Attributes[0])
			}
			if i := slices.IndexFunc(samples.Windows, func(o signal.Window) bool { return o.Function == signal.Max }); i >= 0 {
				out.Max = samples.Windows[i].Name
			}
			out.setFields(w.Metric)
			list = append(list, out)
		}
	}
	return slices.Concat([]byte("export const windows = "), marshal(list), []byte(";\nexport const problemShare = "), marshal(ProblemShare),
		[]byte(";\nexport const idleShare = "), marshal(signal.IdleShare), []byte(";\n"))
}

// setFields sets the exporter fields that a windowed metric needs.
func (w *Window) setFields(m *signal.Metric) {
	for _, s := range diagnose.Signals() {
		if !slices.Contains(s.Feeds, m) {
			continue
		}
		w.Board = catalogue.ByID(s.Sources[0][0]).Scope == catalogue.Board
		for _, f := range s.Fields() {
			if !slices.Contains(w.Fields, f) {
				w.Fields = append(w.Fields, f)
			}
			w.Profiling = w.Profiling || strings.Contains(f, "_PROF_")
		}
	}
}
