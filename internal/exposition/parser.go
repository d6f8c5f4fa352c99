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
	// MaxLine is the longest line that is read, in bytes. Longer ones are
	// skipped. It has room for MaxLabels labels of a pod, at 380 bytes each.
	MaxLine = 256 << 10

	// MaxName is the longest name of a metric or a label, in bytes. A label of a
	// pod has 317 at most, and exporters put a prefix before it.
	MaxName = 512

	// MaxLabelValue is the longest value of a label, in bytes before it is
	// decoded. Labels are repeated on every point of a device, and backends
	// refuse longer ones. A line with a longer name or value is skipped: without
	// that label it could be taken for another series.
	MaxLabelValue = 2048

	// MaxLabels is how many labels a series may have. Exporters that copy all pod
	// labels come to some dozens.
	MaxLabels = 512

	// MaxItems bounds what one body may hold: lines with a sample, labels of
	// distinct label sets and TYPE declarations together. A node with 8 GPUs in 56 MIG
	// instances and every DCGM field needs less than a tenth of it.
	MaxItems = 1 << 18
)

// Parser reads the successive bodies of one endpoint. It is not safe for
// concurrent use. The zero value is not usable: see NewParser.
type Parser struct {
	scrape   Scrape
	maxItems int
	// from and to are the first and the last time that is honored, in milliseconds since the
	// epoch; to is 0 where none is.
	from, to float64

	generation uint32
	touched    int // cache entries that the current body uses
	first      series

	seeds   [2]maphash.Seed
	texts   map[uint64]*series
	size    int // series texts, twins included
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

// forget empties the cache.
func (p *Parser) forget() {
	p.texts, p.size = map[uint64]*series{}, 0
	p.metrics = map[string]*Metric{}
	p.sets = map[setKey]*LabelSet{}
	p.first.next = nil
}

// CacheSize is the number of series texts that the parser remembers.
func (p *Parser) CacheSize() int { return p.size }

// HonorTimestamps makes the times that lines give their samples those of the samples, in bodies
// that are read from now on. Lines with another time than between the two are skipped. Without
// it times are read over.
func (p *Parser) HonorTimestamps(from, to time.Time) {
	p.from, p.to = float64(from.UnixMilli()), float64(to.UnixMilli())
}

// Parse reads a body. The result is a function of the body alone: what earlier
// bodies left in the cache only makes it faster. It does not keep body.
func (p *Parser) Parse(body []byte) *Scrape {
	p.begin()
	p.lines(&p.first, body)
	return p.end()
}

// Read reads a body while it arrives, some 64 KiB at a time, with the same result as Parse. An
// error of r other than io.EOF is returned instead of the body. Then the cache is cleared, so that
// incomplete bodies cannot grow it.
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
		p.abandon()
		p.scrape.TooLarge = true
		return &p.scrape
	}
	p.sweep()
	return &p.scrape
}

// abandon drops the current body and clears all state of this and earlier bodies.
func (p *Parser) abandon() {
	p.forget()
	p.scrape = Scrape{}
	p.spans, p.sorted, p.buf = nil, nil, nil
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
	name, tail := s.metric.Name, s.tail()
	i := len(name)
	j := i + len(tail)
	if len(b) <= j || string(b[:i]) != name || string(b[i:j]) != tail || !isBlank(b[j]) {
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

// honors reports whether a sample may have this timestamp of its own; NaN means that it has none.
func (p *Parser) honors(at float64) bool {
	return p.to == 0 || math.IsNaN(at) || at >= p.from && at <= p.to
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
