package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A measure is a row in the results table.
type measure struct {
	// key is the measure's name in the results file.
	key, what string
	of        func(*figures) *float64
	// aims returns two targets: the maximum ratio of the agent's cost to the prometheus receiver's,
	// and the maximum ratio of the agent's cost to Prometheus'. 0 means that there is no target. If
	// aims is nil, the row has no targets.
	aims func(scale) [2]float64
	// If documented is true, the documentation includes this row.
	documented bool
}

var measures = []measure{
	{key: "cpu", what: "CPU, µs per sample", of: func(f *figures) *float64 { return &f.cpu }, aims: func(s scale) [2]float64 {
		return [2]float64{s.cpu, s.prometheus(0.25)}
	}, documented: true},
	{key: "resident", what: "resident memory, MiB", of: func(f *figures) *float64 { return &f.resident }, aims: func(s scale) [2]float64 {
		return [2]float64{s.memory, s.prometheus(0.40)}
	}, documented: true},
	{key: "anonymous", what: "anonymous memory, MiB", of: func(f *figures) *float64 { return &f.anonymous }, documented: true},
	{key: "charged", what: "memory charged to the cgroup, MiB", of: func(f *figures) *float64 { return &f.charged }, documented: true},
	{key: "cache", what: "page cache charged to the cgroup, MiB", of: func(f *figures) *float64 { return &f.cache }},
	{key: "peak", what: "highest resident memory, MiB", of: func(f *figures) *float64 { return &f.peak }},
	{key: "bytes", what: "bytes sent per device and window", of: func(f *figures) *float64 { return &f.sent }, documented: true},
	{key: "start", what: "start, s", of: func(f *figures) *float64 { return &f.start }},
}

// byKey maps the keys in the results file to the values in f.
func (f *figures) byKey() map[string]float64 {
	of := map[string]float64{}
	for i := range measures {
		of[measures[i].key] = *measures[i].of(f)
	}
	return of
}

// prometheus returns aim if the scale has a target relative to Prometheus, and 0 otherwise. Only
// scales with 10 or 100 nodes have a target relative to Prometheus.
func (s scale) prometheus(aim float64) float64 {
	if s.nodes == 10 || s.nodes == 100 {
		return aim
	}
	return 0
}

const tableHead = "| agent | prometheus receiver | Prometheus | agent / receiver | agent / Prometheus | targets |\n|---|--:|--:|--:|--:|--:|---|\n"

// table renders the costs of the contestants as a Markdown table. The entries of measured are in
// the order of the contestants slice; the entry of a contestant that did not run is nil.
func table(s scale, measured []*figures) string {
	var b strings.Builder
	b.WriteString("| " + tableHead)
	for i := range measures {
		b.WriteString(measures[i].row(s, measured))
	}
	return b.String()
}

// documentation renders a table for RESULTS.md that includes all scales in the results.
func documentation(r results) string {
	var b strings.Builder
	b.WriteString("| " + tableHead)
	for _, s := range scales {
		measured := r.scaleOf(s.name)
		if !slices.ContainsFunc(measured, func(f *figures) bool { return f != nil }) {
			continue
		}
		b.WriteString("| **" + s.fleet() + "** | | | | | | |\n")
		for i := range measures {
			if measures[i].documented {
				b.WriteString(measures[i].row(s, measured))
			}
		}
	}
	return b.String()
}

// row renders one row of the table. If the row has no values, row returns "".
func (m *measure) row(s scale, measured []*figures) string {
	values := make([]float64, len(measured))
	measuredOne := false
	for i, f := range measured {
		if f != nil {
			values[i] = *m.of(f)
			measuredOne = measuredOne || values[i] != 0
		}
	}
	if !measuredOne {
		return ""
	}
	var b strings.Builder
	b.WriteString("| " + m.what + " ")
	for _, v := range values {
		b.WriteString("| " + cell(v) + " ")
	}
	var targets []string
	var aims [2]float64
	if m.aims != nil {
		aims = m.aims(s)
	}
	for i, most := range aims {
		if values[0] == 0 || values[i+1] == 0 {
			b.WriteString("|  ")
			continue
		}
		ratio := values[0] / values[i+1]
		b.WriteString("| " + cell(ratio) + " ")
		if most > 0 {
			targets = append(targets, verdict(most, ratio))
		}
	}
	b.WriteString("| " + strings.Join(targets, "; ") + " |\n")
	return b.String()
}

// fleet returns a description of the scale's fleet.
func (s scale) fleet() string {
	fleet := fmt.Sprintf("%d nodes with 8 GPUs", s.nodes)
	if s.nodes == 1 {
		fleet = "A node with 8 GPUs"
	}
	if s.mig > 0 {
		fleet += fmt.Sprintf(", each with %d MIG instances", s.mig)
	}
	if s.held {
		fleet += ", with the power and usage sections of gpu_k8s"
	}
	if s.installed {
		fleet += ", with the otelcol-gpu-agent binary"
	}
	if s.form != inReceiver {
		fleet += ", " + string(s.form)
	}
	if s.interval == time.Minute {
		fleet += ", two samples per window"
	}
	if s.small {
		fleet += "; with zstd and a Resource per device"
	}
	return fleet
}

func verdict(most, ratio float64) string {
	if ratio <= most {
		return fmt.Sprintf("≤ %g, met", most)
	}
	return fmt.Sprintf("≤ %g, **missed**", most)
}

// cell formats a value with three significant digits, or returns "" if the value was not measured.
func cell(v float64) string {
	if v == 0 {
		return ""
	}
	if v >= 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
