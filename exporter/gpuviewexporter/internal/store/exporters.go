package store

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	// The last result about an exporter becomes stale after three scrape intervals plus
	// minStaleTime. Adding minStaleTime is necessary because points may wait in queues. As long as
	// only one result has arrived, the scrape interval is unknown, and the result becomes stale
	// after maxUnknownInterval.
	minStaleTime       = int64(15 * time.Second)
	maxUnknownInterval = int64(90 * time.Second)
)

type exporterKey struct{ cluster, node, url string }

// Exporter is the state of one exporter, as reported by gpu.exporter.up.
type Exporter struct {
	// Cluster and Node are empty if the receiver that scrapes the exporter does not know them.
	Cluster, Node string
	// URL is the URL of the endpoint that is scraped.
	URL string
	// Up is true if the exporter answered the last scrape. Since is the time of the scrape at which
	// the value of Up last changed. At is the time of the last scrape. Since and At are in Unix
	// nanoseconds, according to the clock of the collector that scrapes the exporter.
	Up        bool
	Since, At int64
	// ReceivedAt is the time at which gpu_view received the last result, according to gpu_view's
	// own clock.
	ReceivedAt int64
	// Stale is true if gpu.exporter.up no longer arrives, because the exporter is no longer scraped
	// or its samples are lost. If Stale is true, it is unknown whether the exporter answers.
	// OthersAnswer is true if another exporter on the same node answers. [View.Exporters] sets
	// Stale and OthersAnswer.
	Stale, OthersAnswer bool
	// interval is the time between the last two scrapes. The interval is 0 before the second
	// scrape.
	interval int64
	outages  []Outage
}

func (e *Exporter) isStale(now int64) bool {
	if e.interval == 0 {
		return now-e.ReceivedAt > maxUnknownInterval
	}
	return now-e.ReceivedAt > 3*e.interval+minStaleTime
}

// The report method stores the result of a scrape: whether the exporter answered.
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

// Ended deletes the state of an exporter after a point without a value has ended the exporter's
// series. The series ends, for example, if another exporter replaces the exporter. Ended ignores
// device series, because devices expire when their points are too old.
func (b *Batch) Ended(place *Place, m *Metric, attribute string) {
	key := exporterKey{place.Cluster, place.Node, attribute}
	if _, known := b.s.exporters[key]; known && m.metricKind == exporterKind {
		delete(b.s.exporters, key)
	}
}

// forgetExporters deletes exporters without a recent result. Exporters without a recent result are
// no longer scraped.
func (s *Store) forgetExporters(now int64) {
	maps.DeleteFunc(s.exporters, func(_ exporterKey, e *Exporter) bool { return now-e.ReceivedAt > s.stale() })
}

// Exporters returns the exporters that have a recent result, sorted by cluster, node and URL.
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

// LastExporterPoint returns the arrival time of the last point of gpu.exporter.up, in Unix
// nanoseconds. If no point of gpu.exporter.up has arrived, LastExporterPoint returns 0.
func (v *View) LastExporterPoint() int64 { return v.s.exporterPointAt }

// The failing method returns an exporter whose failure explains why the devices on the node have no
// data, or nil if there is none. An exporter on the node is returned only if no other exporter on
// the node answers. If all exporters in the fleet are down, an exporter on any node may be
// returned.
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
