package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/otelcol-gpu/otelcol-gpu/cmd/gpudoctor/internal/top"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/dcgm"
	"github.com/otelcol-gpu/otelcol-gpu/internal/diagnose"
)

// kindNames name the kinds of devices in headings, one and several.
var kindNames = map[string][2]string{
	"gpu":          {"GPU", "GPUs"},
	"mig_board":    {"MIG board", "MIG boards"},
	"mig_instance": {"MIG instance", "MIG instances"},
}

// partitionNames are those of vendors other than NVIDIA.
var partitionNames = map[string][2]string{
	"gpu":          {"GPU", "GPUs"},
	"mig_board":    {"board", "boards"},
	"mig_instance": {"partition", "partitions"},
}

func (r *report) kindNames(kind string) [2]string {
	if r.Exporter.Name != dcgm.Exporter.Name {
		return partitionNames[kind]
	}
	return kindNames[kind]
}

// text renders the report for a terminal.
func (r *report) text() string {
	var b strings.Builder
	r.head(&b)
	r.table(&b)
	r.xids(&b)
	r.turnOn(&b)
	r.warnings(&b)
	r.verdict(&b)
	return b.String()
}

// head says what was read.
func (r *report) head(b *strings.Builder) {
	fmt.Fprintf(b, "%s\n", top.Printable(r.Source))
	models := []string{}
	kinds := map[string]int{}
	for _, d := range r.Devices {
		kinds[d.Kind]++
		if d.Model != "" && !slices.Contains(models, d.Model) {
			models = append(models, d.Model)
		}
	}
	var devices []string
	for _, k := range []string{"gpu", "mig_board", "mig_instance"} {
		if kinds[k] > 0 {
			devices = append(devices, plural(kinds[k], r.kindNames(k)))
		}
	}
	line := strings.Join(devices, ", ")
	if len(models) > 0 {
		line += " (" + top.Printable(strings.Join(models, ", ")) + ")"
	}
	if r.Exporter.Driver != "" {
		line += ", driver " + top.Printable(r.Exporter.Driver)
	}
	switch {
	case r.Exporter.Version != "":
		line += ", by its text " + r.Exporter.Name + " " + r.Exporter.Version
	case r.Exporter.Name != dcgm.Exporter.Name:
		line += ", " + r.Exporter.Name
	}
	fmt.Fprintf(b, "%s\n\n", line)
}

func plural(n int, names [2]string) string {
	if n == 1 {
		return "1 " + names[0]
	}
	return fmt.Sprintf("%d %s", n, names[1])
}

// line is one line of the table: parts of one metric with the same verdicts.
type line struct {
	metric string
	parts  []string
	cells  []string
	why    string
}

// table prints which devices give which signal.
func (r *report) table(b *strings.Builder) {
	var lines []line
	heading := line{metric: "signal", why: "why not"}
	elsewhere := false
	var lacks []string // metrics, of which the vendor's exporter gives nothing
	for i := range r.Signals {
		s := &r.Signals[i]
		if r.neverGiven(s.Metric) {
			if !slices.Contains(lacks, s.Metric) {
				lacks = append(lacks, s.Metric)
			}
			continue
		}
		l := line{metric: s.Metric, why: r.why(s)}
		if s.Part != "" {
			l.parts = []string{s.Part}
		}
		for _, k := range s.Kinds {
			if len(lines) == 0 {
				heading.cells = append(heading.cells, r.kindNames(k.Kind)[0])
			}
			l.cells = append(l.cells, cell(k))
			elsewhere = elsewhere || k.Elsewhere > 0
		}
		if n := len(lines); n > 0 && lines[n-1].metric == l.metric && lines[n-1].why == l.why && slices.Equal(lines[n-1].cells, l.cells) {
			lines[n-1].parts = append(lines[n-1].parts, l.parts...)
			continue
		}
		lines = append(lines, l)
	}
	align(b, append([]line{heading}, lines...))
	if elsewhere {
		b.WriteString("- : measured on the board, or on its instances\n")
	}
	b.WriteString("\n")
	if len(lacks) > 0 {
		b.WriteString("This vendor's exporter has none of these\n")
		bullets(b, []string{strings.Join(lacks, ", ")})
		b.WriteString("\n")
	}
}

// neverGiven reports whether the vendor is the only reason why a metric is missing, all of it.
func (r *report) neverGiven(metric string) bool {
	for i := range r.Signals {
		s := &r.Signals[i]
		if s.Metric != metric {
			continue
		}
		given := slices.ContainsFunc(s.Kinds, func(k diagnose.KindCount) bool { return k.Available > 0 })
		if given || len(s.Missing) == 0 || slices.ContainsFunc(s.Missing, func(m diagnose.Missing) bool { return m.Reason != diagnose.Vendor.String() }) {
			return false
		}
	}
	return true
}

// nameWidth is the room for a signal's name, beyond which its parts break.
const nameWidth = 50

// names returns the first column of a line, the parts left out where the line is
// about all of them.
func (l *line) names(all map[string]int) []string {
	if len(l.parts) == all[l.metric] || len(l.parts) == 0 {
		return []string{l.metric}
	}
	text := l.metric + " {"
	var out []string
	for i, p := range l.parts {
		end := ","
		if i == len(l.parts)-1 {
			end = "}"
		}
		switch {
		case i == 0:
		case utf8.RuneCountInString(text)+1+len(p) >= nameWidth:
			out = append(out, text)
			text = strings.Repeat(" ", len(l.metric)+2)
		default:
			text += " "
		}
		text += p + end
	}
	return append(out, text)
}

