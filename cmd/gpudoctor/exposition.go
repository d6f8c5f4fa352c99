package main

import (
	"bytes"
	"errors"
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

// skip counts an unreadable line. The n parameter is the line's number.
func (u *skippedLines) skip(n int) {
	if u.count++; u.count == 1 {
		u.first = n
	}
}

// read parses exposition text into e, line by line, as the collector does. Lines that cannot be
// parsed or are longer than exposition.MaxLine are counted and skipped.
func read(r io.Reader, e *diagnose.Exposition) (skippedLines, error) {
	var u skippedLines
	lines := exposition.NewLineReader(r)
	for n := 1; ; n++ {
		line, err := lines.Next()
		switch {
		case errors.Is(err, io.EOF):
			return u, nil
		case errors.Is(err, exposition.ErrLineTooLong):
			u.skip(n)
			continue
		case err != nil:
			return u, err
		}
		line = bytes.TrimSpace(line)
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
			u.skip(n)
			continue
		}
		u.samples++
		if slices.Contains(sample.Labels, diagnose.Label{Name: "zone", Value: "vGPU"}) {
			u.hami++
		}
		e.Add(sample.Name, sample.Labels, sample.Value)
	}
}
