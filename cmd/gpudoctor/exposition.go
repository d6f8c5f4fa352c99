package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/diagnose"
	"github.com/otelcol-gpu/otelcol-gpu/internal/exposition"
)

// commentForm matches a HELP or TYPE line.
var commentForm = regexp.MustCompile(`^\s*#\s*(HELP|TYPE)\s+([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(.*?)\s*$`)

// skippedLines contains the number of parsed and skipped lines in an exposition.
type skippedLines struct {
	first, count int // Number of the first unreadable line (from 1), and the count of unreadable lines.
	samples      int // Lines that were parsed.
	hami         int // Parsed lines from HAMi's vGPU monitor.
}

// read parses exposition text into e, line by line, as the collector does. Unreadable lines are
// counted and skipped. Unlike the collector, read returns an error if a line is longer than
// exposition.MaxLine.
func read(r io.Reader, e *diagnose.Exposition) (skippedLines, error) {
	var u skippedLines
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, exposition.MaxLine)
	n := 0
	for lines.Scan() {
		n++
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		if line[0] == '#' {
			if m := commentForm.FindSubmatch(line); m != nil {
				e.Declare(string(m[1]), string(m[2]), string(m[3]))
			}
			continue
		}
		sample, _, ok := exposition.ReadLine(line)
		if !ok {
			if u.count++; u.count == 1 {
				u.first = n
			}
			continue
		}
		u.samples++
		if slices.Contains(sample.Labels, diagnose.Label{Name: "zone", Value: "vGPU"}) {
			u.hami++
		}
		e.Add(sample.Name, sample.Labels, sample.Value)
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return u, fmt.Errorf("line %d is longer than %d KiB", n+1, exposition.MaxLine>>10)
	}
	return u, lines.Err()
}
