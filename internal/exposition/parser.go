package exposition

import (
	"bytes"
	"errors"
	"hash/maphash"
	"io"
	"slices"
	"strings"
)

const (
	// MaxLine is the longest line that is read, in bytes. Longer ones are
	// skipped.
	MaxLine = 1 << 20

	// MaxLabels is how many labels a series may have. Exporters that copy all pod
	// labels come to some dozens.
	MaxLabels = 512

	// MaxItems bounds what one body may hold: samples, labels of distinct label
	// sets and TYPE declarations together. A node with 8 GPUs in 56 MIG
	// instances and every DCGM field needs less than a tenth of it.
	MaxItems = 1 << 18

	// sweepSlack is how many entries may be stale before a sweep is considered.
	sweepSlack = 64
)

// Reason says why a line was skipped.
type Reason uint8

const (
	// ReasonSyntax: neither the strict nor the tolerant reading fits the line.
	ReasonSyntax Reason = iota
	// ReasonValue: the series can be read, the value is not a number.
	ReasonValue
	// ReasonDuplicateLabel: a label name occurs twice.
	ReasonDuplicateLabel
	// ReasonDuplicateSeries: an earlier line of the body is of the same series.
	ReasonDuplicateSeries
	// ReasonLineTooLong: the line is longer than MaxLine.
	ReasonLineTooLong
	// ReasonTooManyLabels: the series has more than MaxLabels labels.
	ReasonTooManyLabels

	// NumReasons is the number of reasons.
	NumReasons
)

var reasonNames = [NumReasons]string{
	"syntax", "value", "duplicate_label", "duplicate_series", "line_too_long", "too_many_labels",
}

// String returns the reason as an attribute value.
func (r Reason) String() string { return reasonNames[r] }

// Label is one label as exposed, its value decoded and valid UTF-8.
type Label struct {
	Name, Value string
}

// Metric is a metric name and what the body says about it.
type Metric struct {
	// Name is the name as exposed.
	Name string
	// Counter is true when every TYPE line for the name says counter, and there
	// is one.
	Counter bool

	typed uint64 // generation of the last TYPE line for the name
	mark  uint64 // generation of the last sweep that found it in use
}

// Sample is one value of one metric.
type Sample struct {
	Metric *Metric
	Value  float64
}

// LabelSet is a distinct set of labels with the samples that carry it.
type LabelSet struct {
	// Labels are in the order in which the set was first exposed. They do not
	// change and may be kept.
	Labels []Label
	// Samples are those of the current body, in its order.
	Samples []Sample

	tail string // the braces with all between them, as first exposed
	seen uint64 // generation of the last body that shows the set
	mark uint64 // generation of the last sweep that found it in use
}

// Scrape is what one body holds. It belongs to the parser and is valid until
// its next Parse.
type Scrape struct {
	// Sets are the label sets in the order of their first sample.
	Sets []*LabelSet
	// Samples is the number of samples in all sets.
	Samples int
	// Skipped counts the lines that were not taken over, by Reason. Comments and
	// blank lines are none of these.
	Skipped [NumReasons]int
	// TooLarge says that the body holds more than MaxItems. Then nothing of it is
	// handed on and the cache starts anew.
	TooLarge bool

	items int
}

// BadLines is the number of lines that were skipped for any reason.
func (s *Scrape) BadLines() int {
	n := 0
	for _, c := range s.Skipped {
		n += c
	}
	return n
}

// series is what a series text was read as.
type series struct {
	metric *Metric
	set    *LabelSet
	tail   string // the text after the metric name

	// canonical is the series whose tail is the set's: another text may spell
	// the same series with other blanks or another order of labels.
	canonical *series

	hash    uint64  // of the text
	twin    *series // another series with that hash
	next    *series // the one that followed in the body which last showed this one
	seen    uint64  // generation of the last body that shows the text
	sampled uint64  // generation of the last body with a sample, on canonical series
}

