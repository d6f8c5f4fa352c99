package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The document function replaces the lines between these markers in RESULTS.md.
const (
	tableBegins = "<!-- bench-compare writes from here -->\n"
	fleetBegins = "<!-- bench-compare writes fleets from here -->\n"
	tableEnds   = "<!-- to here -->\n"
)

// A results directory contains the results, a plot, and a page. The plot and parts of the page are
// generated from the results.
const (
	resultsFile = "results.tsv"
	plotFile    = "results.svg"
	pageFile    = "RESULTS.md"
)

// keep adds the measurements for a scale to the results in a directory.
func keep(dir string, s scale, measured []*figures) error {
	return revise(dir, func(r results) {
		for i, f := range measured {
			if f != nil {
				r.set(s.name, contestants[i].name, f.byKey())
			}
		}
	})
}

// revise changes the results in a directory and regenerates the plot and the page.
func revise(dir string, with func(results)) error {
	file := filepath.Join(dir, resultsFile)
	r, err := readResults(file)
	if err != nil {
		return err
	}
	with(r)
	if err := r.write(file); err != nil {
		return err
	}
	return document(dir)
}

// document regenerates the plot and the page's tables from the results in a directory.
func document(dir string) error {
	r, err := readResults(filepath.Join(dir, resultsFile))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, plotFile), []byte(plot(r)), 0o644); err != nil { //nolint:gosec // everyone may read the page
		return err
	}
	page := filepath.Join(dir, pageFile)
	content, err := os.ReadFile(page) //nolint:gosec // the user chooses the directory
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
	return os.WriteFile(page, []byte(text), 0o644) //nolint:gosec // everyone may read the page
}
