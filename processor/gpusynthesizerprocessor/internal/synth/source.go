package synth

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/exporters"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

const (
	// unknownInterval is how long a source is considered present after its first scrape. Values of
	// other sources that are older than unknownInterval are not compared with the rows of
	// containers.
	unknownInterval = int64(90 * time.Second)
	// Unless a source is reported as ended, it is considered gone only if it has had no data for
	// longer than minHold.
	minHold = int64(5 * time.Second)
	// settling is the time after a board's first sample during which a new source with a higher
	// rank may still take over the board. This period is needed because receivers start at random
	// times.
	settling = int64(2 * time.Minute)
	// A source that has not been scraped for maxSilence is considered gone, regardless of its
	// sample times.
	maxSilence = 5 * time.Minute
	// After a new source takes over, its counters may be lower than those of the previous source
	// until catchUp has passed, because exporters repeat values that they read earlier.
	catchUp = int64(2 * time.Minute)
)

// Source is the origin of rows or samples: the endpoint of an exporter, or a receiver that creates
// samples itself.
type Source struct {
	id string
	// ready is true if the source sends finished samples instead of rows. Any exporter has priority
	// over a source that sends finished samples.
	ready bool
	// endpoint is true if a receiver of this project scraped the source.
	endpoint atomic.Bool
	// ended is true if the source was reported as gone. The flag is reset when the source appears
	// again.
	ended atomic.Bool
	// arrived is the arrival time of the last batch that named the source, according to the
	// Synthesizer's own clock.
	arrived atomic.Int64
	// proven is true once the source has exposed a device.
	proven atomic.Bool
	// users is the number of current batches that named the source before it was proven. The
	// sources.mu lock guards this number.
	users int
}

// sources contains the sources of all nodes, because one Prometheus server may relay rows from many
// nodes.
type sources struct {
	mu   sync.Mutex
	byID map[string]*Source
}

// Source returns the source with the given name for the current batch. The name determines the rank
// of the source and appears in log messages. If the name is empty, Source returns nil.
func (b *Batch) Source(id string, ready bool) *Source {
	if id == "" {
		return nil
	}
	b.sources.mu.Lock()
	defer b.sources.mu.Unlock()
	src := b.sources.byID[id]
	if src == nil {
		src = &Source{id: id, ready: ready}
		b.sources.byID[id] = src
	}
	src.arrived.Store(int64(b.arrived))
	if !src.proven.Load() && !slices.Contains(b.unproven, src) {
		src.users++
		b.unproven = append(b.unproven, src)
	}
	return src
}

// forgetUnproven removes the sources of the batch that exposed no device. In a shared pipeline,
// every Resource has a source, even a Resource without GPU metrics.
func (b *Batch) forgetUnproven() {
	b.sources.mu.Lock()
	defer b.sources.mu.Unlock()
	for _, src := range b.unproven {
		if src.users--; src.users == 0 && !src.proven.Load() {
			delete(b.sources.byID, src.id)
		}
	}
	clear(b.unproven)
	b.unproven = b.unproven[:0]
}

// sweep removes sources that have had no data for longer than idleLimit.
func (s *sources) sweep(arrived time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.byID, func(_ string, src *Source) bool {
		return src.users == 0 && arrived-time.Duration(src.arrived.Load()) > idleLimit
	})
}

// name returns the name of the source, or "" if src is nil.
func (src *Source) name() string {
	if src == nil {
		return ""
	}
	return src.id
}

// Scraped sets the source of all rows in the current batch that have the given sample time and do
// not name their source.
func (b *Batch) Scraped(at int64, src *Source) {
	src.endpoint.Store(true)
	for i := range b.scrapes {
		if b.scrapes[i].at == at && b.scrapes[i].source != src {
			b.scrapes[i].source = nil // the rows of the two sources cannot be distinguished
			return
		}
	}
	b.scrapes = append(b.scrapes, scraped{at, src})
}

type scraped struct {
	at     int64
	source *Source
}

