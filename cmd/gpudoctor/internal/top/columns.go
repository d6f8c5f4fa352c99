package top

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// absent stands for a number that the window does not carry.
const absent = "-"

// The metrics that columns show, with the value of their own attribute in braces.
const (
	utilization = "gpu.utilization.avg"
	memory      = "gpu.saturation.memory.utilization.avg"
	memoryMax   = "gpu.saturation.memory.utilization.max"
	pressure    = "gpu.saturation.memory.pressure.ratio"
	pcie        = "gpu.saturation.pcie.throughput.avg"
	xids        = "gpu.saturation.xid.errors"
	coverage    = "gpu.window.coverage"
	power       = "hw.power"
	instance    = "gpu.instance.power"
	temperature = "hw.temperature{gpu}"
)

// level says how a number is painted.
type level int

const (
	plain level = iota
	faint
	warning
	alarm
)

// column is a heading over right-aligned cells.
type column struct {
	heading string
	width   int
	// leaves orders the columns that a narrow terminal has no room for: the greatest goes
	// first, 0 never.
	leaves int
	// legend explains the heading.
	legend string
	// optional columns show where some device has a number of at least least.
	optional bool
	least    float64
	value    func(*device) float64
	text     func(*device) string
	level    func(*device) level
}

// columns stand between the device and its holders: those with a meaning of their own, and
// between them those that the signal table has.
var columns = func() []column {
	of := func(key string) func(*device) float64 { return func(d *device) float64 { return d.get(key) } }
	share := func(heading, legend, key string, leaves int, level func(*device) level) column {
		return column{heading: heading, width: 5, leaves: leaves, legend: legend, value: of(key), text: func(d *device) string { return percent(d.get(key)) }, level: level}
	}
	rates := func(heading, legend, direction string) column {
		value := of(pcie + "{" + direction + "}")
		return column{heading: heading, width: 5, leaves: 5, legend: legend, value: value, text: func(d *device) string { return rate(value(d)) }}
	}
	watts := func(d *device) float64 {
		if d.Parent != "" {
			return d.get(instance)
		}
		return d.get(power)
	}
	out := []column{
		share("util", "", utilization, 0, nil),
		share("mem", "", memory, 0, nil),
		share("max", "", memoryMax, 1, nil),
		share("press", "samples at or above the memory threshold", pressure, 0, above(pressure, warning)),
		{
			heading: "throttled", width: 16, legend: "share of the window with clocks held down, ~ of samples",
			value: (*device).throttled, text: throttleText,
			level: func(d *device) level { return ifAbove(d.throttled(), warning) },
		},
	}
	for _, s := range signal.All() {
		for _, w := range s.Windows {
			if w.Column != "" && w.Unit == "1" {
				c := share(strings.ToLower(strings.Trim(w.Column, ".")), "", w.Name, 3, nil)
				c.optional = !w.Always
				out = append(out, c)
			}
		}
	}
	return append(
		out,
		rates("tx/s", "PCIe sent", "transmit"),
		rates("rx/s", "received", "receive"),
		column{heading: "power", width: 6, leaves: 4, value: watts, text: func(d *device) string { return whole(watts(d), "W") }},
		column{heading: "temp", width: 5, leaves: 4, value: of(temperature), text: func(d *device) string { return whole(d.get(temperature), "°C") }},
		column{
			heading: "health", width: 9, leaves: 2, optional: true, least: 1, value: (*device).health, text: healthText,
			level: func(d *device) level { return ifAbove(d.health(), alarm) },
		},
		column{heading: "xid", width: 6, value: of(xids), text: xidText, level: above(xids, alarm)},
		column{
			heading: "seen", width: 5, leaves: 1, legend: "share of the window observed", value: of(coverage),
			text: func(d *device) string { return percent(d.get(coverage)) },
			level: func(d *device) level {
				if d.get(coverage) < 0.95 {
					return faint
				}
				return plain
			},
		},
	)
}()

// leavesFirst is the greatest of the columns' leaves.
const leavesFirst = 5

func above(key string, l level) func(*device) level {
	return func(d *device) level { return ifAbove(d.get(key), l) }
}

func ifAbove(v float64, l level) level {
	if v > 0 {
		return l
	}
	return plain
}

// cell is the text of one device in one column, and how it is painted.
type cell struct {
	text  string
	level level
}

func (c *column) cell(d *device, folded bool) cell {
	of, prefix := d, ""
	// What is measured at instances alone is the greatest of them where they are folded away.
	if folded && math.IsNaN(c.value(d)) && !d.lost {
		for _, i := range d.instances {
			if v := c.value(i); !math.IsNaN(v) && !(c.value(of) >= v) {
				of, prefix = i, "≤"
			}
		}
	}
	out := cell{text: prefix + c.text(of)}
	if c.level != nil {
		out.level = c.level(of)
	}
	return out
}

