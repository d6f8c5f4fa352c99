package top

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// headerEvery is the number of lines after which the header is repeated. The number of lines is
// about the height of a small terminal.
const headerEvery = 20

// The lines type writes one line for each window of each device, and a line whenever an exporter
// stops responding or starts responding again.
type lines struct {
	out   io.Writer
	zone  *time.Location
	width int // in characters

	started     bool
	manyNodes   bool
	names       int // width of the device names
	columns     []*column
	ends        map[uint64]float64 // End time of the last window that was written for each device.
	untilHeader int                // Number of lines before the next header.
	failing     map[string]bool
}

// Writes the new windows, and reports exporters that have stopped responding or started responding
// again since the last call. The now parameter is the time at which the page was read.
func (l *lines) write(p *page, now time.Time) error {
	var b strings.Builder
	l.exporters(&b, p, now)
	var newWindows []*device
	previous := l.ends
	l.ends = map[uint64]float64{}
	for _, d := range p.Devices {
		l.ends[d.Number] = max(d.End, previous[d.Number])
		if d.End > previous[d.Number] && !bool(d.Lost) {
			newWindows = append(newWindows, d)
		}
	}
	if len(newWindows) > 0 {
		l.windows(&b, p, newWindows)
	}
	_, err := io.WriteString(l.out, b.String())
	return err
}

// Writes a line for each exporter that has stopped responding or started responding again.
func (l *lines) exporters(b *strings.Builder, p *page, now time.Time) {
	failing := map[string]bool{}
	at := now.In(l.zone).Format(time.TimeOnly)
	for _, e := range p.Exporters.Down {
		url := Printable(e.URL)
		failing[url] = true
		if !l.failing[url] {
			fmt.Fprintf(b, "%s %s: scrape fails%s\n", at, url, e.because())
		}
	}
	for url := range l.failing {
		if !failing[url] {
			fmt.Fprintf(b, "%s %s: scrape works again\n", at, url)
		}
	}
	l.failing = failing
}

// Writes one line for each device with a new window. The first call writes the legend before these
// lines, and later calls write a blank line. The header is written if it is due or if the columns
// changed.
func (l *lines) windows(b *strings.Builder, p *page, newWindows []*device) {
	changed := l.arrange(p, newWindows)
	if !l.started {
		l.legend(b, newWindows[0].Node)
	} else {
		b.WriteByte('\n')
	}
	l.started = true
	if changed || l.untilHeader <= 0 {
		fmt.Fprintf(b, "%-*s %-*s", len(time.TimeOnly), "until", l.names, "device")
		for _, c := range l.columns {
			fmt.Fprintf(b, " %*s", c.width, c.heading)
		}
		b.WriteString("  holder\n")
		l.untilHeader = headerEvery
	}
	for _, d := range newWindows {
		l.line(b, d)
		l.untilHeader--
	}
}

// arrange determines the name width and the columns, and reports whether they changed.
func (l *lines) arrange(p *page, newWindows []*device) bool {
	for _, d := range p.Devices {
		l.manyNodes = l.manyNodes || d.Node != newWindows[0].Node
	}
	names := max(l.names, len("device"))
	for _, d := range newWindows {
		names = max(names, utf8.RuneCountInString(l.name(d)))
	}
	fitting := fittingColumns(p.Devices, l.width, len(time.TimeOnly)+1+names)
	changed := names != l.names || !slices.Equal(fitting, l.columns)
	l.names, l.columns = names, fitting
	return changed
}

// name returns the device's name. If the page has several nodes, the name includes the device's
// node.
func (l *lines) name(d *device) string {
	if l.manyNodes && d.Node != "" {
		return d.Node + "/" + d.label()
	}
	return d.label()
}

// legend writes an explanation of the column headings. If the device names do not contain the node,
// the legend starts with the node.
func (l *lines) legend(b *strings.Builder, node string) {
	var parts []string
	if node != "" && !l.manyNodes {
		parts = append(parts, "Node "+node+".")
	}
	for _, c := range l.columns {
		if c.legend != "" {
			parts = append(parts, c.heading+" = "+c.legend+",")
		}
	}
	parts = append(parts, absent+" = not observed.")
	b.WriteString(strings.Join(Wrap(strings.Fields(strings.Join(parts, " ")), l.width, ""), "\n") + "\n")
}

func (l *lines) line(b *strings.Builder, d *device) {
	fmt.Fprintf(b, "%s %-*s", instant(d.End).In(l.zone).Format(time.TimeOnly), l.names, l.name(d))
	holderWidth := l.width - len(time.TimeOnly) - 1 - l.names - totalWidth(l.columns)
	for _, c := range l.columns {
		text := c.text(d)
		fmt.Fprintf(b, " %*s", c.width, text)
		// If a cell is wider than its column, the holder column becomes narrower.
		holderWidth -= max(0, utf8.RuneCountInString(text)-c.width)
	}
	b.WriteString("  " + holdersText(d.holders(false), holderWidth) + "\n")
}
