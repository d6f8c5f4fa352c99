package top

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/otelcol-gpu/otelcol-gpu/internal/numberformat"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// A hyphen is displayed in place of a number that the window does not contain.
const absent = "-"

// level determines the color of a number.
type level int

const (
	plain level = iota
	faint
	warning
	alarm
)

// column describes a table column with a heading and right-aligned cells.
type column struct {
	heading string
	width   int
	// dropOrder determines the order in which columns are removed if the terminal is too narrow.
	// Columns with the highest dropOrder are removed first. Columns whose dropOrder is 0 are never
	// removed.
	dropOrder int
	// legend explains the heading.
	legend string
	// If optional is true, the column is displayed only if a device has a value of at least
	// threshold.
	optional  bool
	threshold float64
	value     func(*device) float64
	// The format function formats a number, and the detail function adds information to the
	// formatted number.
	format func(float64) string
	detail func(d *device, number string) string
	level  func(float64) level
}

// columns contains the columns between the device name and the holders. Some columns are defined
// here, and the others come from the signal table.
var columns = func() []column {
	of := func(m *signal.Metric, value string) func(*device) float64 {
		return func(d *device) float64 { return d.number(key(m.Name, value)) }
	}
	out := []column{
		{heading: "util", width: 5, value: of(signal.UtilizationAvg, ""), format: numberformat.Percent.Short},
		{heading: "mem", width: 5, value: of(signal.MemoryUtilizationAvg, ""), format: numberformat.Percent.Short},
		{heading: "max", width: 5, dropOrder: 1, value: of(signal.MemoryUtilizationMax, ""), format: numberformat.Percent.Short},
		{heading: "press", width: 5, legend: "samples at or above the memory threshold", value: of(signal.MemoryPressureRatio, ""), format: numberformat.Percent.Short, level: ifPositive(warning)},
		{
			heading: "throttled", width: throttleWidth, legend: "share of the window with lowered clocks; ~ share of samples",
			value: (*device).throttled, format: numberformat.Percent.Short, detail: throttleText, level: ifPositive(warning),
		},
	}
	for _, s := range signal.All() {
		for _, w := range s.Windows {
			if w.Column != "" && w.Unit == "1" {
				heading := strings.ToLower(strings.Trim(w.Column, "."))
				out = append(out, column{heading: heading, width: 5, dropOrder: 3, optional: !w.Always, value: of(w.Metric, ""), format: numberformat.Percent.Short})
			}
		}
	}
	return append(
		out,
		column{heading: "tx/s", width: 5, dropOrder: 5, legend: "PCIe sent", value: of(signal.PCIeThroughputAvg, signal.DirectionTransmit), format: numberformat.Rate.Short},
		column{heading: "rx/s", width: 5, dropOrder: 5, legend: "received", value: of(signal.PCIeThroughputAvg, signal.DirectionReceive), format: numberformat.Rate.Short},
		column{heading: "power", width: 6, dropOrder: 4, value: (*device).power, format: numberformat.Power.Short},
		column{heading: "temp", width: 5, dropOrder: 4, value: of(signal.HwTemperature, signal.LocationGPU), format: numberformat.Celsius.Short},
		column{heading: "health", width: 9, dropOrder: 2, optional: true, threshold: 1, value: (*device).health, format: healthText, level: ifPositive(alarm)},
		column{heading: "xid", width: 6, value: of(signal.XIDErrors, ""), format: numberformat.Count.Short, detail: xidText, level: ifPositive(alarm)},
		column{
			heading: "seen", width: 5, dropOrder: 1, legend: "share of the window observed", value: of(signal.WindowCoverage, ""), format: numberformat.Percent.Short,
			level: func(share float64) level {
				if share < 0.95 {
					return faint
				}
				return plain
			},
		},
	)
}()

// maxDropOrder is the highest value of dropOrder.
const maxDropOrder = 5

func ifPositive(l level) func(float64) level {
	return func(v float64) level {
		if v > 0 {
			return l
		}
		return plain
	}
}

