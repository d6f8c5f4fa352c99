package main

import (
	"bufio"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// procs matches the GOMAXPROCS suffix that go test appends to a benchmark's name.
var procs = regexp.MustCompile(`-\d+$`)

// figures maps a benchmark's name and unit to the values from all runs.
type figures map[string][]float64

func key(name, unit string) string { return name + " " + unit }

// read parses the output of go test -bench for one or more packages.
func read(r io.Reader) (figures, error) {
	found, pkg := figures{}, ""
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := lines.Text()
		if name, ok := strings.CutPrefix(line, "pkg: "); ok {
			pkg = path.Base(name)
			continue
		}
		fields := strings.Fields(line)
		// A line consists of a name, the number of iterations, and value-unit pairs.
		if len(fields) < 4 || len(fields)%2 != 0 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		name := pkg + "." + procs.ReplaceAllString(fields[0], "")
		for i := 2; i < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", line, err)
			}
			k := key(name, fields[i+1])
			found[k] = append(found[k], value)
		}
	}
	return found, lines.Err()
}

// median returns the median over all runs, or false if the benchmark did not run.
func (f figures) median(name, unit string) (float64, bool) {
	runs := slices.Sorted(slices.Values(f[key(name, unit)]))
	if len(runs) == 0 {
		return 0, false
	}
	middle := len(runs) / 2
	if len(runs)%2 == 0 {
		return (runs[middle-1] + runs[middle]) / 2, true
	}
	return runs[middle], true
}

// tables returns Markdown tables that contain the rows whose benchmarks ran.
func tables(f figures) string {
	var b strings.Builder
	head := "\n| compared with a peer in the same run | unit | ours | peer | ratio | target |\n|---|---|--:|--:|--:|---|\n"
	for _, m := range comparisons {
		ours, okOurs := f.median(m.ours, m.unit)
		peer, okPeer := f.median(m.peer, m.unit)
		common, okBoth := 0.0, true
		if m.both != "" {
			common, okBoth = f.median(m.both, m.unit)
		}
		ours, peer = ours-common, peer-common
		if !okOurs || !okPeer || !okBoth || peer <= 0 {
			continue
		}
		ratio, target := ours/peer, ""
		if m.most > 0 {
			target = verdict("1/"+number(1/m.most), ratio <= m.most)
		}
		fmt.Fprintf(&b, "%s| %s | %s | %s | %s | %s | %s |\n", head, m.what, m.unit, number(ours), number(peer), fraction(ratio), target)
		head = ""
	}
	head = "\n| alone | unit | median | lowest | highest | target |\n|---|---|--:|--:|--:|---|\n"
	for _, m := range alones {
		value, ok := f.median(m.of, m.unit)
		if !ok {
			continue
		}
		runs, target := f[key(m.of, m.unit)], ""
		if m.most >= 0 {
			// A value that is displayed as 0 meets any target.
			target = verdict(number(m.most), number(value) == "0" || value <= m.most)
		}
		fmt.Fprintf(&b, "%s| %s | %s | %s | %s | %s | %s |\n", head, m.what, m.unit, number(value), number(slices.Min(runs)), number(slices.Max(runs)), target)
		head = ""
	}
	return b.String()
}

func verdict(target string, met bool) string {
	if met {
		return "≤ " + target + ", met"
	}
	return "≤ " + target + ", **missed**"
}

// fraction formats a ratio. A ratio below one is formatted as 1/n.
func fraction(ratio float64) string {
	if ratio > 0 && ratio < 0.95 {
		return "1/" + number(1/ratio)
	}
	return number(ratio)
}

// The number function formats a value with about three significant digits.
func number(v float64) string {
	decimals := 0
	switch {
	case v == float64(int64(v)):
	case v < 10:
		decimals = 2
	case v < 100:
		decimals = 1
	}
	s := strconv.FormatFloat(v, 'f', decimals, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}
