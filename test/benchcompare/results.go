package main

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
)

// results are figures as the results file has them, a line each: by scale, contestant and
// measure. Tables and plot of the documentation are made of it alone.
type results map[resultKey]float64

type resultKey struct{ scale, contestant, measure string }

// resultsHeader is the first line of the file.
const resultsHeader = "# Written by make bench-compare; the tables and the plot of RESULTS.md are made from it.\n"

// readResults reads a results file; one that does not exist holds nothing.
func readResults(file string) (results, error) {
	r := results{}
	content, err := os.ReadFile(file) //nolint:gosec // the file that was named
	if os.IsNotExist(err) {
		return r, nil
	} else if err != nil {
		return nil, err
	}
	lines := csv.NewReader(bytes.NewReader(content))
	lines.Comma, lines.Comment, lines.FieldsPerRecord = '\t', '#', 4
	rows, err := lines.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s has lines of four fields: %w", file, err)
	}
	for _, fields := range rows {
		v, err := strconv.ParseFloat(fields[3], 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		r[resultKey{fields[0], fields[1], fields[2]}] = v
	}
	return r, nil
}

// write writes the file, in an order that does not depend on that of the runs.
func (r results) write(file string) error {
	var b strings.Builder
	b.WriteString(resultsHeader)
	for _, k := range slices.SortedFunc(maps.Keys(r), func(a, b resultKey) int { return strings.Compare(a.line(), b.line()) }) {
		fmt.Fprintf(&b, "%s\t%s\n", k.line(), cell(r[k]))
	}
	return os.WriteFile(file, []byte(b.String()), 0o644) //nolint:gosec // a file of the documentation
}

func (k resultKey) line() string { return k.scale + "\t" + k.contestant + "\t" + k.measure }

// set replaces what is known of a contestant at a scale; figures that were not measured are left out.
func (r results) set(scale, contestant string, of map[string]float64) {
	maps.DeleteFunc(r, func(k resultKey, _ float64) bool { return k.scale == scale && k.contestant == contestant })
	for measure, v := range of {
		if v != 0 {
			r[resultKey{scale, contestant, measure}] = v
		}
	}
}

// scaleOf returns the contestants' figures at a scale, in their order, nil for one that has none.
func (r results) scaleOf(scale string) []*figures {
	all := make([]*figures, len(contestants))
	for i, c := range contestants {
		for j := range measures {
			if v, ok := r[resultKey{scale, c.name, measures[j].key}]; ok {
				if all[i] == nil {
					all[i] = &figures{}
				}
				*measures[j].of(all[i]) = v
			}
		}
	}
	return all
}
