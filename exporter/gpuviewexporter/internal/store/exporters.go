package store

import (
	"cmp"
	"slices"
	"strings"
)

type exporterKey struct{ cluster, node, url string }

// Exporter is the state of one exporter, from gpu.exporter.up.
type Exporter struct {
	// Cluster and Node are empty where the receiver does not know them.
	Cluster, Node string
	// URL is the scraped endpoint.
	URL string
	// Up says whether it answers, Since is the first scrape that had this outcome
	// and At the last one, in Unix nanoseconds.
	Up        bool
	Since, At int64
}

// report takes in whether an exporter answered. Only a change is worth a patch: the
// rest waits for the next one.
func (b *Batch) report(place *Place, p *Point) Outcome {
	if p.Attribute == "" {
		return Ignored
	}
	b.s.heard = max(b.s.heard, p.End)
	key := exporterKey{place.Cluster, place.Node, p.Attribute}
	up := p.Value > 0
	e := b.s.exporters[key]
	switch {
	case e == nil:
		if len(b.s.exporters) >= maxExporters {
			b.s.forgetExporters(b.now)
		}
		if len(b.s.exporters) >= maxExporters {
			return b.refuse(ExporterLimit)
		}
		key = exporterKey{strings.Clone(key.cluster), strings.Clone(key.node), strings.Clone(key.url)}
		b.s.exporters[key] = &Exporter{Cluster: key.cluster, Node: key.node, URL: key.url, Up: up, Since: p.End, At: p.End}
		b.changed = true
	case p.End <= e.At:
	case up != e.Up:
		e.Up, e.Since, e.At = up, p.End, p.End
		b.changed = true
	default:
		e.At = p.End
	}
	return Accepted
}

// Ended forgets what a metric said of a place: it was said with a point without a value
// that nothing more comes, as of an exporter that another one replaces. Series of devices
// end by time instead.
func (b *Batch) Ended(place *Place, m *Metric, attribute string) {
	key := exporterKey{place.Cluster, place.Node, attribute}
	if _, known := b.s.exporters[key]; known && m.kind == reported {
		delete(b.s.exporters, key)
		b.changed = true
	}
}

// forgetExporters forgets exporters that nothing was heard of for a while: nobody
// scrapes them any more.
func (s *Store) forgetExporters(now int64) {
	for key, e := range s.exporters {
		if now-e.At > s.stale() {
			delete(s.exporters, key)
		}
	}
}

// Exporters returns the exporters of which something was heard of late, by place
// and URL.
func (v *View) Exporters() []Exporter {
	var out []Exporter
	for _, e := range v.s.exporters {
		if v.Now-e.At <= v.s.stale() {
			out = append(out, *e)
		}
	}
	slices.SortFunc(out, func(a, b Exporter) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Node, b.Node), cmp.Compare(a.URL, b.URL))
	})
	return out
}

// Heard returns when something was last heard of any exporter, in Unix nanoseconds;
// 0 where gpu.exporter.up never came.
func (v *View) Heard() int64 { return v.s.heard }
