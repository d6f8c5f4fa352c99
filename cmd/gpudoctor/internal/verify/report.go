package verify

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// Text returns the report as Markdown, for example for a GitHub issue. The report uses the
// operating system's device names, and contains no UUIDs and no serial numbers. If only nvidia-smi
// reports a device, the report uses nvidia-smi's index.
func (r *Report) Text(version string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n", r.title())
	load := "no load"
	if r.Options.Load != nil {
		load = "a load for the last three quarters"
	}
	fmt.Fprintf(&b, "gpudoctor %s, %s, %s every %s, %s.\n", version, r.Begun.UTC().Format(time.RFC3339), r.Options.Duration, r.Options.Interval, load)
	for _, source := range []string{NVML, DCGM, SMI} {
		fmt.Fprintf(&b, "- %s: %d readings\n", source, r.Readings[source])
	}
	for _, p := range r.Problems {
		fmt.Fprintf(&b, "- not read: %s\n", p)
	}

	b.WriteString("\n## Questions\n")
	for _, q := range r.Questions {
		fmt.Fprintf(&b, "- **%s** %s\n", q.Text, q.Verdict)
		for _, e := range q.Evidence {
			fmt.Fprintf(&b, "  - %s\n", r.named(e))
		}
	}

	verdicts := map[Verdict]int{}
	for i := range r.Comparisons {
		verdicts[r.Comparisons[i].Verdict]++
	}
	fmt.Fprintf(&b, "\n## Values\n%d agree, %d differ, %d come from only one source. Gauges are compared by their mean, and counters by their rate.\n\n", verdicts[Agrees], verdicts[Differs], verdicts[Alone])
	if len(r.Comparisons) == 0 {
		return b.String()
	}
	w := tabwriter.NewWriter(&b, 0, 0, 1, ' ', 0)
	fmt.Fprintf(w, "| device \t| value \t| unit \t| %s \t| %s \t| %s \t| verdict \t|\n", NVML, DCGM, SMI)
	fmt.Fprintln(w, "|---\t|---\t|---\t|---\t|---\t|---\t|---\t|")
	for i := range r.Comparisons {
		c := &r.Comparisons[i]
		verdict := string(c.Verdict)
		if c.Verdict == Differs {
			verdict = "**differs** by " + number(c.Apart)
		}
		fmt.Fprintf(w, "| %s \t| %s \t| %s \t| %s \t| %s \t| %s \t| %s \t|\n", r.device(c.Device), c.name(), c.Unit,
			c.figure(NVML), c.figure(DCGM), c.figure(SMI), verdict)
	}
	_ = w.Flush() // writing to a Builder never fails
	return b.String()
}

// title returns a title with the GPU models and driver versions.
func (r *Report) title() string {
	models, drivers := map[string]int{}, map[string]bool{}
	for _, id := range slices.Sorted(maps.Keys(r.Devices)) {
		d := r.Devices[id]
		if !strings.Contains(id, "/") { // a board
			models[cmp.Or(d.Model, "unknown model")]++
		}
		if d.Driver != "" {
			drivers[d.Driver] = true
		}
	}
	var names []string
	for _, model := range slices.Sorted(maps.Keys(models)) {
		names = append(names, fmt.Sprintf("%d × %s", models[model], model))
	}
	if len(names) == 0 {
		return "No GPU"
	}
	title := strings.Join(names, ", ")
	if len(drivers) > 0 {
		title += ", driver " + strings.Join(slices.Sorted(maps.Keys(drivers)), ", ")
	}
	return title
}

// device returns a device's name. The name of an instance consists of the board's name and the
// instance's number.
func (r *Report) device(id string) string {
	board, instance, isInstance := strings.Cut(id, "/")
	name := cmp.Or(r.Devices[id].Name, r.Devices[board].Name, board)
	if isInstance {
		return name + "/" + instance
	}
	return name
}

// Replaces all device IDs in a text with device names.
func (r *Report) named(text string) string {
	ids := slices.Sorted(maps.Keys(r.Devices))
	slices.SortStableFunc(ids, func(a, b string) int { return cmp.Compare(len(b), len(a)) }) // replace longer IDs first, because the ID of an instance begins with the ID of its board
	for _, id := range ids {
		text = strings.ReplaceAll(text, id, r.device(id))
	}
	return text
}

func (c *Comparison) figure(source string) string {
	f, ok := c.Figures[source]
	if !ok {
		return "-"
	}
	return number(f.Value)
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', 5, 64) }
