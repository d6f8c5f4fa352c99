package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// panels lists the panels of the plot. Each panel shows one measurement for all scales in plotted.
// The vertical axis begins at lowest.
var panels = []struct {
	title  string
	of     func(*figures) float64
	lowest float64
	decade int // number of decades on the vertical axis
}{
	{"CPU, µs per sample", func(f *figures) float64 { return f.cpu }, 1, 2},
	{"resident memory, MiB", func(f *figures) float64 { return f.resident }, 10, 3},
}

// plotted lists the scales that the plot shows, smallest first.
var plotted = []string{"1", "10", "100", "1000"}

const (
	panelWidth, panelHeight    = 300.0, 220.0
	marginLeft, marginTop, gap = 48.0, 54.0, 70.0
	plotWidth, plotHeight      = 2*panelWidth + gap + marginLeft + 22, panelHeight + marginTop + 58
	fewestDevices, decadesOver = 10.0, 3.0
)

// plotStyle has a light and a dark theme. An embedded image uses the same theme as the page that
// contains it.
const plotStyle = `<style>
svg { font: 12px system-ui, sans-serif } polyline { fill: none } polyline, circle { stroke-width: 2 }
rect, circle { fill: #ffffff } text { fill: #1f2328 } .grid { stroke: #d1d9e0 }
.c0 { stroke: #0969da } .c1 { stroke: #bc4c00 } .c2 { stroke: #6e7781 }
@media (prefers-color-scheme: dark) {
rect, circle { fill: #0d1117 } text { fill: #f0f6fc } .grid { stroke: #3d444d }
.c0 { stroke: #58a6ff } .c1 { stroke: #f0883e } .c2 { stroke: #9198a1 }
}
</style>
`

// plot draws the cost of each contestant as a function of the number of devices. Both axes are
// logarithmic.
func plot(r results) string {
	var b strings.Builder
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" role=\"img\">\n<title>Cost against devices: the agent, the prometheus receiver and Prometheus</title>\n%s<rect width=\"%[1]g\" height=\"%[2]g\"/>\n",
		plotWidth, plotHeight, plotStyle)
	for i, c := range contestants {
		x := marginLeft + float64(i)*190
		fmt.Fprintf(&b, "<polyline class=\"c%d\" points=\"%g,16 %g,16\"/><circle class=\"c%[1]d\" cx=\"%[4]g\" cy=\"16\" r=\"3\"/><text x=\"%[5]g\" y=\"20\">%[6]s</text>\n",
			i, x, x+26, x+13, x+32, c.name)
	}
	for i, p := range panels {
		left := marginLeft + float64(i)*(panelWidth+gap)
		x := func(devices float64) float64 {
			return left + panelWidth*math.Log10(devices/fewestDevices)/decadesOver
		}
		y := func(v float64) float64 {
			return marginTop + panelHeight*(1-math.Log10(v/p.lowest)/float64(p.decade))
		}
		fmt.Fprintf(&b, "<text x=\"%g\" y=\"%g\">%s</text>\n", left, marginTop-12, p.title)
		for d := range p.decade + 1 {
			v := p.lowest * math.Pow10(d)
			fmt.Fprintf(&b, "<path class=\"grid\" d=\"M%.1f %.1fh%g\"/><text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n", left, y(v), panelWidth, left-6, y(v)+4, v)
		}
		for d := range int(decadesOver) + 1 {
			v := fewestDevices * math.Pow10(d)
			fmt.Fprintf(&b, "<path class=\"grid\" d=\"M%.1f %gv%g\"/><text x=\"%.1f\" y=\"%g\" text-anchor=\"middle\">%g</text>\n",
				x(v), marginTop, panelHeight, x(v), marginTop+panelHeight+18, v)
		}
		fmt.Fprintf(&b, "<text x=\"%g\" y=\"%g\" text-anchor=\"middle\">devices (GPUs or MIG instances)</text>\n", left+panelWidth/2, marginTop+panelHeight+40)
		for c := range contestants {
			var points, marks strings.Builder
			for _, s := range scales {
				f := r.scaleOf(s.name)[c]
				if !slices.Contains(plotted, s.name) || f == nil || p.of(f) <= 0 {
					continue
				}
				at := p.of(f)
				fmt.Fprintf(&points, "%.1f,%.1f ", x(float64(s.devices())), y(at))
				fmt.Fprintf(&marks, "<circle class=\"c%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"><title>%s: %s</title></circle>\n",
					c, x(float64(s.devices())), y(at), s.fleet(), cell(at))
			}
			fmt.Fprintf(&b, "<polyline class=\"c%d\" points=\"%s\"/>\n%s", c, strings.TrimSpace(points.String()), marks.String())
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}
