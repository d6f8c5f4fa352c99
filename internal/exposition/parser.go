package exposition

import (
	"bytes"
	"errors"
	"hash/maphash"
	"io"
	"math"
	"time"
)

const (
	// MaxLine is the maximum length of a line in bytes. Longer lines are skipped. A line with the
	// maximum number of pod labels (MaxLabels) of 380 bytes each is within this limit.
	MaxLine = 256 << 10

	// MaxName is the maximum length of a metric or label name in bytes. The key of a pod label is
	// at most 317 bytes long, and exporters add a prefix to it.
	MaxName = 512

	// MaxLabelValue is the maximum length of a label value in bytes, before decoding. Labels are
	// repeated on every data point of a device, and backends reject longer label values. If a line
	// contains a longer value, the parser skips the entire line, because without the label, the
	// line could be mistaken for another series.
	MaxLabelValue = 2048

	// MaxLabels is the maximum number of labels per series. Exporters that copy all pod labels need
	// a few dozen.
	MaxLabels = 512

	// MaxItems is the maximum size of a body: the number of sample lines, plus the labels of
	// distinct label sets, plus the distinct names in TYPE lines. The body for a node with 8
	// GPUs, 56 MIG instances, and all DCGM fields has less than a tenth of this size.
	MaxItems = 1 << 18
)

// Parser parses consecutive bodies from one endpoint. Parser is not safe for concurrent use. Use
// NewParser to create a Parser; the zero value does not work.
type Parser struct {
	scrape   Scrape
	maxItems int
	// Honored timestamps must be in the range [from, to], in milliseconds since the epoch. If
	// timestamps are ignored, the upper bound is 0.
	from, to float64

	generation uint32
	touched    int // Number of cache entries that the current body has used.
	first      series

	seeds   [2]maphash.Seed
	texts   map[uint64]*series
	size    int // Number of series texts, including twins.
	metrics map[string]*Metric
	sets    map[setKey]*LabelSet

	spans  []labelSpan
	sorted []Label
	buf    []byte
}

