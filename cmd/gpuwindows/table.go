package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	// defaultWidth is the length of a line where nobody says how wide the terminal is.
	defaultWidth = 120
	// minHolder is the room for holders below which columns are left out instead.
	minHolder = 14
	// headerEvery is the number of lines after which the next window gets a header
	// again: a screenful on a small terminal.
	headerEvery = 20
)

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

// table writes aligned lines of windows, and a line when an exporter's scrapes
// begin or cease to fail.
type table struct {
	out   io.Writer
	zone  *time.Location
	color bool
	width int // characters in a line

	node        string // the first node seen
	manyNodes   bool   // and whether there is another
	deviceWidth int
	shown       []column
	end         time.Time // of the window printed last; zero before the first
	untilHeader int       // lines that may follow before a window gets a header again
	failing     map[string]bool
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
	// leaves orders the columns that a narrow terminal has no room for: 1 goes
	// first, 0 never.
	leaves int
	// legend is what the heading does not say by itself.
	legend string
	cell   func(*window) cell
}

// columns stand between the device and its holder: utilization; memory occupancy
// as mean, maximum and share of samples under pressure; the shares of the time
// throttled by the power and the thermal policy; the commonest reason for lowered
// clocks; activity of the multiprocessors and of the memory interface; PCIe bytes
// per second; XID events; and how much of the window was observed.
var columns = []column{
	{"util", 4, 0, "", func(w *window) cell { return cell{text: percent(w.utilization)} }},
	{"mem", 4, 0, "", func(w *window) cell { return cell{text: percent(w.memoryAvg)} }},
	{"max", 4, 0, "", func(w *window) cell { return cell{text: percent(w.memoryMax)} }},
	{"press", 5, 0, "samples at or above the memory threshold", func(w *window) cell {
		return cell{percent(w.memoryPressure), alarming(w.memoryPressure, colorWarn)}
	}},
	{"thr-pwr", 7, 0, "throttled by power", func(w *window) cell {
		return cell{percent(w.throttlePower), alarming(w.throttlePower, colorWarn)}
	}},
	{"thr-thm", 7, 0, "by heat", func(w *window) cell {
		return cell{percent(w.throttleThermal), alarming(w.throttleThermal, colorWarn)}
	}},
	{"reason", 17, leavesLast, "commonest clock event", func(w *window) cell {
		return cell{w.reason(), alarming(w.reasonRatio, colorWarn)}
	}},
	{"sm", 4, 2, "", func(w *window) cell { return cell{text: percent(w.sm)} }},
	{"dram", 4, 2, "", func(w *window) cell { return cell{text: percent(w.dram)} }},
	{"tx/s", 4, 1, "PCIe sent", func(w *window) cell { return cell{text: rate(w.pcieTransmit)} }},
	{"rx/s", 4, 1, "received", func(w *window) cell { return cell{text: rate(w.pcieReceive)} }},
	{"xid", 3, 0, "", func(w *window) cell { return cell{count(w.xids), alarming(w.xids, colorAlarm)} }},
	{"seen", 4, 0, "share of window observed", func(w *window) cell {
		return cell{percent(w.coverage), partial(w.coverage)}
	}},
}

// leavesLast is the highest of the columns' leaves.
const leavesLast = 3

// print writes what one request says.
func (t *table) print(r request) error {
	var b strings.Builder
	for _, s := range r.scrapes {
		t.scrape(&b, s)
	}
	if len(r.windows) > 0 {
		t.windows(&b, r.windows)
	}
	if b.Len() == 0 {
		return nil
	}
	_, err := io.WriteString(t.out, b.String())
	return err
}

// scrape writes a line when scrapes begin to fail, and when they work again.
func (t *table) scrape(b *strings.Builder, s scrape) {
	if s.works != t.failing[s.url] {
		return
	}
	said := t.paint("scrape fails", colorAlarm)
	if s.works {
		// Only failing exporters are remembered: pods come and go.
		delete(t.failing, s.url)
		said = "scrape works again"
	} else {
		if t.failing == nil {
			t.failing = map[string]bool{}
		}
		t.failing[s.url] = true
	}
	fmt.Fprintf(b, "%s %s: %s\n", s.at.In(t.zone).Format(time.TimeOnly), s.url, said)
}