// assignSources sets the source of each row that does not name its source. The source is the one
// that was scraped at the row's sample time.
func (b *Batch) assignSources() {
	if len(b.scrapes) == 0 {
		return
	}
	for i := range b.rows {
		o := &b.rows[i]
		for k := range b.scrapes {
			if o.source == nil && b.scrapes[k].at == o.time {
				o.source = b.scrapes[k].source
			}
		}
	}
	b.scrapes = b.scrapes[:0]
}

// Ended marks a source as gone, so that another exporter can take over immediately. A source that
// sends finished samples does not take over immediately; see the isPresent method.
func (b *Batch) Ended(src *Source) { src.ended.Store(true) }

// Conflict describes a conflict between two sources of the same board.
type Conflict struct {
	Node, Device string
	// Kept and Dropped are the names of the sources.
	Kept, Dropped string
}

// claims contains one claim for each source that exposes a board or its instances. If several
// present sources expose the same series, only the rows of one source are kept, so that a series
// never contains samples from several sources.
type claims struct {
	node, board string
	// list contains the claim of the kept source first, followed by the other claims in the order
	// of their rank.
	list  []claim
	first int64 // Time of the board's first sample.
	// The era number is incremented when the rows of a source are kept even though earlier rows of
	// that source were dropped.
	era      uint32
	switched int64 // Sample time at which the era was last incremented.
	// Last emitted values of counters. Counter values are stored while the board has several
	// sources, and afterward until catchUp has passed.
	counters map[counterKey]float64
	// The named map contains the holders from the last scrape of each source. Holders are stored
	// only if the board has several sources.
	named map[namedBy][]holder
	// memory is the memory size of the board in bytes, or 0 if the size is unknown. The idle field
	// is the newest sample time at which the utilization of the board was 0, and the busy field is
	// the newest sample time at which the utilization was not 0.
	memory     float64
	idle, busy int64
	// byProcess maps each container metric that the board's exporters provide to the newest sample
	// time of that metric.
	byProcess map[*signal.Metric]int64
}

// boardKey identifies a board in the same way as gpu_window: if the node is known, the host is
// ignored.
type boardKey struct{ node, board string }

type counterKey struct {
	device string
	metric *signal.Metric
	own    string
}

// A claim describes the scrapes in which a source exposes a board.
type claim struct {
	source      *Source
	first, last int64 // Sample times of the first and the last scrape.
	interval    int64 // Time between the last two scrapes, or 0 before the second scrape.
	arrived     time.Duration
	// The fields of the last scrape (fields), and of the scrape before it (before).
	fields, before fieldSet
	dropped        bool // The rows of the last scrape were dropped.
}

// fieldSet is a set of fields. Fields that produce the same series are treated as one field.
type fieldSet [(catalogue.MaxFields + 63) / 64]uint64

func (f *fieldSet) add(id catalogue.ID) {
	id = sameSeries[id]
	f[id/64] |= 1 << (id % 64)
}

// sameSeries maps each field to the first field that produces the same series.
var sameSeries = func() (first [catalogue.MaxFields]catalogue.ID) {
	for id := range first {
		first[id] = catalogue.ID(id)
	}
	for _, x := range exporters.All {
		for _, s := range x.AllSignals() {
			fields := slices.Concat(s.Sets...)
			for _, id := range fields {
				one, other := first[fields[0]], first[id]
				for i := range first {
					if first[i] == other {
						first[i] = one
					}
				}
			}
		}
	}
	return first
}()

// claimsOf returns the claims on a board. If the board is new and the limit is reached, the result
// is nil.
func (s *node) claimsOf(node, board string) *claims {
	k := boardKey{node, board}
	c := s.claims[k]
	if c == nil && s.claimed.Take() {
		c = &claims{node: node, board: board}
		s.claims[k] = c
	}
	return c
}

