package oracle

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// epoch is the zero time of all timelines. Every synctest bubble starts at epoch, and epoch is a
// window boundary for all common window lengths.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// row is one sample line in an exporter's response.
type row struct {
	name    string
	counter bool // whether # TYPE declares a counter
	labels  map[string]string
	value   float64
}

// scrape is the response to a scrape, or a failed scrape, at a time since epoch.
type scrape struct {
	at     time.Duration
	failed bool
	rows   []row
}

// timeline is a sequence of scrapes. If there are several exporters, each scrape contains the
// responses from all of them.
type timeline struct {
	step    time.Duration
	scrapes []scrape
}

// The end method returns the time of the last scrape.
func (tl timeline) end() time.Duration { return tl.scrapes[len(tl.scrapes)-1].at }

// load parses a timeline in the notation of Prometheus' own tests. Each line has the form
// "name{labels} values" and contains one value per step. An underscore represents a missing row,
// and 1+2x3 represents the values 1, 3, 5, and 7.
func load(t tester, step time.Duration, text string) timeline {
	t.Helper()
	tl := timeline{step: step}
	p := parser.NewParser(parser.Options{})
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		ls, values, err := p.ParseSeriesDesc(line)
		require.NoError(t, err, line)
		for i, v := range values {
			if i == len(tl.scrapes) {
				tl.scrapes = append(tl.scrapes, scrape{at: time.Duration(i) * step})
			}
			if v.Omitted || value.IsStaleNaN(v.Value) {
				continue
			}
			r := row{name: ls.Get(labels.MetricName), labels: ls.Map(), value: v.Value}
			delete(r.labels, labels.MetricName)
			r.counter = isCounter(r.name)
			tl.scrapes[i].rows = append(tl.scrapes[i].rows, r)
		}
	}
	for i := range tl.scrapes {
		tl.scrapes[i].failed = len(tl.scrapes[i].rows) == 0
	}
	return tl
}

// isCounter reports whether exporters declare the given field as a counter.
func isCounter(name string) bool {
	return strings.HasSuffix(name, "_VIOLATION") || strings.HasSuffix(name, "_NS") || strings.HasSuffix(name, "_TOTAL")
}

// text returns the exposition text of a scrape. Rows are grouped by metric, and metrics are in the
// order of their first rows.
func (s scrape) text() string {
	var b strings.Builder
	var names []string
	byName := map[string][]row{}
	for _, r := range s.rows {
		if byName[r.name] == nil {
			names = append(names, r.name)
		}
		byName[r.name] = append(byName[r.name], r)
	}
	for _, name := range names {
		kind := "gauge"
		if byName[name][0].counter {
			kind = "counter"
		}
		fmt.Fprintf(&b, "# HELP %s A field.\n# TYPE %[1]s %s\n", name, kind)
		for _, r := range byName[name] {
			b.WriteString(name + "{")
			for i, k := range slices.Sorted(maps.Keys(r.labels)) {
				if i > 0 {
					b.WriteByte(',')
				}
				b.WriteString(k + "=" + strconv.Quote(r.labels[k]))
			}
			b.WriteString("} " + strconv.FormatFloat(r.value, 'g', -1, 64) + "\n")
		}
	}
	return b.String()
}

// texts returns the exposition texts of all scrapes. For failed scrapes, the text is "".
func (tl timeline) texts() []string {
	var out []string
	for _, s := range tl.scrapes {
		out = append(out, s.text())
	}
	return out
}

// String formats the timeline in the notation that the load function parses.
func (tl timeline) String() string {
	series := map[string][]string{}
	for i, s := range tl.scrapes {
		for _, r := range s.rows {
			b := labels.NewBuilder(labels.FromMap(r.labels))
			b.Set(labels.MetricName, r.name)
			k := b.Labels().String()
			for len(series[k]) < i {
				series[k] = append(series[k], "_")
			}
			series[k] = append(series[k], strconv.FormatFloat(r.value, 'g', -1, 64))
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "every %s\n", tl.step)
	for _, k := range slices.Sorted(maps.Keys(series)) {
		fmt.Fprintf(&b, "%s %s\n", k, strings.Join(series[k], " "))
	}
	return b.String()
}

// The set method returns the row's label set as text.
func (r row) set() string {
	var b []byte
	for _, k := range slices.Sorted(maps.Keys(r.labels)) {
		b = strconv.AppendQuote(append(append(b, k...), '='), r.labels[k])
	}
	return string(b)
}

// layout converts a scrape's rows to pdata.
type layout func(rows []row, at time.Time) pmetric.Metrics

// onResources converts a scrape the way the dcgm receiver does: each label set becomes a Resource,
// and points have no attributes.
func onResources(rows []row, at time.Time) pmetric.Metrics {
	md := pmetric.NewMetrics()
	sets := map[string]pmetric.MetricSlice{}
	for _, r := range rows {
		key := r.set()
		ms, ok := sets[key]
		if !ok {
			rm := md.ResourceMetrics().AppendEmpty()
			putLabels(rm.Resource().Attributes(), r.labels)
			ms = rm.ScopeMetrics().AppendEmpty().Metrics()
			sets[key] = ms
		}
		appendPoint(ms, r, at)
	}
	return md
}

// onPoints converts a scrape the way the prometheus receiver does: the Resource describes the
// scrape target, and each name becomes one metric, whose points have the labels as attributes.
func onPoints(rows []row, at time.Time) pmetric.Metrics {
	md := pmetric.NewMetrics()
	rm := md.ResourceMetrics().AppendEmpty()
	rm.Resource().Attributes().PutStr("service.name", "dcgm")
	rm.Resource().Attributes().PutStr("service.instance.id", "10.0.0.1:9400")
	ms := rm.ScopeMetrics().AppendEmpty().Metrics()
	for _, r := range slices.SortedStableFunc(slices.Values(rows), func(a, b row) int { return cmp.Compare(a.name, b.name) }) {
		putLabels(appendPoint(ms, r, at).Attributes(), r.labels)
	}
	return md
}

// putLabels adds the labels in ls to the map m in random order.
func putLabels(m pcommon.Map, ls map[string]string) {
	for k, v := range ls {
		m.PutStr(k, v)
	}
}

// appendPoint appends a point with the row's value to the last metric or, if the last metric has a
// different name, to a new metric.
func appendPoint(ms pmetric.MetricSlice, r row, at time.Time) pmetric.NumberDataPoint {
	var m pmetric.Metric
	if n := ms.Len(); n > 0 && ms.At(n-1).Name() == r.name {
		m = ms.At(n - 1)
	} else {
		m = ms.AppendEmpty()
		m.SetName(r.name)
		if r.counter {
			m.SetEmptySum().SetIsMonotonic(true)
			m.Sum().SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
		} else {
			m.SetEmptyGauge()
		}
	}
	var dp pmetric.NumberDataPoint
	if m.Type() == pmetric.MetricTypeSum {
		dp = m.Sum().DataPoints().AppendEmpty()
	} else {
		dp = m.Gauge().DataPoints().AppendEmpty()
	}
	dp.SetTimestamp(pcommon.NewTimestampFromTime(at))
	dp.SetDoubleValue(r.value)
	return dp
}