// windows writes one line per window, a blank line before each further window
// and, where it is due, the header.
func (t *table) windows(b *strings.Builder, windows []*window) {
	first := t.end.IsZero()
	moved := t.arrange(windows)
	if first {
		t.legend(b)
	}
	for _, w := range windows {
		next := !w.end.Equal(t.end)
		if next && !t.end.IsZero() {
			b.WriteByte('\n')
		}
		// A header is repeated between windows only, so that a window stays in one
		// block, and at once when the columns have to move.
		if moved || (next && t.untilHeader <= 0) {
			t.header(b)
			t.untilHeader, moved = headerEvery, false
		}
		t.line(b, w)
		t.untilHeader--
		t.end = w.end
	}
}

// arrange makes room for the devices of windows and says whether columns moved.
func (t *table) arrange(windows []*window) bool {
	for _, w := range windows {
		if t.node == "" {
			t.node = w.node
		}
		t.manyNodes = t.manyNodes || w.node != t.node
	}
	width := max(t.deviceWidth, len("device"))
	for _, w := range windows {
		width = max(width, utf8.RuneCountInString(t.name(w)))
	}
	if width == t.deviceWidth {
		return false
	}
	t.deviceWidth = width
	t.shown = columns
	for level := 1; level <= leavesLast && t.holderWidth() < minHolder; level++ {
		t.shown = slices.DeleteFunc(slices.Clone(t.shown), func(c column) bool { return c.leaves == level })
	}
	return true
}

// holderWidth is the room that the other columns leave for holders.
func (t *table) holderWidth() int {
	used := len(time.TimeOnly) + 1 + t.deviceWidth + len("  ")
	for _, c := range t.shown {
		used += 1 + c.width
	}
	return t.width - used
}

// legend explains the headings, and names the node that device names leave out.
func (t *table) legend(b *strings.Builder) {
	var parts []string
	if t.node != "" && !t.manyNodes {
		parts = append(parts, "Node "+t.node+".")
	}
	for _, c := range t.shown {
		if c.legend != "" {
			parts = append(parts, c.heading+" = "+c.legend+",")
		}
	}
	parts = append(parts, absent+" = not observed.")
	var line string
	for word := range strings.FieldsSeq(strings.Join(parts, " ")) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > t.width {
			fmt.Fprintln(b, t.paint(line, colorFaint))
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	fmt.Fprintln(b, t.paint(line, colorFaint))
}

func (t *table) header(b *strings.Builder) {
	var line strings.Builder
	fmt.Fprintf(&line, "%-*s %-*s", len(time.TimeOnly), "until", t.deviceWidth, "device")
	for _, c := range t.shown {
		fmt.Fprintf(&line, " %*s", c.width, c.heading)
	}
	line.WriteString("  holder")
	b.WriteString(t.paint(line.String(), colorHeader))
	b.WriteByte('\n')
}

func (t *table) line(b *strings.Builder, w *window) {
	fmt.Fprintf(b, "%s %-*s", w.end.In(t.zone).Format(time.TimeOnly), t.deviceWidth, t.name(w))
	room := t.holderWidth()
	for _, c := range t.shown {
		got := c.cell(w)
		pad := c.width - utf8.RuneCountInString(got.text)
		b.WriteByte(' ')
		b.WriteString(strings.Repeat(" ", max(0, pad)))
		b.WriteString(t.paint(got.text, got.color))
		// What a wide cell takes, the holder lacks.
		room += min(0, pad)
	}
	b.WriteString("  ")
	b.WriteString(w.holders(room))
	b.WriteByte('\n')
}

func (t *table) paint(text, color string) string {
	if !t.color || color == "" {
		return text
	}
	return color + text + colorReset
}

// name is the device, and its node where there are several.
func (t *table) name(w *window) string {
	if !t.manyNodes || w.node == "" {
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

// holders is the first holder and the number of the others, in room characters.
func (w *window) holders(room int) string {
	if len(w.holder) == 0 {
		return absent
	}
	others := ""
	if n := len(w.holder) - 1; n > 0 {
		others = fmt.Sprintf(" +%d", n)
	}
	return shorten(w.holder[0], room-len(others)) + others
}

// shorten leaves out the container, then the namespace, then the end of the
// name: whatever a holder of more than room characters can best do without.
func shorten(holder string, room int) string {
	if parts := strings.Split(holder, "/"); len(parts) == 3 {
		if utf8.RuneCountInString(holder) > room {
			holder = parts[0] + "/" + parts[1]
		}
		if utf8.RuneCountInString(holder) > room {
			holder = parts[1]
		}
	}
	if runes := []rune(holder); len(runes) > room {
		return string(runes[:max(0, room-1)]) + "…"
	}
	return holder
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
