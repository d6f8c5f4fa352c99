package main

import (
	"fmt"
	"strconv"
	"strings"
)

// A measure is a row of the table.
type measure struct {
	what string
	of   func(*figures) float64
	// aims are the highest ratios of the agent's to the receiver's and to Prometheus' that
	// were aimed at, 0 where nothing was; nil aims at nothing.
	aims func(scale) [2]float64
}

var measures = []measure{
	{what: "CPU, s per 1,000 samples", of: func(f *figures) float64 { return f.cpu }, aims: func(s scale) [2]float64 {
		return [2]float64{s.cpu, s.prometheus(0.25)}
	}},
	{what: "resident memory, MiB", of: func(f *figures) float64 { return f.resident }, aims: func(s scale) [2]float64 {
		return [2]float64{s.memory, s.prometheus(0.40)}
	}},
	{what: "anonymous memory, MiB", of: func(f *figures) float64 { return f.anonymous }},
	{what: "highest resident memory, MiB", of: func(f *figures) float64 { return f.peak }},
	{what: "bytes out per device and window", of: func(f *figures) float64 { return f.sent }},
	{what: "start, s", of: func(f *figures) float64 { return f.start }},
}

// prometheus is an aim beside a Prometheus, which is for 10 and 100 nodes.
func (s scale) prometheus(aim float64) float64 {
	if s.nodes == 10 || s.nodes == 100 {
		return aim
	}
	return 0
}

// table renders what contestants cost, in their order, as Markdown; one that did not
// run is nil.
func table(s scale, measured []*figures) string {
	var b strings.Builder
	b.WriteString("| ")
	for _, c := range contestants {
		b.WriteString("| " + c.name + " ")
	}
	b.WriteString("| to the receiver | to Prometheus | targets |\n|---|--:|--:|--:|--:|--:|---|\n")
	for _, m := range measures {
		values := make([]float64, len(measured))
		b.WriteString("| " + m.what + " ")
		for i, f := range measured {
			if f != nil {
				values[i] = m.of(f)
			}
			b.WriteString("| " + cell(values[i]) + " ")
		}
		var targets []string
		var aims [2]float64
		if m.aims != nil {
			aims = m.aims(s)
		}
		for i, most := range aims {
			if values[i+1] == 0 {
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
	}
	return b.String()
}

func verdict(most, ratio float64) string {
	if ratio <= most {
		return fmt.Sprintf("≤ %g, met", most)
	}
	return fmt.Sprintf("≤ %g, **missed**", most)
}

// cell writes three digits, and nothing for what was not measured.
func cell(v float64) string {
	if v == 0 {
		return ""
	}
	if v >= 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
