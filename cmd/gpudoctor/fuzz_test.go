package main

import (
	"strings"
	"testing"

	"github.com/otelcol-gpu/otelcol-gpu/internal/dcgmsim"
	"github.com/otelcol-gpu/otelcol-gpu/internal/diagnose"
)

// For any exporter output, gpudoctor must parse, ignore, or count every line, and must print a
// report.
func FuzzRead(f *testing.F) {
	f.Add(simulated(f, func(c *dcgmsim.Config) { c.Scenario = dcgmsim.ScenarioXIDBurst }))
	f.Add(simulated(f, func(c *dcgmsim.Config) { c.Style, c.Scenario = dcgmsim.Style2, dcgmsim.ScenarioTimeSliced }))
	f.Add("# HELP DCGM_FI_DEV_GPU_UTIL x (in us)\nDCGM_FI_DEV_GPU_UTIL{UUID=\"GPU-1\"} NaN 1\r\nm{a=\"say \"hi\", ok\"} 1e999")
	f.Fuzz(func(t *testing.T, text string) {
		var e diagnose.Exposition
		u, err := read(strings.NewReader(text), &e)
		lines := strings.Count(text, "\n") + 1
		if u.count+u.samples > lines || u.first > lines || (u.count > 0) != (u.first > 0) {
			t.Fatalf("%d lines: %+v", lines, u)
		}
		if err != nil {
			t.Fatal(err)
		}
		if e.Rows() > u.samples {
			t.Fatalf("%d rows of %d samples", e.Rows(), u.samples)
		}
		e.Report()
	})
}
