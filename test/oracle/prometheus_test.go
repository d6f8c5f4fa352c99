package oracle

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"
)

// engine is Prometheus' query engine with the features that the queries need.
var engine = promql.NewEngine(promql.EngineOpts{
	MaxSamples:       50e6,
	Timeout:          time.Minute,
	LookbackDelta:    lookback,
	EnableAtModifier: true,
	Parser: parser.NewParser(parser.Options{
		EnableExtendedRangeSelectors: true,
		EnableExperimentalFunctions:  true,
	}),
})

// lookback is Prometheus' default lookback delta.
const lookback = 5 * time.Minute

// outOfOrder is the maximum age of out-of-order samples that the storage accepts.
const outOfOrder = 30 * time.Minute

// tester is either a test or a single case of a property test.
type tester interface {
	require.TestingT
	Helper()
	Cleanup(cleanup func())
}

// prometheus is the reference for the comparison. The reference stores samples in Prometheus'
// storage the way Prometheus' scrape loop and rule manager do.
type prometheus struct {
	t        tester
	db       *teststorage.TestStorage
	step     time.Duration
	first    time.Time
	last     time.Time
	present  map[string]labels.Labels // series in the last scrape
	lookback time.Duration
}

func newPrometheus(t tester, step time.Duration) *prometheus {
	t.Helper()
	db, err := teststorage.NewWithError(func(opts *tsdb.Options) {
		opts.OutOfOrderTimeWindow = outOfOrder.Milliseconds()
		// Disable the WAL, because nothing needs to be durable.
		opts.WALSegmentSize = -1
		// Use few stripes, because the tests create many small storages.
		opts.StripeSize = 64
		opts.EnableExemplarStorage = false
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return &prometheus{t: t, db: db, step: step, lookback: lookback}
}

// scraped returns a reference that has scraped the timeline. After the timeline, one scrape fails,
// so that the last values do not remain valid for the lookback period.
func scraped(t tester, tl timeline) *prometheus {
	t.Helper()
	p := newPrometheus(t, tl.step)
	for _, s := range tl.scrapes {
		p.scrape(s)
	}
	p.scrape(scrape{at: tl.end() + tl.step, failed: true})
	return p
}

// scrape stores a scrape's samples. For each series that was in the previous scrape but is missing
// from this one, scrape stores a staleness marker.
func (p *prometheus) scrape(s scrape) {
	at := epoch.Add(s.at)
	app := p.db.Appender(context.Background())
	now := map[string]labels.Labels{}
	if !s.failed {
		for _, r := range s.rows {
			ls := labels.FromMap(r.labels)
			b := labels.NewBuilder(ls)
			b.Set(labels.MetricName, r.name)
			ls = b.Labels()
			now[ls.String()] = ls
			p.append(app, ls, at, r.value)
		}
	}
	for key, ls := range p.present {
		if now[key].IsEmpty() {
			p.append(app, ls, at, math.Float64frombits(value.StaleNaN))
		}
	}
	p.present = now
	require.NoError(p.t, app.Commit())
	if p.first.IsZero() {
		p.first = at
	}
	p.last = at
}

func (p *prometheus) append(app storage.Appender, ls labels.Labels, at time.Time, v float64) {
	_, err := app.Append(0, ls, at.UnixMilli(), v)
	require.NoError(p.t, err)
}

// capacities stores the link capacities of the GPU models, as if an exporter exposed them.
func (p *prometheus) capacities() *prometheus {
	app := p.db.Appender(context.Background())
	for at := p.first; !at.After(p.last); at = at.Add(p.step) {
		for _, m := range models {
			for link, bytes := range map[string]float64{"pcie": m.pcie, "nvlink": m.nvlink} {
				if bytes > 0 {
					p.append(app, labels.FromStrings(labels.MetricName, "link_capacity_bytes_per_second",
						"link", link, "modelName", m.name), at, bytes)
				}
			}
		}
	}
	require.NoError(p.t, app.Commit())
	return p
}

// folded evaluates the rules that combine rows into one series per device. folded returns a new
// reference that contains only the recorded series.
func (p *prometheus) folded() *prometheus {
	out := newPrometheus(p.t, p.step)
	out.first, out.last = p.first, p.last
	p.record(out, Folding())
	return out
}

// derived evaluates and records the rules that the definitions depend on.
func (p *prometheus) derived() *prometheus {
	p.record(p, Derived())
	return p
}

// record evaluates the rules one after another, each at every step, and stores the results in the
// given reference.
func (p *prometheus) record(to *prometheus, rules []Rule) {
	fill := Parameters{Step: p.step}
	for _, r := range rules {
		// Merge series, because series from the two sides of an `or` may be identical after they
		// are renamed to the recorded name.
		type recorded struct {
			labels labels.Labels
			values map[int64]float64
		}
		series := map[string]recorded{}
		for _, s := range p.query(fill.Fill(r.Expr), p.first, p.last, p.step) {
			b := labels.NewBuilder(s.Metric)
			b.Set(labels.MetricName, r.Record)
			ls := b.Labels()
			one, ok := series[ls.String()]
			if !ok {
				one = recorded{ls, map[int64]float64{}}
				series[ls.String()] = one
			}
			for _, point := range s.Floats {
				one.values[point.T] = point.F
			}
		}
		app := to.db.Appender(context.Background())
		for _, one := range series {
			for at, before := p.first, false; !at.After(p.last); at = at.Add(p.step) {
				v, ok := one.values[at.UnixMilli()]
				switch {
				case ok:
					p.append(app, one.labels, at, v)
				case before:
					p.append(app, one.labels, at, math.Float64frombits(value.StaleNaN))
				}
				before = ok
			}
		}
		require.NoError(p.t, app.Commit())
	}
}

// query evaluates a range query from start to end with the given interval.
func (p *prometheus) query(query string, start, end time.Time, interval time.Duration) promql.Matrix {
	opts := promql.NewPrometheusQueryOpts(false, p.lookback)
	q, err := engine.NewRangeQuery(context.Background(), p.db, opts, query, start, end, interval)
	require.NoError(p.t, err, query)
	defer q.Close()
	result := q.Exec(context.Background())
	require.NoError(p.t, result.Err, query)
	matrix, err := result.Matrix()
	require.NoError(p.t, err, query)
	// Copy the result, because the engine reuses its points after the query is closed.
	out := make(promql.Matrix, len(matrix))
	for i, s := range matrix {
		out[i] = promql.Series{Metric: s.Metric, Floats: append([]promql.FPoint(nil), s.Floats...)}
	}
	return out
}

// windows evaluates the definitions at the end of every window that may contain a sample.
func (p *prometheus) windows(defs []Definition, with Parameters) windows {
	out := windows{}
	end := func(t time.Time) time.Time { return t.Add(with.Window - 1).Truncate(with.Window) }
	for _, d := range defs {
		for _, s := range p.query(with.Fill(d.Query), end(p.first), end(p.last), with.Window) {
			device := s.Metric.Get("UUID")
			if id := s.Metric.Get("GPU_I_ID"); id != "" {
				device += "/gi" + id
			}
			for _, point := range s.Floats {
				k := key{d.Metric.Name, d.Own, device, time.UnixMilli(point.T).Sub(epoch)}
				_, twice := out[k]
				require.False(p.t, twice, "%s has two values at %s: %s", device, k.end, d.Query)
				out[k] = point.F
			}
		}
	}
	return out
}

// key identifies a point by the metric, the value of the metric-specific attribute, the device, and
// the end of the window since epoch.
type key struct {
	metric, own, device string
	end                 time.Duration
}

func (k key) String() string {
	return fmt.Sprintf("%s{%s} %s at %s", k.metric, k.own, k.device, k.end)
}

// windows maps the key of each point to the point's value, for all windows.
type windows map[key]float64