// Parser reads the successive bodies of one endpoint. It is not safe for
// concurrent use. The zero value is not usable: see NewParser.
type Parser struct {
	scrape   Scrape
	maxItems int

	generation uint64
	touched    int // cache entries that the current body uses
	first      series

	seed    maphash.Seed
	texts   map[uint64]*series
	size    int // series texts, twins included
	metrics map[string]*Metric
	sets    map[string]*LabelSet // by sorted names and decoded values

	spans  []labelSpan
	sorted []Label
	buf    []byte
}

// NewParser returns a parser with an empty cache.
func NewParser() *Parser {
	p := &Parser{maxItems: MaxItems, seed: maphash.MakeSeed()}
	p.forget()
	return p
}

// forget empties the cache.
func (p *Parser) forget() {
	p.texts, p.size = map[uint64]*series{}, 0
	p.metrics = map[string]*Metric{}
	p.sets = map[string]*LabelSet{}
	p.first.next = nil
}

// CacheSize is the number of series texts that the parser remembers.
func (p *Parser) CacheSize() int { return p.size }

// Parse reads a body. The result is a function of the body alone: what earlier
// bodies left in the cache only makes it faster. It does not keep body.
func (p *Parser) Parse(body []byte) *Scrape {
	p.begin()
	p.lines(&p.first, body)
	return p.end()
}

// Read reads a body while it comes, some 64 KiB at a time, to the same result as Parse. An
// error of r other than io.EOF is returned, and nothing of the body then.
func (p *Parser) Read(r io.Reader) (*Scrape, error) {
	p.begin()
	c := newChunk()
	defer c.release()
	for last := &p.first; !p.scrape.TooLarge; {
		lines, err := c.fill(r)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if c.tooLong {
			p.scrape.Skipped[ReasonLineTooLong]++
		}
		last = p.lines(last, lines)
		if err != nil {
			break
		}
	}
	return p.end(), nil
}

// lines reads lines that follow the one with the series last, and returns the series of the
// last line that has one.
func (p *Parser) lines(last *series, body []byte) *series {
	sc := &p.scrape
	for len(body) > 0 && !sc.TooLarge {
		if s := last.next; s != nil {
			if v, n := s.match(body); n > 0 {
				p.add(s, v)
				last, body = s, body[n:]
				continue
			}
		}
		line := body
		if i := bytes.IndexByte(body, '\n'); i >= 0 {
			line, body = body[:i], body[i+1:]
		} else {
			body = nil
		}
		if s := p.line(line); s != nil {
			last.next = s
			last = s
		}
	}
	return last
}

// end returns what the body held.
func (p *Parser) end() *Scrape {
	if p.scrape.TooLarge {
		p.forget()
		p.scrape = Scrape{TooLarge: true}
		return &p.scrape
	}
	p.sweep()
	return &p.scrape
}

// begin forgets the last body.
func (p *Parser) begin() {
	p.generation++
	p.touched = 0
	clear(p.scrape.Sets)
	p.scrape = Scrape{Sets: p.scrape.Sets[:0]}
	for _, m := range p.metrics {
		m.Counter = false
	}
}

// match reads the line at the start of b when it is the series s, a blank and a
// plain number; n is the length of the line with its end. n is 0 when the line
// is anything else, or when there is more to it.
func (s *series) match(b []byte) (v float64, n int) {
	name := s.metric.Name
	i := len(name)
	j := i + len(s.tail)
	if len(b) <= j || string(b[:i]) != name || string(b[i:j]) != s.tail || !isBlank(b[j]) {
		return 0, 0
	}
	j = skipBlanks(b, j+1)
	v, width := parseDecimal(b[j:])
	if width == 0 {
		return 0, 0
	}
	n = j + width
	if n > MaxLine {
		return 0, 0
	}
	if n == len(b) {
		return v, n
	}
	if b[n] == '\n' {
		return v, n + 1
	}
	return 0, 0
}

