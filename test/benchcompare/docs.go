package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// What stands between these lines of performance.md is written by document.
const (
	tableBegins = "<!-- bench-compare writes from here -->\n"
	fleetBegins = "<!-- bench-compare writes fleets from here -->\n"
	tableEnds   = "<!-- to here -->\n"
)

// resultsFile has the results, beside the page.
const resultsFile = "performance.tsv"

// keep puts what was measured at a scale into the results of a directory.
func keep(docs string, s scale, measured []*figures) error {
	return revise(docs, func(r results) {
		for i, f := range measured {
			if f != nil {
				r.set(s.name, contestants[i].name, f.byKey())
			}
		}
	})
}

// revise changes the results of a directory, and makes what depends on them anew.
func revise(docs string, with func(results)) error {
	file := filepath.Join(docs, resultsFile)
	r, err := readResults(file)
	if err != nil {
		return err
	}
	with(r)
	if err := r.write(file); err != nil {
		return err
	}
	return document(docs)
}

// document writes the plot of a directory's results and the table in its performance.md.
func document(docs string) error {
	r, err := readResults(filepath.Join(docs, resultsFile))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(docs, "performance.svg"), []byte(plot(r)), 0o644); err != nil { //nolint:gosec // a file of the documentation
		return err
	}
	page := filepath.Join(docs, "performance.md")
	content, err := os.ReadFile(page) //nolint:gosec // the page that was named
	if err != nil {
		return err
	}
	text := string(content)
	for begin, table := range map[string]string{tableBegins: documentation(r), fleetBegins: fleetTable(r)} {
		before, rest, begins := strings.Cut(text, begin)
		_, after, ends := strings.Cut(rest, tableEnds)
		if !begins || !ends {
			return fmt.Errorf("%s lacks the lines %q and %q", page, begin, tableEnds)
		}
		text = before + begin + table + tableEnds + after
	}
	return os.WriteFile(page, []byte(text), 0o644) //nolint:gosec // a file of the documentation
}