// The claim method records that a source exposed the board at the given sample time, and returns
// the index of the source's claim.
func (c *claims) claim(src *Source, at int64, arrived time.Duration) int {
	src.proven.Store(true)
	i := slices.IndexFunc(c.list, func(x claim) bool { return x.source == src })
	if i < 0 {
		if c.first == 0 {
			c.first = at
		}
		c.list = append(c.list, claim{source: src, first: at})
		if len(c.list) > 2 {
			slices.SortFunc(c.list[1:], rank)
		}
		i = slices.IndexFunc(c.list, func(x claim) bool { return x.source == src })
	}
	if x := &c.list[i]; at != x.last {
		if x.last != 0 && at > x.last {
			x.interval = at - x.last
		}
		x.last, x.arrived = at, arrived
		x.before, x.fields = x.fields, fieldSet{}
		src.ended.Store(false)
	}
	return i
}

// rank compares two sources. The result does not depend on which source appeared first.
func rank(a, b claim) int {
	if a.source.ready != b.source.ready {
		if a.source.ready {
			return 1
		}
		return -1
	}
	return cmp.Compare(a.source.id, b.source.id)
}

// The isPresent method reports whether the claim's source still exposes the board. The by parameter
// is another source, which currently has data. If the other source sends finished samples, a source
// is still considered present after one failed scrape, so that the board does not switch to the
// other source and back.
func (x *claim) isPresent(by *Source, at int64, arrived time.Duration) bool {
	hold := unknownInterval
	if x.interval != 0 {
		hold = max(minHold, x.interval*5/2)
	}
	return (!x.source.ended.Load() || by.ready) && at-x.last <= hold && arrived-x.arrived <= maxSilence
}

// overlaps reports whether two sources expose the same series of a board. Two exporters that expose
// different series complement each other.
func (x *claim) overlaps(y *claim) bool {
	if x.source.ready || y.source.ready {
		return true
	}
	for i := range x.fields {
		if (x.fields[i]|x.before[i])&(y.fields[i]|y.before[i]) != 0 {
			return true
		}
	}
	return false
}

// The keeps method reports whether the board's rows from the source src are kept at the given
// sample time. If the rows are not kept, the second result is the source whose rows are kept
// instead.
func (c *claims) keeps(src *Source, at int64, arrived time.Duration) (bool, *Source) {
	if len(c.list) == 1 && !c.list[0].dropped {
		if c.counters != nil && at-c.switched >= catchUp {
			c.counters = nil
		}
		return true, nil
	}
	c.list = slices.DeleteFunc(c.list, func(x claim) bool {
		return x.source != src && !x.isPresent(src, at, arrived)
	})
	i := slices.IndexFunc(c.list, func(x claim) bool { return x.source == src })
	var rival *claim
	for k := range c.list[:i] {
		if rival == nil && c.list[k].overlaps(&c.list[i]) {
			rival = &c.list[k]
		}
	}
	if rival != nil && c.supersedes(&c.list[i], rival) {
		x := c.list[i]
		c.list = slices.Insert(slices.Delete(c.list, i, i+1), 0, x)
		slices.SortFunc(c.list[1:], rank)
		i, rival = 0, nil
	}
	x := &c.list[i]
	if rival != nil {
		x.dropped = true
		if c.counters == nil {
			c.counters = map[counterKey]float64{}
		}
		return false, rival.source
	}
	if x.dropped {
		x.dropped = false
		c.era++
		c.switched = at
	}
	return true, nil
}

// supersedes reports whether the source x takes over a board from the kept source, which is still
// present. The source x must have a higher rank. In addition, either x must have appeared while the
// board was new, or the kept source must be a source that sends finished samples. The counters of
// both sources must be known: x must have been scraped at least twice, and the kept source must
// have been scraped after the first scrape of x.
func (c *claims) supersedes(x, kept *claim) bool {
	return rank(*x, *kept) < 0 && x.dropped && x.last > x.first && kept.last > x.first &&
		(x.first-c.first < settling || kept.source.ready)
}