// line reads one line without its newline and returns the series when the line
// gave a sample.
func (p *Parser) line(line []byte) *series {
	if len(line) > MaxLine {
		p.scrape.Skipped[ReasonLineTooLong]++
		return nil
	}
	line = trim(line)
	if len(line) == 0 {
		return nil
	}
	if line[0] == '#' {
		p.comment(line[1:])
		return nil
	}
	end := likelyEnd(line)
	s := p.lookup(line[:end])
	var value float64
	known := false
	if s != nil {
		value, known = readRest(line[end:])
	}
	if !known {
		r, spans, reason, ok := readLine(line, p.spans)
		p.spans = spans
		if !ok {
			p.scrape.Skipped[reason]++
			return nil
		}
		if len(spans) > MaxLabels {
			p.scrape.Skipped[ReasonTooManyLabels]++
			return nil
		}
		value = r.value
		if s = p.lookup(line[:r.textEnd]); s == nil {
			if s, ok = p.intern(line, r); !ok {
				p.scrape.Skipped[ReasonDuplicateLabel]++
				return nil
			}
		}
	}
	if !p.add(s, value) {
		return nil
	}
	return s
}

// likelyEnd returns where the series text of a line most likely ends: behind
// the last closing brace, or before the first blank when there is none. A text
// that ends in the last brace of its line is a series text in all lines or in
// none, because neither value nor timestamp hold a brace and a comment ends the
// search for a value; so a text that was once read can be believed here.
func likelyEnd(line []byte) int {
	for i := len(line); i > 0; i-- {
		if line[i-1] == '}' {
			return i
		}
	}
	i := 0
	for i < len(line) && !isBlank(line[i]) {
		i++
	}
	return i
}

// comment takes note of a TYPE declaration.
func (p *Parser) comment(comment []byte) {
	name, counter, ok := typeLine(comment)
	if !ok {
		return
	}
	m := p.metric(name)
	if m.typed == p.generation {
		m.Counter = m.Counter && counter
		return
	}
	m.typed = p.generation
	m.Counter = counter
	p.touched++
	p.count(1)
}

// count notes that the body holds n more items.
func (p *Parser) count(n int) {
	p.scrape.items += n
	if p.scrape.items > p.maxItems {
		p.scrape.TooLarge = true
	}
}

// add takes over a sample, unless the body had one of that series before.
func (p *Parser) add(s *series, value float64) bool {
	c := s.canonical
	p.touch(s)
	p.touch(c)
	if c.sampled == p.generation {
		p.scrape.Skipped[ReasonDuplicateSeries]++
		return false
	}
	c.sampled = p.generation
	set := c.set
	if set.seen != p.generation {
		set.seen = p.generation
		set.Samples = set.Samples[:0]
		p.scrape.Sets = append(p.scrape.Sets, set)
		p.count(len(set.Labels))
	}
	set.Samples = append(set.Samples, Sample{Metric: c.metric, Value: value})
	p.scrape.Samples++
	p.count(1)
	return true
}

func (p *Parser) touch(s *series) {
	if s.seen != p.generation {
		s.seen = p.generation
		p.touched++
	}
}

// lookup returns the series with that text, nil when it is not known.
func (p *Parser) lookup(text []byte) *series {
	s := p.texts[maphash.Bytes(p.seed, text)]
	for s != nil && !s.is(text) {
		s = s.twin
	}
	return s
}

// is compares the text of the series.
func (s *series) is(text []byte) bool {
	i := len(s.metric.Name)
	return len(text) == i+len(s.tail) && string(text[:i]) == s.metric.Name && string(text[i:]) == s.tail
}

