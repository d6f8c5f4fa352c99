package exposition

import (
	"bytes"
	"math"
	"strings"
)

// Line is one parsed sample line.
type Line struct {
	// Name is the metric's name, as the exporter exposes it.
	Name string
	// Labels contains the labels in the order in which they appear in the line. The values are
	// decoded and valid UTF-8. If the line repeats a label name, Labels contains only the first
	// label with that name.
	Labels []Label
	Value  float64
}

// ReadLine parses a single sample line without its newline. Use ReadLine instead of a [Parser] if
// each body is read only once. If the line cannot be parsed, ReadLine returns the reason and false.
func ReadLine(line []byte) (out Line, reason Reason, ok bool) {
	if len(line) > MaxLine {
		return out, ReasonLineTooLong, false
	}
	line = trim(line)
	r, spans, reason, ok := readLine(line, nil)
	if !ok {
		return out, reason, false
	}
	if reason, ok = r.withinLimits(spans); !ok {
		return out, reason, false
	}
	labels := firstOfEach(decode(string(line), 0, spans))
	return Line{Name: string(line[:r.nameEnd]), Labels: labels, Value: r.value}, 0, true
}

// trim removes leading spaces and tabs and a trailing carriage return.
func trim(line []byte) []byte {
	line = bytes.TrimSuffix(line, []byte{'\r'})
	return line[skipBlanks(line, 0):]
}

// reading is the result of parsing a sample line. Positions are byte offsets from the start of the
// line.
type reading struct {
	nameEnd int     // The metric name is line[:nameEnd].
	textEnd int     // The series text is line[:textEnd], including braces.
	value   float64 // The sample's value.
	at      float64 // The timestamp in the line, in milliseconds since the epoch, or NaN.
}

// withinLimits reports whether the number of labels, the names, and the values in a line are within
// the limits. If a limit is exceeded, withinLimits returns the reason and false.
func (r *reading) withinLimits(spans []labelSpan) (reason Reason, ok bool) {
	if len(spans) > MaxLabels {
		return ReasonTooManyLabels, false
	}
	ok = r.nameEnd <= MaxName
	for i := range spans {
		s := &spans[i]
		ok = ok && s.nameEnd-s.nameStart <= MaxName && s.valueEnd-s.valueStart <= MaxLabelValue
	}
	return ReasonLabelTooLong, ok
}

// labelSpan contains the positions of a label's name and value in a line. The position of the value
// excludes the quotes.
type labelSpan struct {
	nameStart, nameEnd   int
	valueStart, valueEnd int
	escaped              bool // the label was parsed with the strict grammar, and its value contains a backslash
}

// readLine parses a sample line without leading spaces and without the newline. readLine reuses the
// memory of spans if it is large enough for the label positions. If the line cannot be parsed,
// readLine returns the reason and false.
func readLine(line []byte, spans []labelSpan) (r reading, _ []labelSpan, reason Reason, ok bool) {
	spans = spans[:0]
	r.nameEnd = nameLen(line, true)
	if r.nameEnd == 0 {
		return r, spans, ReasonSyntax, false
	}
	open := skipBlanks(line, r.nameEnd)
	if open == len(line) || (open == r.nameEnd && line[open] != '{') {
		return r, spans, ReasonSyntax, false
	}
	if line[open] != '{' {
		r.textEnd = r.nameEnd
		r.value, r.at, ok = readRest(line[open:])
		return r, spans, ReasonValue, ok
	}
	reason = ReasonSyntax
	if spans, r.textEnd, ok = strictLabels(line, open+1, spans); ok {
		if r.value, r.at, ok = readRest(line[r.textEnd:]); ok {
			return r, spans, 0, true
		}
		reason = ReasonValue
	}
	if spans, r.textEnd, ok = tolerantLabels(line, open+1, spans[:0]); ok {
		r.value, r.at, _ = readRest(line[r.textEnd:])
		return r, spans, 0, true
	}
	return r, spans[:0], reason, false
}

