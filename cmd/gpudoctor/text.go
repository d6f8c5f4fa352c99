package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/otelcol-gpu/otelcol-gpu/cmd/gpudoctor/internal/top"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/dcgm"
	"github.com/otelcol-gpu/otelcol-gpu/internal/diagnose"
)

// kindNames maps kinds of devices to their names in headings. For vendors other than NVIDIA,
// partitionNames is used instead.
var (
	kindNames      = map[string]string{"gpu": "GPU", "mig_board": "MIG board", "mig_instance": "MIG instance"}
	partitionNames = map[string]string{"gpu": "GPU", "mig_board": "board", "mig_instance": "partition"}
)

func (r *report) kindName(kind string) string {
	if r.Exporter.Name != dcgm.Exporter.Name {
		return partitionNames[kind]
	}
	return kindNames[kind]
}

// text renders the report for a terminal.
func (r *report) text() string {
	var b strings.Builder
	r.header(&b)
	r.tables(&b)
	r.xids(&b)
	r.advice(&b)
	var warnings []string
	for _, w := range r.Warnings {
		warnings = append(warnings, w.Text)
	}
	section(&b, "Easy to misread", warnings)
	section(&b, "What gpu_findings can detect", r.findings())
	r.verdict(&b)
	return b.String()
}

// findings returns a description of each gpu_findings rule, and says which signals a rule lacks.
func (r *report) findings() []string {
	var out []string
	for _, f := range r.Findings {
		line := f.Name + ": " + strings.ReplaceAll(f.Condition, "`", "")
		if len(f.Missing) > 0 {
			line += ". Silent without " + strings.Join(f.Missing, ", ")
		}
		out = append(out, line+".")
	}
	return out
}

// header writes the name of the source, and the devices in the source.
func (r *report) header(b *strings.Builder) {
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
			devices = append(devices, top.Counted(kinds[k], r.kindName(k)))
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
		line += ", probably " + r.Exporter.Name + " " + r.Exporter.Version
	case r.Exporter.Name != dcgm.Exporter.Name:
		line += ", " + r.Exporter.Name
	}
	fmt.Fprintf(b, "%s\n\n", line)
}

// line is one line of a table. A line describes those parts of a metric that have the same
// verdicts.
type line struct {
	metric string
	parts  []string
	cells  []string
	why    string
	group  group
}

// group is the table to which a line belongs.
type group int

const (
	groupMissing    group = iota // Signals that can be enabled.
	groupOptional                // Signals that can be enabled but do not count as missing.
	groupImpossible              // Signals that no change to the exporter can enable.
	groupAvailable
	numGroups
)

// headings are the headings of the tables, in the order in which they are printed.
var headings = [numGroups]string{groupMissing: "Missing", groupOptional: "Optional", groupImpossible: "Not possible on these devices", groupAvailable: "Available"}

func groupOf(s *diagnose.SignalReport) group {
	switch {
	case s.CanTurnOn() && s.Optional:
		return groupOptional
	case s.CanTurnOn():
		return groupMissing
	case s.Provided():
		return groupAvailable
	}
	return groupImpossible
}

// The tables method writes tables that show which devices provide which signals. Missing signals
// come first, grouped by reason.
func (r *report) tables(b *strings.Builder) {
	var lines [numGroups][]line
	heading := line{why: "reason"}
	elsewhere := false
	var lacks []string // metrics that the vendor's exporter never provides
	for i := range r.Signals {
		s := &r.Signals[i]
		if r.neverProvided(s.Metric) {
			if !slices.Contains(lacks, s.Metric) {
				lacks = append(lacks, s.Metric)
			}
			continue
		}
		l := line{metric: s.Metric, why: r.why(s), group: groupOf(s)}
		if s.Part != "" {
			l.parts = []string{s.Part}
		}
		for _, k := range s.Kinds {
			if len(heading.cells) < len(s.Kinds) {
				heading.cells = append(heading.cells, r.kindName(k.Kind))
			}
			l.cells = append(l.cells, cell(k))
			elsewhere = elsewhere || k.Elsewhere > 0
		}
		table := &lines[l.group]
		if n := len(*table); n > 0 && (*table)[n-1].metric == l.metric && (*table)[n-1].why == l.why && slices.Equal((*table)[n-1].cells, l.cells) {
			(*table)[n-1].parts = append((*table)[n-1].parts, l.parts...)
			continue
		}
		*table = append(*table, l)
	}
	sortByReason(lines[groupMissing])
	sortByReason(lines[groupOptional])
	sortByReason(lines[groupImpossible])
	align(b, heading, lines, r.parts())
	if elsewhere {
		b.WriteString("- : measured on the board, or on its instances\n\n")
	}
	if len(lacks) > 0 {
		section(b, "Never provided by this vendor's exporter", []string{strings.Join(lacks, ", ")})
	}
}

// sortByReason groups lines by reason, in the order in which the reasons first
// appear.
func sortByReason(lines []line) {
	first := map[string]int{}
	for i, l := range lines {
		if _, seen := first[l.why]; !seen {
			first[l.why] = i
		}
	}
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(first[a.why], first[b.why]) })
}

// parts returns the number of parts of each metric.
func (r *report) parts() map[string]int {
	all := map[string]int{}
	for i := range r.Signals {
		if s := &r.Signals[i]; s.Part != "" {
			all[s.Metric]++
		}
	}
	return all
}

