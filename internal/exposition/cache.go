package exposition

import (
	"hash/maphash"
	"slices"
	"strings"
)

// sweepSlack is the maximum number of stale cache entries that never cause a sweep.
const sweepSlack = 64

// series is a parsed series. The struct is kept small, because a node has thousands of series.
type series struct {
	metric  *Metric
	set     *LabelSet
	variant *variant // Nil if the text after the metric name equals the label set's text.
	twin    *series  // The next series in the list of series whose texts have the same hash.
	next    *series  // The series that most recently followed this series.
	seen    uint32   // Generation of the last body that contained this text or, for a canonical series, any spelling of the series.
	sampled uint32   // Generation of the last body with a sample of this series. Only canonical series use this field.
}

// variant is another spelling of a series: the labels are the same, but the texts differ, for
// example in the order of the labels, in spaces, or in a trailing comma.
type variant struct {
	tail      string
	canonical *series // the series whose text equals the label set's text
}

// tail returns the text after the metric name.
func (s *series) tail() string {
	if s.variant != nil {
		return s.variant.tail
	}
	return s.set.tail
}

// canonical returns the series that represents all spellings of the series s.
func (s *series) canonical() *series {
	if s.variant != nil {
		return s.variant.canonical
	}
	return s
}

// lookup returns the series with the given text, or nil if there is none.
func (p *Parser) lookup(text []byte) *series {
	s := p.texts[p.hash(text)]
	for s != nil && !s.is(text) {
		s = s.twin
	}
	return s
}

// The is method reports whether the series s has the given text.
func (s *series) is(text []byte) bool {
	i, tail := len(s.metric.Name), s.tail()
	return len(text) == i+len(tail) && string(text[:i]) == s.metric.Name && string(text[i:]) == tail
}

// intern adds the series of a parsed line to the cache.
func (p *Parser) intern(line []byte, r reading) *series {
	tail := string(line[r.nameEnd:r.textEnd])
	set := p.set(tail, r.nameEnd)
	m := p.metric(line[:r.nameEnd])
	if tail == set.tail {
		return p.remember(m, set, nil)
	}
	p.buf = append(append(p.buf[:0], m.Name...), set.tail...)
	c := p.lookup(p.buf)
	if c == nil {
		c = p.remember(m, set, nil)
	}
	return p.remember(m, set, &variant{tail, c})
}

func (p *Parser) remember(m *Metric, set *LabelSet, v *variant) *series {
	s := &series{metric: m, set: set, variant: v}
	hash := p.hashOf(s)
	s.twin = p.texts[hash]
	p.texts[hash] = s
	p.size++
	return s
}

func (p *Parser) hash(text []byte) uint64 { return maphash.Bytes(p.seeds[0], text) }

func (p *Parser) hashOf(s *series) uint64 {
	p.buf = append(append(p.buf[:0], s.metric.Name...), s.tail()...)
	return p.hash(p.buf)
}

// setKey is a 128-bit hash of the sorted, decoded labels of a label set. The seeds are random, so
// an attacker cannot construct two sets with the same key.
type setKey [2]uint64

// metric returns the metric with the given name. If the metric does not exist, the metric method
// adds it.
func (p *Parser) metric(name []byte) *Metric {
	m := p.metrics[string(name)]
	if m == nil {
		m = &Metric{Name: string(name)}
		p.metrics[m.Name] = m
	}
	return m
}

// The set method returns the label set whose labels are at the positions in p.spans. If the label
// set does not exist, the set method adds it. The positions are offsets into a line. The tail
// parameter is the part of the line that begins at the offset start. Labels share memory with tail
// unless they had to be decoded.
func (p *Parser) set(tail string, start int) *LabelSet {
	labels := firstOfEach(decode(tail, start, p.spans))
	p.sorted = append(p.sorted[:0], labels...)
	defer clear(p.sorted)
	slices.SortFunc(p.sorted, func(a, b Label) int { return strings.Compare(a.Name, b.Name) })
	p.buf = p.buf[:0]
	for _, l := range p.sorted {
		// Label names and valid UTF-8 never contain the byte 0xFF, so different label sets always
		// result in different bytes.
		p.buf = append(append(p.buf, l.Name...), 0xFF)
		p.buf = append(append(p.buf, l.Value...), 0xFF)
	}
	key := setKey{p.hash(p.buf), maphash.Bytes(p.seeds[1], p.buf)}
	set := p.sets[key]
	if set == nil {
		set = &LabelSet{Labels: labels, tail: tail}
		p.sets[key] = set
	}
	return set
}

// firstOfEach removes repeated labels and keeps the first label with each name. dcgm-exporter
// versions up to 4.8.2 write their own labels before the pod's labels, which may have the same
// names.
func firstOfEach(labels []Label) []Label {
	for i := 1; i < len(labels); i++ {
		if slices.ContainsFunc(labels[:i], func(l Label) bool { return l.Name == labels[i].Name }) {
			labels = slices.Delete(labels, i, i+1)
			i--
		}
	}
	return labels
}

// sweep removes the cache entries that neither the current nor the previous body used, if those
// entries may be more than half of all entries. sweep rebuilds the maps, because Go maps never
// shrink. A sweep keeps at most the entries that two bodies used, so the total cost of all sweeps
// is proportional to the size of the input.
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
				hash := p.hashOf(s)
				s.twin = texts[hash]
				texts[hash] = s
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
	sets := map[setKey]*LabelSet{}
	for key, set := range p.sets {
		if set.mark == p.generation {
			sets[key] = set
		}
	}
	p.texts, p.size, p.metrics, p.sets = texts, kept, metrics, sets
}