// intern makes the series that a line was read as; ok is false when a label name
// occurs twice in it.
func (p *Parser) intern(line []byte, r reading) (s *series, ok bool) {
	tail := string(line[r.nameEnd:r.textEnd])
	set, ok := p.set(tail, r.nameEnd)
	if !ok {
		return nil, false
	}
	if tail == set.tail {
		tail = set.tail // one copy for all metrics of the set
	}
	m := p.metric(line[:r.nameEnd])
	s = p.remember(m, set, tail)
	if tail != set.tail {
		p.buf = append(append(p.buf[:0], m.Name...), set.tail...)
		if s.canonical = p.lookup(p.buf); s.canonical == nil {
			s.canonical = p.remember(m, set, set.tail)
		}
	}
	return s, true
}

// remember puts a series into the cache, as its own canonical one.
func (p *Parser) remember(m *Metric, set *LabelSet, tail string) *series {
	p.buf = append(append(p.buf[:0], m.Name...), tail...)
	s := &series{metric: m, set: set, tail: tail, hash: maphash.Bytes(p.seed, p.buf)}
	s.canonical = s
	s.twin = p.texts[s.hash]
	p.texts[s.hash] = s
	p.size++
	return s
}

// metric returns the metric with that name, a new one when it is not known.
func (p *Parser) metric(name []byte) *Metric {
	m := p.metrics[string(name)]
	if m == nil {
		m = &Metric{Name: string(name)}
		p.metrics[m.Name] = m
	}
	return m
}

// set returns the label set that p.spans describe, a new one when it is not
// known. The spans are offsets into a line of which tail is the part from
// offset start on. Labels share the memory of tail where nothing had to be
// decoded.
func (p *Parser) set(tail string, start int) (set *LabelSet, ok bool) {
	labels := decode(tail, start, p.spans)
	p.sorted = append(p.sorted[:0], labels...)
	defer clear(p.sorted)
	slices.SortFunc(p.sorted, func(a, b Label) int { return strings.Compare(a.Name, b.Name) })
	p.buf = p.buf[:0]
	for i, l := range p.sorted {
		if i > 0 && l.Name == p.sorted[i-1].Name {
			return nil, false
		}
		// 0xFF is in no label name and no valid UTF-8: the key is unambiguous.
		p.buf = append(append(p.buf, l.Name...), 0xFF)
		p.buf = append(append(p.buf, l.Value...), 0xFF)
	}
	if set = p.sets[string(p.buf)]; set == nil {
		set = &LabelSet{Labels: labels, tail: tail}
		p.sets[string(p.buf)] = set
	}
	return set, true
}

// sweep drops what neither the current body nor the one before it used, when
// that may be more than half of the cache. The maps are built anew, because a
// map that was large once stays large. A sweep follows at least as many new
// entries as it keeps, or finds nothing to drop.
func (p *Parser) sweep() {
	if p.size+len(p.metrics) <= 2*p.touched+sweepSlack {
		return
	}
	oldest := p.generation - 1
	kept := 0
	for _, s := range p.texts {
		for ; s != nil; s = s.twin {
			if s.seen >= oldest {
				s.metric.mark = p.generation
				s.set.mark = p.generation
				kept++
			}
		}
	}
	texts := make(map[uint64]*series, kept)
	for _, s := range p.texts {
		for s != nil {
			twin := s.twin
			if s.seen >= oldest {
				if s.next != nil && s.next.seen < oldest {
					s.next = nil
				}
				s.twin = texts[s.hash]
				texts[s.hash] = s
			}
			s = twin
		}
	}
	if p.first.next != nil && p.first.next.seen < oldest {
		p.first.next = nil
	}
	metrics := map[string]*Metric{}
	for name, m := range p.metrics {
		if m.mark == p.generation || m.typed >= oldest {
			metrics[name] = m
		}
	}
	sets := map[string]*LabelSet{}
	for key, set := range p.sets {
		if set.mark == p.generation {
			sets[key] = set
		}
	}
	p.texts, p.size, p.metrics, p.sets = texts, kept, metrics, sets
}