// neverProvided reports whether the vendor's exporter never provides any signal of the metric.
func (r *report) neverProvided(metric string) bool {
	for i := range r.Signals {
		s := &r.Signals[i]
		if s.Metric == metric && !s.NeverProvided {
			return false
		}
	}
	return true
}

// nameWidth is the maximum width of a signal's name. A longer name is split into several rows.
const nameWidth = 50

// names returns the rows of a line's first column. If the line contains all parts of the metric,
// the names of the parts are omitted.
func (l *line) names(all map[string]int) []string {
	if len(l.parts) == all[l.metric] || len(l.parts) == 0 {
		return []string{l.metric}
	}
	words := strings.Fields(l.metric + " {" + strings.Join(l.parts, ", ") + "}")
	return top.Wrap(words, nameWidth, strings.Repeat(" ", len(l.metric)+2))
}

// Writes all tables with the same column widths.
func align(b *strings.Builder, heading line, tables [numGroups][]line, all map[string]int) {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for table, lines := range tables {
		if len(lines) == 0 {
			continue
		}
		fmt.Fprintf(w, "%s\t%s\n", headings[table], strings.Join(append(slices.Clone(heading.cells), heading.why), "\t"))
		for _, l := range lines {
			cells := strings.Join(append(l.cells, l.why), "\t")
			for _, name := range l.names(all) {
				fmt.Fprintf(w, "  %s\t%s\n", name, cells)
				cells = strings.Repeat("\t", len(l.cells)) // rows for further parts have empty cells
			}
		}
	}
	_ = w.Flush() // writing to a Builder cannot fail
	for text := range strings.Lines(text.String()) {
		if !strings.HasPrefix(text, " ") && b.Len() > 0 && !strings.HasSuffix(b.String(), "\n\n") {
			b.WriteString("\n")
		}
		b.WriteString(strings.TrimRight(text, " \n") + "\n")
	}
	b.WriteString("\n")
}

// cell returns how many devices of a kind provide a signal.
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

// Joins the reasons why devices lack a signal. If the reasons differ between kinds of devices, the
// result includes the kinds.
func (r *report) why(s *diagnose.SignalReport) string {
	var texts, kinds []string
	for _, m := range s.Missing {
		text, kind := m.Text, r.kindName(m.Kind)
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
	return strings.Join(texts, "; ")
}

// xids prints the exporter's XID errors with NVIDIA's advice.
func (r *report) xids(b *strings.Builder) {
	var texts []string
	for _, x := range r.XIDs {
		text := fmt.Sprintf("XID %d", x.Code)
		if x.Meaning != "" {
			text += ", " + x.Meaning
		}
		texts = append(texts, text+" ("+diagnose.Some(x.Devices)+"): "+cmp.Or(x.Advice, "not in the catalogue")+".")
	}
	section(b, "XID errors, by NVIDIA's catalogue of "+dcgm.XIDCatalogueDate, texts)
}

// Writes what to change to enable missing signals.
func (r *report) advice(b *strings.Builder) {
	if len(r.TurnOn.CSV)+len(r.TurnOn.Newer)+len(r.TurnOn.Settings) == 0 {
		return
	}
	if r.Complete() {
		b.WriteString("To enable more\n")
	} else {
		b.WriteString("To enable the missing signals\n")
	}
	if len(r.TurnOn.CSV)+len(r.TurnOn.Newer) > 0 {
		b.WriteString("\n")
		printCSV(b, "", r.TurnOn.CSV)
		printCSV(b, "from dcgm-exporter 4.x on: ", r.TurnOn.Newer)
		b.WriteString("\n")
	}
	bullets(b, r.TurnOn.Settings)
	b.WriteString("\n")
}

// printCSV writes lines for the exporter's CSV file. A comment above each group of lines states the
// group's purpose.
func printCSV(b *strings.Builder, condition string, groups []diagnose.Lines) {
	for _, group := range groups {
		b.WriteString("# " + condition + group.For)
		if len(group.Feeds) > 0 {
			b.WriteString(", the source of " + strings.Join(group.Feeds, ", "))
		}
		b.WriteString("\n" + strings.Join(group.Lines, "\n") + "\n")
	}
}

// verdict writes a one-line summary.
func (r *report) verdict(b *strings.Builder) {
	available, all, optional := 0, 0, 0
	for i := range r.Signals {
		switch s := &r.Signals[i]; {
		case s.Optional:
			if s.Provided() || s.CanTurnOn() {
				optional++
			}
		case s.CanTurnOn():
			all++
		case s.Provided():
			available++
			all++
		}
	}
	total := fmt.Sprintf("%d of %d", available, all)
	if available == all {
		total = fmt.Sprintf("All %d", all)
	}
	except := ""
	if optional > 0 {
		except = " (optional ones not counted)"
	}
	fmt.Fprintf(b, "%s signals that these devices can provide are available%s.\n", total, except)
}

// section writes texts as a list under a heading. If there are no texts, section writes nothing.
func section(b *strings.Builder, heading string, texts []string) {
	if len(texts) > 0 {
		b.WriteString(heading + "\n")
		bullets(b, texts)
		b.WriteString("\n")
	}
}

// textWidth is the maximum line width of paragraphs and lists.
const textWidth = 100

// bullets prints texts as a list with line breaks.
func bullets(b *strings.Builder, texts []string) {
	for _, text := range texts {
		lines := top.Wrap(strings.Fields("- "+top.Printable(text)), textWidth, "  ")
		b.WriteString(strings.Join(lines, "\n") + "\n")
	}
}
