package main

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// headerEvery is the number of lines after which the header is repeated: a
// screenful on a small terminal.
const headerEvery = 20

// absent stands for a signal that the window does not carry.
const absent = "-"

// ANSI colors, used on terminals only.
const (
	colorReset  = "\x1b[0m"
	colorHeader = "\x1b[1m"
	colorWarn   = "\x1b[33m"
	colorAlarm  = "\x1b[31m"
	colorFaint  = "\x1b[2m"
)

// table writes aligned lines of windows.
type table struct {
	out   io.Writer
	zone  *time.Location
	color bool

	deviceWidth int
	untilHeader int // lines that may follow before the header is repeated
}

// cell is one column of a line.
type cell struct {
	text  string
	color string // empty for the terminal's own
}

// column is a heading over right-aligned cells of a fixed width.
type column struct {
	heading string
	width   int
	cell    func(*window) cell
}

// columns stand between the device and its holder: utilization; memory occupancy
// as mean, maximum and share of samples under pressure; the shares of the time
// throttled by the power and the thermal policy; the commonest reason for lowered
// clocks; activity of the multiprocessors and of the memory interface; PCIe bytes
// per second; XID events; and how much of the window was observed.
var columns = []column{
	{"util", 5, func(w *window) cell { return cell{text: percent(w.utilization)} }},
	{"mem", 5, func(w *window) cell { return cell{text: percent(w.memoryAvg)} }},
	{"max", 5, func(w *window) cell { return cell{text: percent(w.memoryMax)} }},
	{"press", 6, func(w *window) cell { return cell{percent(w.memoryPressure), alarming(w.memoryPressure, colorWarn)} }},
	{"thr-pwr", 7, func(w *window) cell { return cell{percent(w.throttlePower), alarming(w.throttlePower, colorWarn)} }},
	{"thr-thm", 7, func(w *window) cell { return cell{percent(w.throttleThermal), alarming(w.throttleThermal, colorWarn)} }},
	{"reason", 19, func(w *window) cell { return cell{w.reason(), alarming(w.reasonRatio, colorWarn)} }},
	{"sm", 5, func(w *window) cell { return cell{text: percent(w.sm)} }},
	{"dram", 5, func(w *window) cell { return cell{text: percent(w.dram)} }},
	{"pcie tx", 8, func(w *window) cell { return cell{text: rate(w.pcieTransmit)} }},
	{"rx B/s", 7, func(w *window) cell { return cell{text: rate(w.pcieReceive)} }},
	{"xid", 4, func(w *window) cell { return cell{count(w.xids), alarming(w.xids, colorAlarm)} }},
	{"seen", 5, func(w *window) cell { return cell{percent(w.coverage), partial(w.coverage)} }},
}

// print writes one line per window and, where it is due, the header.
func (t *table) print(windows []*window) error {
	if len(windows) == 0 {
		return nil
	}
	var b strings.Builder
	width := t.deviceWidth
	for _, w := range windows {
		width = max(width, utf8.RuneCountInString(w.name()))
	}
	// A header is repeated between requests only, so that a window stays in one
	// block, and at once when the columns have to move.
	if t.untilHeader <= 0 || width > t.deviceWidth {
		t.deviceWidth = max(width, len("device"))
		t.untilHeader = headerEvery
		t.header(&b)
	}
	for _, w := range windows {
		t.line(&b, w)
	}
	t.untilHeader -= len(windows)
	_, err := io.WriteString(t.out, b.String())
	return err
}

func (t *table) header(b *strings.Builder) {
	var line strings.Builder
	fmt.Fprintf(&line, "%-8s  %-*s", "until", t.deviceWidth, "device")
	for _, c := range columns {
		fmt.Fprintf(&line, " %*s", c.width, c.heading)
	}
	line.WriteString("  holder")
	b.WriteString(t.paint(line.String(), colorHeader))
	b.WriteByte('\n')
}

func (t *table) line(b *strings.Builder, w *window) {
	fmt.Fprintf(b, "%s  %-*s", w.end.In(t.zone).Format(time.TimeOnly), t.deviceWidth, w.name())
	for _, c := range columns {
		got := c.cell(w)
		b.WriteByte(' ')
		b.WriteString(strings.Repeat(" ", max(0, c.width-utf8.RuneCountInString(got.text))))
		b.WriteString(t.paint(got.text, got.color))
	}
	b.WriteString("  ")
	b.WriteString(w.holders())
	b.WriteByte('\n')
}

func (t *table) paint(text, color string) string {
	if !t.color || color == "" {
		return text
	}
	return color + text + colorReset
}

// name is the node and the device.
func (w *window) name() string {
	if w.node == "" {
		return w.device
	}
	return w.node + "/" + w.device
}

// reason is the clock event reason of most samples with its share; "none" when
// reasons were observed and none was set.
func (w *window) reason() string {
	switch {
	case math.IsNaN(w.reasonRatio):
		return absent
	case w.reasonRatio == 0:
		return "none"
	default:
		return w.reasonName + " " + percent(w.reasonRatio)
	}
}

// holders is the first holder and the number of the others.
func (w *window) holders() string {
	switch len(w.holder) {
	case 0:
		return absent
	case 1:
		return w.holder[0]
	default:
		return fmt.Sprintf("%s +%d", w.holder[0], len(w.holder)-1)
	}
}

// percent shows a ratio. 0% and 100% are kept for exactly that: a share that
// is not quite one of them is not rounded to it.
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
			return short(bytes) + unit
		}
		bytes /= 1000
	}
	return short(bytes) + "T"
}

// short writes a number below 1000 with at most one decimal.
func short(v float64) string {
	if v < 9.95 {
		return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

func count(n float64) string {
	if math.IsNaN(n) {
		return absent
	}
	return strconv.FormatFloat(n, 'f', -1, 64)
}

// alarming colors what is above zero.
func alarming(v float64, color string) string {
	if v > 0 {
		return color
	}
	return ""
}

// partial fades the coverage of a window that was not observed throughout.
func partial(coverage float64) string {
	if coverage < 0.95 {
		return colorFaint
	}
	return ""
}
