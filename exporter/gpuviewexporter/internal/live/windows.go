package live

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/diagnose"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Window is what the page shows of a windowed metric of the signal table.
type Window struct {
	Metric string `json:"metric"`
	Unit   string `json:"unit"`
	// Values are those of its own attribute.
	Values []string `json:"values"`
	// Label, Column, Explain, Steps and Always are those of the table.
	Label   string    `json:"label"`
	Column  string    `json:"column"`
	Explain string    `json:"explain"`
	Steps   []float64 `json:"steps,omitempty"`
	Always  bool      `json:"always"`
	// First is the first window of the same samples.
	First string `json:"first"`
	// Max is the metric of the highest sample, empty where there is none.
	Max string `json:"max"`
	// Board says that it is measured for the board and not for MIG instances.
	Board bool `json:"board"`
	// Fields are those that an exporter usually has to give for it, none where no exporter of
	// NVIDIA's gives it. Profiling says that they need profiling.
	Fields    []string `json:"fields"`
	Profiling bool     `json:"profiling"`
}

// Windows returns a module for the page: the windows that have a line or a column.
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
			out.needs(w.Metric)
			list = append(list, out)
		}
	}
	text, _ := json.Marshal(list) // these types cannot fail
	return slices.Concat([]byte("export const windows = "), text, []byte(";\n"))
}

// needs says what an exporter has to give for a windowed metric.
func (w *Window) needs(m *signal.Metric) {
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
