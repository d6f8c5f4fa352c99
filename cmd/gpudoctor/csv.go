package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/otelcol-gpu/otelcol-gpu/internal/diagnose"
	"github.com/otelcol-gpu/otelcol-gpu/internal/exposition"
)

// dcgmPrefix is the prefix of all field names in dcgm-exporter's CSV file.
const dcgmPrefix = "DCGM_"

// writeCSV writes a complete CSV file for dcgm-exporter. The file has one line for each field that
// the exporter exposes, and one line for each missing field. The file must be complete, because
// dcgm-exporter uses the file instead of its own list.
func (o *options) writeCSV(ctx context.Context, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, o.fetcher.timeout)
	defer cancel()
	text, err := o.fetcher.open(ctx, o.source)
	if err != nil {
		return err
	}
	defer text.Close()
	body, err := io.ReadAll(text)
	if err != nil {
		return err
	}
	var e diagnose.Exposition
	if _, err := read(bytes.NewReader(body), &e); err != nil {
		return err
	}
	lines := exposedLines(body)
	if len(lines) == 0 {
		return errors.New("the response is not from dcgm-exporter; other exporters have no csv")
	}
	advice := e.Report().TurnOn
	fmt.Fprintln(out, "# Exposed now.")
	w := csv.NewWriter(out)
	if err := w.WriteAll(lines); err != nil {
		return err
	}
	for _, group := range []struct {
		title string
		lines []diagnose.Lines
	}{{"Missing.", advice.CSV}, {"Missing, known to dcgm-exporter 4.x and later.", advice.Newer}} {
		if len(group.lines) == 0 {
			continue
		}
		fmt.Fprintln(out, "#", group.title)
		for _, of := range group.lines {
			for _, line := range of.Lines {
				if !slices.ContainsFunc(lines, func(l []string) bool { return strings.HasPrefix(line, l[0]+",") }) {
					fmt.Fprintln(out, line)
				}
			}
		}
	}
	return nil
}

// exposedLines returns a CSV line with name, type and help for each metric in an exposition, and
// for each field that is exposed as a label.
func exposedLines(body []byte) (lines [][]string) {
	at := map[string]int{}
	line := func(name string) []string {
		i, ok := at[name]
		if !ok {
			i = len(lines)
			at[name] = i
			lines = append(lines, []string{name, "gauge", name})
		}
		return lines[i]
	}
	var labels [][]string
	reader := exposition.NewLineReader(bytes.NewReader(body))
	for {
		text, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		text = bytes.TrimSpace(text) // empty if the line is too long
		if m := commentForm.FindSubmatch(text); m != nil {
			if keyword, name, about := string(m[1]), string(m[2]), string(m[3]); strings.HasPrefix(name, dcgmPrefix) {
				if keyword == "HELP" {
					line(name)[2] = about
				} else {
					line(name)[1] = about
				}
			}
			continue
		}
		sample, _, ok := exposition.ReadLine(text)
		if !ok {
			continue
		}
		if strings.HasPrefix(sample.Name, dcgmPrefix) {
			line(sample.Name)
		}
		for _, l := range sample.Labels {
			known := slices.ContainsFunc(labels, func(known []string) bool { return known[0] == l.Name })
			if strings.HasPrefix(l.Name, dcgmPrefix) && !known {
				labels = append(labels, []string{l.Name, "label", l.Name})
			}
		}
	}
	return append(lines, labels...)
}
