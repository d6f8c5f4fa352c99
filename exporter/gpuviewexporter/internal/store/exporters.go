package store

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	// The result of an exporter is stale after three intervals plus minStaleTime, because points
	// may wait in queues. After only one result, the interval is unknown, and the result is stale
	// after maxUnknownInterval.
	minStaleTime       = int64(15 * time.Second)
	maxUnknownInterval = int64(90 * time.Second)
)

type exporterKey struct{ cluster, node, url string }

// Exporter is the state of one exporter, from gpu.exporter.up.
type Exporter struct {
	// Cluster and Node are empty if the receiver does not know them.
	Cluster, Node string
	// URL is the scraped endpoint.
	URL string
	// Up is whether the exporter answered the last scrape. Since is the first scrape with this
	// result and At the last one, in Unix nanoseconds of the collector's clock.
	Up        bool
	Since, At int64
	// ReceivedAt is when the last result arrived, by the clock of gpu_view.
	ReceivedAt int64
	// Stale is true if gpu.exporter.up no longer arrives, because the exporter is no longer scraped
	// or its samples are lost. It is then unknown whether the exporter answers. OthersAnswer is true if
	// another exporter of the same node answers. [View.Exporters] sets both.
	Stale, OthersAnswer bool
	// interval is the time between the last two scrapes, 0 before the second one.
	interval int64
	outages  []Outage
}

func (e *Exporter) isStale(now int64) bool {
	if e.interval == 0 {
		return now-e.ReceivedAt > maxUnknownInterval
	}
	return now-e.ReceivedAt > 3*e.interval+minStaleTime
}

// report stores whether an exporter answered.
func (b *Batch) report(place *Place, p *Point) Outcome {
	if p.Attribute == "" {
		return Ignored
	}
	b.s.exporterPointAt = max(b.s.exporterPointAt, b.now)
	key := exporterKey{place.Cluster, place.Node, p.Attribute}
	up := p.Value > 0
	e := b.s.exporters[key]
	switch {
	case e == nil:
		if len(b.s.exporters) >= maxExporters {
			b.s.forgetExporters(b.now)
		}
		if len(b.s.exporters) >= maxExporters {
			return b.refuse(exporterLimit)
		}
		key = exporterKey{strings.Clone(key.cluster), strings.Clone(key.node), strings.Clone(key.url)}
		b.s.exporters[key] = &Exporter{Cluster: key.cluster, Node: key.node, URL: key.url, Up: up, Since: p.End, At: p.End, ReceivedAt: b.now}
	case p.End > e.At:
		if up && !e.Up {
			e.outages = append(e.outages[max(0, len(e.outages)-maxRestarts+1):], Outage{e.URL, Time(e.Since), Time(p.End)})
		}
		if up != e.Up {
			e.Up, e.Since = up, p.End
		}
		e.interval, e.At, e.ReceivedAt = p.End-e.At, p.End, b.now
	}
	return Accepted
}

// Ended deletes the state of an exporter after a point without a value, for example when
// another exporter replaces it. Device series end by time instead.
func (b *Batch) Ended(place *Place, m *Metric, attribute string) {
	key := exporterKey{place.Cluster, place.Node, attribute}
	if _, known := b.s.exporters[key]; known && m.metricKind == exporterKind {
		delete(b.s.exporters, key)
	}
}

// forgetExporters deletes exporters without a recent result, because they are no longer
// scraped.
func (s *Store) forgetExporters(now int64) {
	maps.DeleteFunc(s.exporters, func(_ exporterKey, e *Exporter) bool { return now-e.ReceivedAt > s.stale() })
}

// Exporters returns the exporters with a recent result, sorted by place and URL.
func (v *View) Exporters() []Exporter {
	if v.exporters != nil {
		return v.exporters
	}
	v.exporters = []Exporter{}
	answers := map[nodeKey]bool{}
	for _, e := range v.s.exporters {
		if v.Now-e.ReceivedAt > v.s.stale() {
			continue
		}
		one := *e
		one.Stale = e.isStale(v.Now)
		v.exporters = append(v.exporters, one)
		answers[nodeKey{e.Cluster, e.Node}] = answers[nodeKey{e.Cluster, e.Node}] || e.Up && !one.Stale
	}
	slices.SortFunc(v.exporters, func(a, b Exporter) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Node, b.Node), cmp.Compare(a.URL, b.URL))
	})
	for i := range v.exporters {
		e := &v.exporters[i]
		if e.OthersAnswer = answers[nodeKey{e.Cluster, e.Node}]; !e.Up && !e.Stale {
			v.down = append(v.down, e)
		}
	}
	return v.exporters
}

// LastExporterPoint returns when the last gpu.exporter.up of any exporter arrived, in Unix nanoseconds, or 0
// if none did.
func (v *View) LastExporterPoint() int64 { return v.s.exporterPointAt }

// failing returns the exporter whose failure explains why a device of the node has no data, or nil. It
// is an exporter of the node if no other exporter of the node answers, or any exporter if all fail.
func (v *View) failing(cluster, node string) *Exporter {
	all := v.Exporters()
	for _, e := range v.down {
		if e.Node == node && node != "" && (e.Cluster == cluster || e.Cluster == "") && !e.OthersAnswer {
			return e
		}
	}
	if n := len(v.down); n > 0 && n == len(all) {
		return v.down[0]
	}
	return nil
}