// rank returns the number by which a device is sorted: the greatest of itself and its instances.
func (c *column) rank(d *device) float64 {
	v := c.value(d)
	for _, i := range d.instances {
		if w := c.value(i); math.IsNaN(v) || w > v {
			v = w
		}
	}
	return v
}

// shown are the columns that width leaves room for beside the devices' names and some
// characters of their holders.
func shown(all []*device, width, names int) []*column {
	var out []*column
	for i := range columns {
		c := &columns[i]
		used := !c.optional
		for _, d := range all {
			used = used || c.value(d) >= c.least
		}
		if used {
			out = append(out, c)
		}
	}
	for leaves := leavesFirst; leaves > 0 && width-names-taken(out) < minHolder; leaves-- {
		out = slices.DeleteFunc(out, func(c *column) bool { return c.leaves == leaves })
	}
	return out
}

// minHolder is the room for holders below which columns are left out instead.
const minHolder = 14

// taken is the room of columns and of the gap before the holders.
func taken(columns []*column) int {
	used := len("  ")
	for _, c := range columns {
		used += 1 + c.width
	}
	return used
}

// short names the policies and reasons of throttling.
var short = map[string]string{
	"sw_power_cap": "power cap", "hw_slowdown": "hw slow", "sync_boost": "sync", "sw_thermal": "sw heat", "hw_thermal": "hw heat",
	"hw_power_brake": "brake", "thermal": "heat", "board_limit": "board",
}

// throttleText is the share with what for; an estimate from samples has a tilde.
func throttleText(d *device) string {
	share := d.throttled()
	if !(share > 0) {
		return percent(share)
	}
	by, about := d.Throttle.By, ""
	if s, ok := short[by]; ok {
		by = s
	}
	if d.Throttle.Sampled {
		about = "~"
	}
	return strings.TrimSpace(by + " " + about + percent(share))
}

func healthText(d *device) string {
	v := d.health()
	if math.IsNaN(v) {
		return absent
	}
	text, _, _ := strings.Cut(states[int(v)], "_") // predicted
	return text
}

// xidText is the most urgent code of the window and how often it came, or the number of
// errors.
func xidText(d *device) string {
	n := d.get(xids)
	for _, x := range d.XIDs {
		if n > 0 && x.Count > 0 {
			return fmt.Sprintf("%dx%s", x.Code, count(x.Count))
		}
	}
	return count(n)
}

// holdersText is the first holder and the number of the others, in room characters.
func holdersText(holders []string, room int) string {
	if len(holders) == 0 {
		return absent
	}
	others := ""
	if n := len(holders) - 1; n > 0 {
		others = fmt.Sprintf(" +%d", n)
	}
	return shorten(holders[0], room-len(others)) + others
}

// shorten leaves out the container, then the namespace, then the end of the name: whatever
// a holder of more than room characters can best do without.
func shorten(holder string, room int) string {
	if parts := strings.Split(holder, "/"); len(parts) == 3 {
		if utf8.RuneCountInString(holder) > room {
			holder = parts[0] + "/" + parts[1]
		}
		if utf8.RuneCountInString(holder) > room {
			holder = parts[1]
		}
	}
	return cut(holder, room)
}

// cut shortens a text to room characters.
func cut(text string, room int) string {
	if room <= 0 {
		return ""
	}
	if runes := []rune(text); len(runes) > room {
		return string(runes[:room-1]) + "…"
	}
	return text
}

// percent shows a ratio. 0% and 100% are kept for exactly that: a share that is not quite
// one of them is not rounded to it.
func percent(ratio float64) string {
	switch rounded := math.Round(ratio * 100); {
	case math.IsNaN(ratio):
		return absent
	case ratio > 0 && rounded == 0:
		return "<1%"
	case ratio < 1 && rounded == 100:
		return ">99%"
	default:
		return strconv.FormatFloat(rounded, 'f', 0, 64) + "%"
	}
}

// rate shows bytes per second with three digits and a decimal prefix.
func rate(bytes float64) string {
	if math.IsNaN(bytes) {
		return absent
	}
	for _, unit := range []string{"", "k", "M", "G"} {
		if bytes < 999.5 {
			return brief(bytes) + unit
		}
		bytes /= 1000
	}
	return brief(bytes) + "T"
}

// brief writes a number below 1000 with at most one decimal.
func brief(v float64) string {
	if v < 9.95 {
		return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

func whole(v float64, unit string) string {
	if math.IsNaN(v) {
		return absent
	}
	return strconv.FormatFloat(v, 'f', 0, 64) + unit
}

func count(n float64) string {
	if math.IsNaN(n) {
		return absent
	}
	return strconv.FormatFloat(n, 'f', -1, 64)
}

// counted is a number of things.
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.Itoa(n) + " " + thing + "s"
}
