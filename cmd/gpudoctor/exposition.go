package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/otelcol-gpu/otelcol-gpu/internal/diagnose"
)

// maxLine bounds one line of an exposition.
const maxLine = 1 << 20

var (
	// sampleForm is a name, labels up to the last brace, a value, and perhaps a
	// timestamp.
	sampleForm = regexp.MustCompile(`^\s*([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(?:\{(.*)\}\s*|\s)\s*([^\s{}"]+)(?:\s+-?\d+)?\s*$`)
	// labelForm is the start of a label.
	labelForm = regexp.MustCompile(`^\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"`)
	// commentForm is a HELP or TYPE line.
	commentForm = regexp.MustCompile(`^\s*#\s*(HELP|TYPE)\s+([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(.*?)\s*$`)
)

// unread says which lines had no reading.
type unread struct {
	first, count int // first counts from 1
	samples      int // lines that had one
}

// read reads exposition text into e. Exporters up to 4.5.3-4.8.2 do not escape
// labels, and some print values that are no numbers, so every line is read on
// its own, and one without a reading is counted and skipped.
func read(r io.Reader, e *diagnose.Exposition) (unread, error) {
	var u unread
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
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
		name, labels, value, ok := sample(string(line))
		if !ok {
			if u.count++; u.count == 1 {
				u.first = n
			}
			continue
		}
		u.samples++
		e.Add(name, labels, value)
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return u, fmt.Errorf("line %d is longer than %d MiB", n+1, maxLine>>20)
	}
	return u, lines.Err()
}

// sample reads one sample line.
func sample(line string) (name string, labels []diagnose.Label, value float64, ok bool) {
	m := sampleForm.FindStringSubmatch(line)
	if m == nil {
		return "", nil, 0, false
	}
	value, err := strconv.ParseFloat(m[3], 64)
	if err != nil && !math.IsInf(value, 0) {
		return "", nil, 0, false
	}
	labels, ok = readLabels(m[2])
	return m[1], labels, value, ok
}

// readLabels reads what stands between the braces. A value ends at the first
// quote after which another label follows, or nothing.
func readLabels(s string) (labels []diagnose.Label, ok bool) {
	for strings.Trim(s, " \t,") != "" {
		m := labelForm.FindStringSubmatch(s)
		if m == nil {
			return nil, false
		}
		s = s[len(m[0]):]
		end := valueEnd(s)
		if end < 0 {
			return nil, false
		}
		labels = append(labels, diagnose.Label{Name: m[1], Value: unescape.Replace(s[:end])})
		s = strings.TrimLeft(s[end+1:], " \t,")
	}
	return labels, true
}

// valueEnd returns the offset of the quote that ends a label's value, -1 when
// there is none.
func valueEnd(s string) int {
	for i := range len(s) {
		if s[i] != '"' {
			continue
		}
		rest := strings.TrimLeft(s[i+1:], " \t")
		after, comma := strings.CutPrefix(rest, ",")
		if strings.TrimLeft(rest, " \t,") == "" || comma && labelForm.MatchString(after) {
			return i
		}
	}
	return -1
}

// unescape decodes the escapes of the text format.
var unescape = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n")