// NewParser returns a parser with an empty cache.
func NewParser() *Parser {
	p := &Parser{maxItems: MaxItems, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
	p.forget()
	return p
}

func (p *Parser) forget() {
	p.texts, p.size = map[uint64]*series{}, 0
	p.metrics = map[string]*Metric{}
	p.sets = map[setKey]*LabelSet{}
	p.first.next = nil
}

// CacheSize returns the number of series texts in the cache.
func (p *Parser) CacheSize() int { return p.size }

// HonorTimestamps makes the parser use the timestamps in the following bodies as sample times, and
// skip lines whose timestamp is not between the given limits. By default, timestamps are ignored.
func (p *Parser) HonorTimestamps(from, to time.Time) {
	p.from, p.to = float64(from.UnixMilli()), float64(to.UnixMilli())
}

// Parse parses a body and does not retain it. The returned scrape depends only on the body, except
// that the order of a set's labels is the order in which the set was first exposed. Otherwise, the
// cache affects only the speed of Parse.
func (p *Parser) Parse(body []byte) *Scrape {
	p.begin()
	p.lines(&p.first, body)
	return p.end()
}

// Read parses a body in chunks of about 64 KiB while the body arrives. The returned scrape is the
// same as from Parse. If reading from r fails with an error other than io.EOF, Read returns that
// error and no scrape, and clears the cache, so that incomplete bodies cannot grow the cache.
func (p *Parser) Read(r io.Reader) (*Scrape, error) {
	p.begin()
	c := newChunk()
	defer c.release()
	for last := &p.first; !p.scrape.TooLarge; {
		lines, err := c.fill(r)
		if err != nil && !errors.Is(err, io.EOF) {
			p.abandon()
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

// The lines method parses the lines in a part of a body. The parameter named last is the last
// series before that part. The result is the last series through the end of that part. Skipped
// lines do not count.
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

// The end method finishes parsing the current body and returns the scrape.
func (p *Parser) end() *Scrape {
	if p.scrape.TooLarge {
		p.abandon()
		p.scrape.TooLarge = true
		return &p.scrape
	}
	p.sweep()
	return &p.scrape
}

func (p *Parser) abandon() {
	p.forget()
	p.scrape = Scrape{}
	p.spans, p.sorted, p.buf = nil, nil, nil
}

// begin prepares the parser for a new body.
func (p *Parser) begin() {
	p.generation++
	p.touched = 0
	clear(p.scrape.Sets)
	p.scrape = Scrape{Sets: p.scrape.Sets[:0]}
	for _, m := range p.metrics {
		m.Counter = false
	}
}

// If the line at the start of b consists of the text of the series s, spaces or tabs, and a value,
// match parses the line. The second result is the length of the line including the newline, or 0 if
// the line does not match.
func (s *series) match(b []byte) (v float64, n int) {
	name, tail := s.metric.Name, s.tail()
	i := len(name)
	j := i + len(tail)
	if len(b) <= j || string(b[:i]) != name || string(b[i:j]) != tail || !isBlank(b[j]) {
		return 0, 0
	}
	j = skipBlanks(b, j+1)
	n = j
	for n < len(b) && b[n] > ' ' { // Find the end of the value.
		n++
	}
	switch v, ok := parseValue(b[j:n]); {
	case !ok || n > MaxLine:
		return 0, 0
	case n == len(b):
		return v, n
	case b[n] == '\n':
		return v, n + 1
	}
	return 0, 0
}

// The line method parses one line without its newline. If the line adds a sample to the scrape, the
// result is the sample's series.
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
	var value, at float64
	known := false
	if s != nil {
		value, at, known = readRest(line[end:])
	}
	if !known {
		r, spans, reason, ok := readLine(line, p.spans)
		p.spans = spans
		if !ok {
			p.scrape.Skipped[reason]++
			return nil
		}
		if reason, ok = r.withinLimits(spans); !ok {
			p.scrape.Skipped[reason]++
			return nil
		}
		value, at = r.value, r.at
		if !p.honors(at) {
			p.scrape.Skipped[ReasonTimestamp]++
			return nil
		}
		if s = p.lookup(line[:r.textEnd]); s == nil {
			s = p.intern(line, r)
		}
	}
	if !p.honors(at) {
		p.scrape.Skipped[ReasonTimestamp]++
		return nil
	}
	if !p.add(s, value) {
		return nil
	}
	if set := s.set; p.to != 0 && !math.IsNaN(at) {
		set.Times = append(set.Times, make([]int64, len(set.Samples)-len(set.Times))...)
		set.Times[len(set.Times)-1] = int64(at) * int64(time.Millisecond)
	}
	return s
}

// The honors method reports whether a timestamp is acceptable. If timestamps are ignored or the
// line has no timestamp (NaN), the result is true.
func (p *Parser) honors(at float64) bool {
	return p.to == 0 || math.IsNaN(at) || at >= p.from && at <= p.to
}

// likelyEnd returns the offset at which a line's series probably ends: after the last closing brace
// or, if there is no brace, before the first space or tab. If the cache contains the text before
// the returned offset, the offset is always correct, because values and timestamps do not contain
// braces, and because parsing stops at a comment. Therefore, text that was parsed as a series in
// one line is a series in every line in which the text extends to the last brace.
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

// The comment method parses a comment line. If the line is a TYPE line, the method records the
// declared type.
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

// The count method adds n to the number of items in the body.
func (p *Parser) count(n int) {
	p.scrape.items += n
	if p.scrape.items > p.maxItems {
		p.scrape.TooLarge = true
	}
}

// add adds a sample to the scrape unless the body already contains a sample of the same series.
func (p *Parser) add(s *series, value float64) bool {
	c := s.canonical()
	p.touch(s)
	p.touch(c)
	p.count(1)
	if c.sampled == p.generation {
		p.scrape.Skipped[ReasonDuplicateSeries]++
		return false
	}
	c.sampled = p.generation
	set := c.set
	if set.seen != p.generation {
		set.seen = p.generation
		set.Samples, set.Times = set.Samples[:0], set.Times[:0]
		p.scrape.Sets = append(p.scrape.Sets, set)
		p.count(len(set.Labels))
	}
	set.Samples = append(set.Samples, Sample{Metric: c.metric, Value: value})
	p.scrape.Samples++
	return true
}

func (p *Parser) touch(s *series) {
	if s.seen != p.generation {
		s.seen = p.generation
		p.touched++
	}
}
