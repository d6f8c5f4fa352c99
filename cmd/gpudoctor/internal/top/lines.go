package top

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// headerEvery is the number of lines after which the next window gets a header again: a
// screenful on a small terminal.
const headerEvery = 20

// lines writes a line per device and window, and a line when an exporter ceases to answer
// or answers again.
type lines struct {
	out   io.Writer
	zone  *time.Location
	width int // characters in a line

	begun       bool
	manyNodes   bool
	names       int // room for devices
	shown       []*column
	ends        map[uint64]float64 // of the window written last, by device
	untilHeader int                // lines that may follow before a window gets a header again
	failing     map[string]bool
}

// write writes the news of a page.
func (l *lines) write(p *page) error {
	var b strings.Builder
	l.exporters(&b, p)
	var news []*device
	before := l.ends
	l.ends = map[uint64]float64{}
	for _, d := range p.Devices {
		l.ends[d.Number] = max(d.End, before[d.Number])
		if d.End > before[d.Number] && !d.lost {
			news = append(news, d)
		}
	}
	if len(news) > 0 {
		slices.SortFunc(news, byPlace)
		l.windows(&b, p, news)
	}
	_, err := io.WriteString(l.out, b.String())
	return err
}

// exporters writes which exporters stopped answering and which answer again.
func (l *lines) exporters(b *strings.Builder, p *page) {
	failing := map[string]bool{}
	at := instant(p.Now).In(l.zone).Format(time.TimeOnly)
	for _, e := range p.Exporters.Down {
		url := Printable(e.URL)
		failing[url] = true
		if !l.failing[url] {
			fmt.Fprintf(b, "%s %s: scrape fails\n", at, url)
		}
	}
	for url := range l.failing {
		if !failing[url] {
			fmt.Fprintf(b, "%s %s: scrape works again\n", at, url)
		}
	}
	l.failing = failing
}

// windows writes a line per device, a blank line before each further window and, where it
// is due, the header.
func (l *lines) windows(b *strings.Builder, p *page, news []*device) {
	moved := l.arrange(p, news)
	if !l.begun {
		l.legend(b, news[0].Node)
	} else {
		b.WriteByte('\n')
	}
	l.begun = true
	if moved || l.untilHeader <= 0 {
		fmt.Fprintf(b, "%-*s %-*s", len(time.TimeOnly), "until", l.names, "device")
		for _, c := range l.shown {
			fmt.Fprintf(b, " %*s", c.width, c.heading)
		}
		b.WriteString("  holder\n")
		l.untilHeader = headerEvery
	}
	for _, d := range news {
		l.line(b, d)
		l.untilHeader--
	}
}

// arrange makes room for the devices and reports whether columns moved.
func (l *lines) arrange(p *page, news []*device) bool {
	for _, d := range p.Devices {
		l.manyNodes = l.manyNodes || d.Node != news[0].Node
	}
	names := max(l.names, len("device"))
	for _, d := range news {
		names = max(names, utf8.RuneCountInString(l.name(d)))
	}
	columns := shown(p.Devices, l.width, len(time.TimeOnly)+1+names)
	moved := names != l.names || !slices.Equal(columns, l.shown)
	l.names, l.shown = names, columns
	return moved
}

// name is the device, and its node where there are several.
func (l *lines) name(d *device) string {
	if l.manyNodes && d.Node != "" {
		return d.Node + "/" + d.label()
	}
	return d.label()
}

// legend explains the headings, and names the node that device names leave out.
func (l *lines) legend(b *strings.Builder, node string) {
	var parts []string
	if node != "" && !l.manyNodes {
		parts = append(parts, "Node "+node+".")
	}
	for _, c := range l.shown {
		if c.legend != "" {
			parts = append(parts, c.heading+" = "+c.legend+",")
		}
	}
	parts = append(parts, absent+" = not observed.")
	b.WriteString(strings.Join(Wrap(strings.Fields(strings.Join(parts, " ")), l.width, ""), "\n") + "\n")
}

func (l *lines) line(b *strings.Builder, d *device) {
	fmt.Fprintf(b, "%s %-*s", instant(d.End).In(l.zone).Format(time.TimeOnly), l.names, l.name(d))
	room := l.width - len(time.TimeOnly) - 1 - l.names - taken(l.shown)
	for _, c := range l.shown {
		text := c.text(d)
		fmt.Fprintf(b, " %*s", c.width, text)
		// What a wide cell takes, the holder lacks.
		room -= max(0, utf8.RuneCountInString(text)-c.width)
	}
	b.WriteString("  " + holdersText(d.holders(false), room) + "\n")
}