// The rises method reports whether a sample of a counter may be emitted. After another source takes
// over the board, the counter must not be lower than the last emitted value until catchUp has
// passed.
func (c *claims) rises(device string, m *signal.Metric, own string, at int64, v float64) bool {
	if c == nil || c.counters == nil || m.Kind != signal.Counter {
		return true
	}
	k := counterKey{device, m, own}
	if before, known := c.counters[k]; known && v < before && at-c.switched < catchUp {
		return false
	}
	c.counters[k] = v
	return true
}

// contend removes the rows of boards whose samples are taken from another source.
func (s *node) contend(rows []observation) []observation {
	src, at := rows[0].source, rows[0].time
	if src == nil {
		return rows
	}
	var last *claims
	i, contested := 0, false
	for k := range rows {
		c := rows[k].row.device.claims
		if c == nil {
			continue
		}
		if c != last {
			i, last = c.claim(src, at, s.arrived), c
			contested = contested || len(c.list) > 1 || c.counters != nil
		}
		c.list[i].fields.add(rows[k].field.ID)
	}
	if !contested {
		return rows
	}
	s.noteHolders(rows)
	last, keep := nil, true
	return slices.DeleteFunc(rows, func(o observation) bool {
		if c := o.row.device.claims; c != last {
			if last, keep = c, true; c != nil {
				keep = s.keep(c, src, at)
			}
		}
		if !keep {
			s.stats.Dropped[DropSecondSource]++
		}
		return !keep
	})
}

// The keep method reports whether the rows of a source are kept. If the rows are not kept, the
// method records a conflict.
func (s *node) keep(c *claims, src *Source, at int64) bool {
	keep, rival := c.keeps(src, at, s.arrived)
	if !keep && s.conflict == nil {
		s.conflict = &Conflict{Node: c.node, Device: c.board, Kept: rival.id, Dropped: src.id}
	}
	return keep
}

// Sample is a finished sample of a device, from a source that sends finished samples.
type Sample struct {
	// Board is the hw.id of the device's board. Device is the hw.id of the device.
	Board, Device string
	Metric        *signal.Metric
	// Own is the value of the metric's first own attribute, or empty if the metric has no own
	// attributes.
	Own   string
	Time  int64
	Value float64
}

// Takes reports whether a sample from another component should be emitted. The sample must be
// dropped if the samples of its board are taken from another source.
func (b *Batch) Takes(src *Source, name string, p Sample) (takes bool) {
	return !b.withNode(name, func(s *node) { takes = s.takes(src, name, p) }) || takes
}

func (s *node) takes(src *Source, name string, p Sample) bool {
	c := s.claimsOf(name, p.Board)
	if c == nil {
		return true
	}
	c.claim(src, p.Time, s.arrived)
	if s.keep(c, src, p.Time) && c.rises(p.Device, p.Metric, p.Own, p.Time, p.Value) {
		return true
	}
	s.stats.Dropped[DropSecondSource]++
	return false
}

// If another source took over the board, followSource resets the baselines of the device's event
// counts and rates, because the counters of the two sources may differ.
func (a *accumulator) followSource() (changed bool) {
	d := a.device
	if d.claims == nil || d.era == d.claims.era {
		return false
	}
	d.era = d.claims.era
	a.prev = 0
	d.xid.source, d.xid.last, d.xid.counts, d.xid.totals, d.xid.hidden = xidNone, 0, nil, nil, nil
	d.counters, d.health.energy = nil, 0
	d.forgetBases()
	return true
}

// sweepClaims removes claims that have had no data for longer than idleLimit.
func (s *node) sweepClaims() {
	used := map[*claims]bool{}
	for _, d := range s.devices {
		used[d.claims] = true
	}
	for k, c := range s.claims {
		c.list = slices.DeleteFunc(c.list, func(x claim) bool { return s.arrived-x.arrived > idleLimit })
		c.forgetHolders()
		if len(c.list) == 0 && !used[c] {
			delete(s.claims, k)
			s.claimed.Free(1)
		}
	}
}