// strictLabels uses the strict grammar to parse the labels from line[i:] through the closing brace.
// The second result is the offset after the closing brace.
func strictLabels(line []byte, i int, spans []labelSpan) (_ []labelSpan, end int, ok bool) {
	for {
		i = skipBlanks(line, i)
		if i < len(line) && line[i] == '}' {
			return spans, i + 1, true
		}
		var s labelSpan
		if s, ok = labelStart(line, i); !ok {
			return spans, 0, false
		}
		i = s.valueStart
		for {
			j := bytes.IndexAny(line[i:], `"\`)
			if j < 0 {
				return spans, 0, false
			}
			i += j
			if line[i] == '"' {
				break
			}
			s.escaped = true
			if i += 2; i > len(line) {
				return spans, 0, false
			}
		}
		s.valueEnd = i
		spans = append(spans, s)
		i = skipBlanks(line, i+1)
		switch {
		case i < len(line) && line[i] == ',':
			i++
		case i < len(line) && line[i] == '}':
			return spans, i + 1, true
		default:
			return spans, 0, false
		}
	}
}

// tolerantLabels uses the tolerant grammar to parse the labels. A closing brace ends the labels
// only if it is followed by a sample value.
func tolerantLabels(line []byte, i int, spans []labelSpan) (_ []labelSpan, end int, ok bool) {
	s, ok := labelStart(line, skipBlanks(line, i))
	for ok {
		i = s.valueStart
		for {
			j := bytes.IndexByte(line[i:], '"')
			if j < 0 {
				return spans, 0, false
			}
			s.valueEnd = i + j
			i = s.valueEnd + 1
			if end, ok := closing(line, i); ok {
				return append(spans, s), end, true
			}
			k := skipBlanks(line, i)
			if k == len(line) || line[k] != ',' {
				continue
			}
			if end, ok := closing(line, k+1); ok {
				return append(spans, s), end, true
			}
			if next, ok := labelStart(line, skipBlanks(line, k+1)); ok {
				spans = append(spans, s)
				s = next
				break
			}
		}
	}
	return spans, 0, false
}

// The closing function reports whether line[i:] starts with a closing brace that is followed by a
// value. Spaces before the closing brace are allowed. The first result is the offset after the
// closing brace.
func closing(line []byte, i int) (end int, ok bool) {
	i = skipBlanks(line, i)
	if i == len(line) || line[i] != '}' {
		return 0, false
	}
	_, _, ok = readRest(line[i+1:])
	return i + 1, ok
}

// labelStart parses a label name that starts at i, the equals sign, and the opening quote.
func labelStart(line []byte, i int) (s labelSpan, ok bool) {
	s.nameStart = i
	s.nameEnd = i + nameLen(line[i:], false)
	if s.nameEnd == i {
		return s, false
	}
	i = skipBlanks(line, s.nameEnd)
	if i == len(line) || line[i] != '=' {
		return s, false
	}
	i = skipBlanks(line, i+1)
	if i == len(line) || line[i] != '"' {
		return s, false
	}
	s.valueStart = i + 1
	return s, true
}

// decode returns the labels at the given spans, which contain offsets into a line. The text
// parameter is the part of the line that begins at the offset start. Labels share memory with the
// text unless they had to be decoded.
func decode(text string, start int, spans []labelSpan) []Label {
	labels := make([]Label, len(spans))
	for i, sp := range spans {
		value := text[sp.valueStart-start : sp.valueEnd-start]
		if sp.escaped {
			value = unescape(value)
		}
		labels[i] = Label{
			Name:  text[sp.nameStart-start : sp.nameEnd-start],
			Value: strings.ToValidUTF8(value, "\uFFFD"),
		}
	}
	return labels
}

// readRest parses the text after a series: a value and an optional timestamp. If there is no
// timestamp, readRest returns NaN as the timestamp. Exemplars and other comments are ignored.
func readRest(b []byte) (value, at float64, ok bool) {
	token, b := nextToken(b)
	if value, ok = parseValue(token); !ok {
		return 0, 0, false
	}
	token, b = nextToken(b)
	at = math.NaN()
	if len(token) > 0 && token[0] != '#' {
		if at, ok = parseValue(token); !ok || math.IsNaN(at) || math.IsInf(at, 0) {
			return 0, 0, false
		}
		token, _ = nextToken(b)
	}
	return value, at, len(token) == 0 || token[0] == '#'
}

// nextToken returns the first run of bytes in b that are not spaces or tabs. A quote also ends a
// token, because neither numbers nor types contain quotes. Because tokens end at quotes, the
// tolerant grammar does not search the entire rest of the line after each quote in an unescaped
// value, so parsing takes linear time.
func nextToken(b []byte) (token, rest []byte) {
	start := skipBlanks(b, 0)
	end := start
	for end < len(b) && !isBlank(b[end]) && b[end] != '"' {
		end++
	}
	return b[start:end], b[end:]
}

// typeLine parses the text after the # of a comment line. If the comment is a valid TYPE line
// whose metric name is not too long, the last result is true.
func typeLine(comment []byte) (name []byte, counter, ok bool) {
	keyword, rest := nextToken(comment)
	if string(keyword) != "TYPE" {
		return nil, false, false
	}
	name, rest = nextToken(rest)
	kind, _ := nextToken(rest)
	if len(kind) == 0 || len(name) == 0 || len(name) > MaxName || nameLen(name, true) != len(name) {
		return nil, false, false
	}
	return name, string(kind) == "counter", true
}

// nameLen returns the length of the metric or label name at the start of b, or 0 if b does not
// start with a name. Only metric names may contain colons, so callers set the colon parameter to
// true for metric names and to false for label names.
func nameLen(b []byte, colon bool) int {
	i := 0
	for i < len(b) {
		c := b[i]
		switch {
		case c|0x20 >= 'a' && c|0x20 <= 'z', c == '_':
		case c >= '0' && c <= '9' && i > 0:
		case c == ':' && colon:
		default:
			return i
		}
		i++
	}
	return i
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// skipBlanks returns the offset of the first byte at or after i that is neither a space nor a tab,
// or the length of b if there is no such byte.
func skipBlanks(b []byte, i int) int {
	for i < len(b) && isBlank(b[i]) {
		i++
	}
	return i
}

// unescape decodes the three escape sequences of the text format. A backslash before any other byte
// is kept.
func unescape(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			switch s[i+1] {
			case '\\', '"':
				i++
			case 'n':
				b.WriteByte('\n')
				i++
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