// align prints lines with their columns below each other.
func align(b *strings.Builder, lines []line) {
	all := map[string]int{}
	for _, l := range lines {
		all[l.metric] += len(l.parts)
	}
	first := 0
	widths := make([]int, len(lines[0].cells))
	for _, l := range lines {
		for _, n := range l.names(all) {
			first = max(first, utf8.RuneCountInString(n))
		}
		for i, c := range l.cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	for _, l := range lines {
		names := l.names(all)
		var text strings.Builder
		fmt.Fprintf(&text, "%-*s", first, names[0])
		for i, c := range l.cells {
			fmt.Fprintf(&text, "  %-*s", widths[i], c)
		}
		b.WriteString(strings.TrimRight(text.String()+"  "+l.why, " ") + "\n")
		for _, n := range names[1:] {
			b.WriteString(n + "\n")
		}
	}
}

// cell says how many devices of a kind give a signal.
func cell(k diagnose.KindCount) string {
	switch {
	case k.Available > 0 && k.Missing == 0:
		return "yes"
	case k.Available > 0:
		return fmt.Sprintf("%d of %d", k.Available, k.Available+k.Missing)
	case k.Missing > 0:
		return "no"
	}
	return "-"
}

// why joins the reasons of one signal. It says the kinds of devices only where
// their reasons differ.
func (r *report) why(s *diagnose.SignalReport) string {
	var texts, kinds []string
	for _, m := range s.Missing {
		text, kind := m.Text, r.kindNames(m.Kind)[0]
		if m.Likely {
			text = "likely " + text
		}
		i := slices.Index(texts, text)
		if i < 0 {
			texts, kinds = append(texts, text), append(kinds, kind)
		} else if kinds[i] != kind {
			kinds[i] += " and " + kind
		}
	}
	for i := range texts {
		if kinds[i] != kinds[0] {
			for i := range texts {
				texts[i] = kinds[i] + ": " + texts[i]
			}
			break
		}
	}
	if s.Optional && len(texts) > 0 {
		return "optional; " + strings.Join(texts, "; ")
	}
	return strings.Join(texts, "; ")
}

// mostDevices is how many devices are named for one error.
const mostDevices = 4

// xids prints the errors that the exporter shows, and what NVIDIA wants after them.
func (r *report) xids(b *strings.Builder) {
	if len(r.XIDs) == 0 {
		return
	}
	fmt.Fprintf(b, "XID errors, by NVIDIA's catalogue of %s\n", dcgm.XIDCatalogueDate)
	var texts []string
	for _, x := range r.XIDs {
		text := fmt.Sprintf("XID %d", x.Code)
		if x.Meaning != "" {
			text += ", " + x.Meaning
		}
		devices := strings.Join(x.Devices[:min(len(x.Devices), mostDevices)], ", ")
		if more := len(x.Devices) - mostDevices; more > 0 {
			devices += fmt.Sprintf(" and %d more", more)
		}
		texts = append(texts, text+" ("+devices+"): "+cmp.Or(x.Advice, "not in the catalogue")+".")
	}
	bullets(b, texts)
	b.WriteString("\n")
}

// turnOn prints what to change.
func (r *report) turnOn(b *strings.Builder) {
	if len(r.TurnOn.CSV)+len(r.TurnOn.Newer)+len(r.TurnOn.Settings) == 0 {
		return
	}
	if r.Complete() {
		b.WriteString("To have more\n")
	} else {
		b.WriteString("To turn these on\n")
	}
	if len(r.TurnOn.CSV)+len(r.TurnOn.Newer) > 0 {
		b.WriteString("\n")
		csv(b, "", r.TurnOn.CSV)
		csv(b, "from dcgm-exporter 4.x on: ", r.TurnOn.Newer)
		b.WriteString("\n")
	}
	bullets(b, r.TurnOn.Settings)
	b.WriteString("\n")
}

// csv prints lines for the exporter's csv under comments that say what they are
// for.
func csv(b *strings.Builder, condition string, groups []diagnose.Lines) {
	for _, group := range groups {
		b.WriteString("# " + condition + group.For)
		if len(group.Feeds) > 0 {
			b.WriteString(", of which " + strings.Join(group.Feeds, ", "))
			if len(group.Feeds) == 1 {
				b.WriteString(" is made")
			} else {
				b.WriteString(" are made")
			}
		}
		b.WriteString("\n" + strings.Join(group.Lines, "\n") + "\n")
	}
}

func (r *report) warnings(b *strings.Builder) {
	if len(r.Warnings) == 0 {
		return
	}
	b.WriteString("Easy to misread\n")
	var texts []string
	for _, w := range r.Warnings {
		texts = append(texts, w.Text)
	}
	bullets(b, texts)
	b.WriteString("\n")
}

// verdict prints the whole in one line.
func (r *report) verdict(b *strings.Builder) {
	there, all := 0, 0
	for i := range r.Signals {
		s := &r.Signals[i]
		if s.Optional {
			continue
		}
		switch {
		case s.CanTurnOn():
			all++
		case slices.ContainsFunc(s.Kinds, func(k diagnose.KindCount) bool { return k.Available > 0 }):
			there++
			all++
		}
	}
	if there == all {
		fmt.Fprintf(b, "All %d signals that these devices can give are there.\n", all)
		return
	}
	fmt.Fprintf(b, "%d of %d signals that these devices can give are there.\n", there, all)
}

// textWidth is the length of a line of running text.
const textWidth = 100

// bullets prints texts as a list, broken into lines.
func bullets(b *strings.Builder, texts []string) {
	for _, text := range texts {
		line := "-"
		for word := range strings.FieldsSeq(top.Printable(text)) {
			if utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > textWidth {
				b.WriteString(line + "\n")
				line = " "
			}
			line += " " + word
		}
		b.WriteString(line + "\n")
	}
}
