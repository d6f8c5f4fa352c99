package exposition

import (
	"hash/maphash"
	"slices"
	"strings"
)

// sweepSlack is how many entries may be stale before a sweep is considered.
const sweepSlack = 64

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

// set returns the label set that p.spans describe, a new one when it is not known. The spans are
// offsets into a line; tail is its part from offset start on. Labels share the memory of tail
// where nothing had to be decoded.
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
