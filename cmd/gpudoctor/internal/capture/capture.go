// Package capture creates a recording of an exporter's output that users can share. In a recording,
// device IDs and the names of pods, hosts, and jobs are replaced. Values of public labels, numbers
// of at most four digits, and the chip's number in the ID of a TPU are not replaced.
package capture

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/exporters"
	"github.com/otelcol-gpu/otelcol-gpu/internal/exposition"
)

// The namespaces of reservation pods are not replaced, because the diagnosis depends on them:
// reservation pods hold no device.
var meaningful = map[string]bool{"kai-resource-reservation": true, "runai-reservation": true}

var (
	// labelName matches a label name that does not have to be quoted.
	labelName = regexp.MustCompile(`^[a-zA-Z_]\w*$`)
	// number matches a number that is too short to identify anything.
	number = regexp.MustCompile(`^\d{0,4}$`)
	// uuid matches a device ID, with or without a prefix for the kind of device.
	uuid = regexp.MustCompile(`^([A-Z]+-)?[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$`)
)

// Result contains the line counts of a recording.
type Result struct {
	// Samples is the number of sample lines in the recording. Dropped is the number of lines that
	// were omitted, because they cannot be parsed, are longer than exposition.MaxLine, or do not
	// belong to a known exporter. Omitted comments do not count unless they are too long.
	Samples, Dropped int
}

// Anonymize reads an exposition in the Prometheus text format from the in reader, and writes a
// recording to the out writer. The recording contains only the samples of exporters in the catalog,
// with their HELP and TYPE lines. Label values are replaced, unless they describe hardware or
// software. Equal values get equal replacements, so that related lines can still be recognized.
// Sample values, names, and the order of lines do not change.
func Anonymize(out io.Writer, in io.Reader) (Result, error) {
	a := anonymizer{texts: map[string]string{}, counts: map[string]int{}}
	var r Result
	w := bufio.NewWriter(out)
	lines := exposition.NewLineReader(in)
	for {
		text, err := lines.Next()
		switch {
		case errors.Is(err, io.EOF):
			return r, w.Flush()
		case errors.Is(err, exposition.ErrLineTooLong):
			r.Dropped++
			continue
		case err != nil:
			return r, fmt.Errorf("after %d samples: %w", r.Samples, err)
		}
		line := strings.TrimSuffix(string(text), "\r")
		if strings.HasPrefix(line, "#") {
			if fields := strings.Fields(line); len(fields) > 2 && (fields[1] == "HELP" || fields[1] == "TYPE") && exporterOf(fields[2]) != nil {
				fmt.Fprintln(w, line)
			}
			continue
		}
		if strings.TrimSpace(line) == "" {
			continue
		}
		anonymous, ok := a.line(line)
		if !ok {
			r.Dropped++
			continue
		}
		r.Samples++
		fmt.Fprintln(w, anonymous)
	}
}

// exporterOf returns the exporter in the catalog that exposes a metric, or nil if there is none.
func exporterOf(name string) *catalogue.Exporter {
	_, of := exporters.Lookup(name)
	return of
}

type anonymizer struct {
	texts  map[string]string // Replacements by original value.
	counts map[string]int    // Number of replacements for each prefix.
}

// line returns a sample line in which the label values have been replaced. The Boolean result is
// false if the line cannot be parsed or does not belong to a known exporter.
func (a *anonymizer) line(line string) (string, bool) {
	if _, _, ok := exposition.ReadLine([]byte(strings.TrimSpace(line))); !ok {
		return "", false
	}
	end := strings.IndexAny(line, "{ \t")
	if end <= 0 {
		return "", false
	}
	of := exporterOf(line[:end])
	if of == nil {
		return "", false
	}
	if line[end] != '{' {
		value, ok := valueAndTime(line[end:])
		return line[:end] + value, ok
	}
	var b strings.Builder
	b.WriteString(line[:end+1])
	rest := line[end+1:]
	var names []string // the lowercase names of the labels so far
	for first := true; ; first = false {
		rest = strings.TrimLeft(rest, " \t,")
		if strings.HasPrefix(rest, "}") {
			value, ok := valueAndTime(rest[1:])
			b.WriteString("}" + value)
			return b.String(), ok
		}
		name, value, after, ok := label(rest)
		if !ok {
			return "", false
		}
		if !first {
			b.WriteByte(',')
		}
		// The labels of other exporters are not public, because a pod label can have the same name.
		// If a name is repeated, the second label is a pod label.
		lower := strings.ToLower(name)
		if !slices.Contains(of.PublicLabels, lower) || slices.Contains(names, lower) {
			value = a.replaced(name, value)
		}
		b.WriteString(name + `="` + value + `"`)
		names = append(names, lower)
		rest = after
	}
}

// valueAndTime returns the value and the timestamp from the end of a sample line, and omits an
// exemplar. The Boolean result is false if the text contains anything else. A label value that is
// not escaped may contain a brace, so the text may be the rest of a label.
func valueAndTime(text string) (string, bool) {
	text, _, _ = strings.Cut(text, "#")
	text = strings.TrimRight(text, " \t")
	for number := range strings.FieldsSeq(text) {
		if _, err := strconv.ParseFloat(number, 64); err != nil && !errors.Is(err, strconv.ErrRange) {
			return "", false
		}
	}
	return text, true
}

// label parses the label name="value" at the start of text. Escape sequences in the value are kept.
func label(text string) (name, value, after string, ok bool) {
	name, rest, found := strings.Cut(text, "=")
	name, rest = strings.TrimSpace(name), strings.TrimLeft(rest, " \t")
	if !found || !labelName.MatchString(name) || !strings.HasPrefix(rest, `"`) {
		return "", "", "", false
	}
	for i := 1; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case '"':
			return name, rest[1:i], rest[i+1:], true
		}
	}
	return "", "", "", false
}

// replaced returns the replacement for the value of a label that is not public.
func (a *anonymizer) replaced(name, value string) string {
	if number.MatchString(value) || meaningful[value] {
		return value
	}
	if name == "accelerator_id" { // the ID of a TPU consists of the machine's ID, a dash, and the chip's number
		if dash := strings.LastIndexByte(value, '-'); dash > 0 && number.MatchString(value[dash+1:]) {
			return a.replacement(name, value[:dash]) + value[dash:]
		}
	}
	return a.replacement(name, value)
}

// replacement returns the text that replaces every occurrence of a value. The name parameter is the
// name of a label with the value.
func (a *anonymizer) replacement(name, value string) string {
	if text, ok := a.texts[value]; ok {
		return text
	}
	var text string
	if m := uuid.FindStringSubmatch(value); m != nil {
		a.counts[m[1]]++
		text = fmt.Sprintf("%s00000000-0000-0000-0000-%012d", m[1], a.counts[m[1]])
	} else {
		// The value was probably the name of a Kubernetes object. The replacement must therefore be
		// a valid object name.
		of := strings.ReplaceAll(strings.ToLower(name), "_", "-")
		a.counts[of]++
		text = fmt.Sprintf("%s-%d", of, a.counts[of])
	}
	a.texts[value] = text
	return text
}