// text returns the text of the device's cell in the column.
func (c *column) text(d *device) string {
	v := c.value(d)
	if math.IsNaN(v) {
		return absent
	}
	text := c.format(v)
	if c.detail != nil {
		text = c.detail(d, text)
	}
	return text
}

// cell returns the text and the level of the device's cell in the column.
func (c *column) cell(d *device, folded bool) (text string, l level) {
	of, prefix := d, ""
	// A collapsed board without its own value shows the highest value among its instances.
	if folded && math.IsNaN(c.value(d)) && !bool(d.Lost) {
		for _, i := range d.instances {
			if v := c.value(i); !math.IsNaN(v) && !(c.value(of) >= v) {
				of, prefix = i, "≤"
			}
		}
	}
	if c.level != nil {
		l = c.level(c.value(of))
	}
	return prefix + c.text(of), l
}

// rank returns the number by which a device is sorted. The number is the highest value among the
// device and its instances.
func (c *column) rank(d *device) float64 {
	v := c.value(d)
	for _, i := range d.instances {
		if w := c.value(i); math.IsNaN(v) || w > v {
			v = w
		}
	}
	return v
}

// fittingColumns returns the columns that fit into the given width, in addition to the device names
// and minHolder characters for the holders.
func fittingColumns(all []*device, width, names int) []*column {
	var out []*column
	for i := range columns {
		c := &columns[i]
		used := !c.optional
		for _, d := range all {
			used = used || c.value(d) >= c.threshold
		}
		if used {
			out = append(out, c)
		}
	}
	for dropOrder := maxDropOrder; dropOrder > 0 && width-names-totalWidth(out) < minHolder; dropOrder-- {
		out = slices.DeleteFunc(out, func(c *column) bool { return c.dropOrder == dropOrder })
	}
	return out
}

// minHolder is the minimum width for holders. If less space remains, columns are removed.
const minHolder = 14

// totalWidth returns the total width of the columns and of the gap before the holders.
func totalWidth(columns []*column) int {
	used := len("  ")
	for _, c := range columns {
		used += 1 + c.width
	}
	return used
}

// throttleWidth is the width of the column that shows throttling.
const throttleWidth = 16

// throttleText puts the reason for throttling before the throttled share, and shortens the reason
// if necessary. A tilde marks a throttled share that was estimated from samples.
func throttleText(d *device, share string) string {
	if !(d.Throttle.Ratio > 0) {
		return share
	}
	by, about := strings.ReplaceAll(d.Throttle.By, "_", " "), ""
	if d.Throttle.Sampled {
		about = "~"
	}
	share = about + share
	return strings.TrimSpace(truncate(by, throttleWidth-len(" ")-len(share)) + " " + share)
}

func healthText(state float64) string {
	text, _, _ := strings.Cut(states[int(state)], "_") // such as predicted
	return text
}

// xidText returns the most urgent XID code in the window and the number of times it occurred. If
// there is no code, xidText returns the number of errors.
func xidText(d *device, errors string) string {
	for _, x := range d.XIDs {
		if x.Count > 0 {
			return fmt.Sprintf("%dx%s", x.Code, numberformat.Count.Short(x.Count))
		}
	}
	return errors
}

// holdersText returns the first holder and the number of other holders, in at most width
// characters.
func holdersText(holders []string, width int) string {
	if len(holders) == 0 {
		return absent
	}
	others := ""
	if n := len(holders) - 1; n > 0 {
		others = fmt.Sprintf(" +%d", n)
	}
	return shorten(holders[0], width-len(others)) + others
}

// shorten shortens a holder's name to at most width characters. The container is removed first,
// then the namespace, and then the end of the name.
func shorten(holder string, width int) string {
	if parts := strings.Split(holder, "/"); len(parts) == 3 {
		if utf8.RuneCountInString(holder) > width {
			holder = parts[0] + "/" + parts[1]
		}
		if utf8.RuneCountInString(holder) > width {
			holder = parts[1]
		}
	}
	return truncate(holder, width)
}

// truncate shortens text to at most width characters.
func truncate(text string, width int) string {
	if width <= 0 {
		return ""
	}
	if runes := []rune(text); len(runes) > width {
		return string(runes[:width-1]) + "…"
	}
	return text
}
