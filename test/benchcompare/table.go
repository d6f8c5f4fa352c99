package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A measure is a row of the table.
type measure struct {
	what string
	of   func(*figures) float64
	// receiver and prometheus are the highest ratios of the agent's to theirs that
	// were aimed at, 0 where nothing was; from is the number of nodes from which on,
	// and every the scrape interval that the aim is for, 0 for any.
	receiver, prometheus float64
	from                 int
	every                time.Duration
}

var measures = []measure{
	{what: "CPU, s per 1,000 samples", of: func(f *figures) float64 { return f.cpu }, receiver: 1. / 4, prometheus: 1. / 4, from: 10},
	{what: "resident memory, MiB", of: func(f *figures) float64 { return f.resident }, receiver: 0.6, from: 10},
	{what: "highest resident memory, MiB", of: func(f *figures) float64 { return f.peak }},
	{what: "bytes out per device and window", of: func(f *figures) float64 { return f.sent }, receiver: 0.6, every: 15 * time.Second},
	{what: "start, s", of: func(f *figures) float64 { return f.start }},
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
		for i, most := range []float64{m.receiver, m.prometheus} {
			if values[i+1] == 0 {
				b.WriteString("|  ")
				continue
			}
			ratio := values[0] / values[i+1]
			b.WriteString("| " + cell(ratio) + " ")
			if most > 0 && s.nodes >= m.from && (m.every == 0 || m.every == s.interval) {
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
