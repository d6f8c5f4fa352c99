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

// results are the contents of the results file, which has one line per scale, contestant, and
// measure. The tables and the plot in the documentation are generated only from this file.
type results map[resultKey]float64

type resultKey struct{ scale, contestant, measure string }

// resultsHeader is the first line of the file.
const resultsHeader = "# Written by make bench-compare; the tables and the plot of RESULTS.md are made from it.\n"

// readResults reads a results file. If the file does not exist, readResults returns empty results.
func readResults(file string) (results, error) {
	r := results{}
	content, err := os.ReadFile(file) //nolint:gosec // the user chooses the directory
	if os.IsNotExist(err) {
		return r, nil
	} else if err != nil {
		return nil, err
	}
	lines := csv.NewReader(bytes.NewReader(content))
	lines.Comma, lines.Comment, lines.FieldsPerRecord = '\t', '#', 4
	rows, err := lines.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: each line must have four fields: %w", file, err)
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

// write writes the results to a file. The lines are sorted, so their order does not depend on the
// order of the runs.
func (r results) write(file string) error {
	var b strings.Builder
	b.WriteString(resultsHeader)
	for _, k := range slices.SortedFunc(maps.Keys(r), func(a, b resultKey) int { return strings.Compare(a.line(), b.line()) }) {
		fmt.Fprintf(&b, "%s\t%s\n", k.line(), cell(r[k]))
	}
	return os.WriteFile(file, []byte(b.String()), 0o644) //nolint:gosec // everyone may read the results
}

func (k resultKey) line() string { return k.scale + "\t" + k.contestant + "\t" + k.measure }

// The set method replaces a contestant's results at the given scale. Values that were not measured
// are omitted.
func (r results) set(scale, contestant string, of map[string]float64) {
	maps.DeleteFunc(r, func(k resultKey, _ float64) bool { return k.scale == scale && k.contestant == contestant })
	for measure, v := range of {
		if v != 0 {
			r[resultKey{scale, contestant, measure}] = v
		}
	}
}

// scaleOf returns the results at the given scale, in the order of contestants. If a contestant has
// no results, its entry is nil.
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
