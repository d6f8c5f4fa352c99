package gpusynthesizerprocessor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap/confmaptest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/exposition"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/enumtest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/goldentest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/pointtest"
)

// The name of each directory under testdata/golden describes the expected behavior. The file
// scrapes.prom contains the exposition text of one or more scrapes. Each scrape follows a line "@
// <seconds>s", which specifies the time of the scrape's rows. If a row has its own timestamp, that
// timestamp is used. The file output.txt contains the expected output, with one point per line. The
// optional file config.yaml contains the configuration.
func TestGolden(t *testing.T) {
	t.Setenv(componenthelper.NodeNameEnv, "")
	for _, dir := range goldentest.Dirs(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			texts := readTexts(t, filepath.Join(dir, "scrapes.prom"))
			var scrapes []scrape
			for _, e := range texts {
				scrapes = append(scrapes, scrape{e.seconds, parse(t, e.text)})
			}
			got := run(t, dir, scrapes, onResources)
			assert.Equal(t, got, run(t, dir, scrapes, onPoints), "labels on points have the same output as labels on Resources")
			if !strings.Contains(texts[0].text, `{"hw.`) { // an exporter's scrape never contains OTLP names
				assert.Equal(t, got, runRows(t, dir, texts), "rows have the same output as metrics")
			}
			for n := range scrapes {
				assert.Equal(t, got, runTogether(t, dir, scrapes, n), "scrapes in two batches have the same output as scrapes in separate batches")
			}
			for i := range scrapes {
				rand.Shuffle(len(scrapes[i].rows), func(a, b int) {
					scrapes[i].rows[a], scrapes[i].rows[b] = scrapes[i].rows[b], scrapes[i].rows[a]
				})
			}
			assert.Equal(t, got, run(t, dir, scrapes, onPoints), "the order of rows does not change the output")
			goldentest.Compare(t, dir, got)
		})
	}
}

type scrape struct {
	seconds int64
	rows    []row
}

// scrapeText contains the exposition text of one scrape.
type scrapeText struct {
	seconds int64
	text    string
}

type row struct {
	name   string
	kind   string
	labels []labels.Label
	value  float64
	at     pcommon.Timestamp // timestamp of the row, or 0 if the row has none
}

// readTexts reads the exposition texts of all scrapes in a file.
func readTexts(t *testing.T, file string) []scrapeText {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var out []scrapeText
	for _, part := range strings.Split(string(text), "\n@ ")[0:] {
		part = strings.TrimPrefix(part, "@ ")
		at, body, ok := strings.Cut(part, "\n")
		require.True(t, ok, "a scrape begins with a line @ <seconds>s")
		d, err := time.ParseDuration(at)
		require.NoError(t, err)
		out = append(out, scrapeText{int64(d / time.Second), body})
	}
	return out
}

// parse parses exposition text with the Prometheus parser.
func parse(t *testing.T, body string) []row {
	t.Helper()
	p := textparse.NewPromParser([]byte(body+"\n"), labels.NewSymbolTable(), false)
	kinds := map[string]string{}
	var rows []row
	for {
		entry, err := p.Next()
		if err != nil {
			require.ErrorContains(t, err, "EOF")
			return rows
		}
		switch entry {
		case textparse.EntryType:
			name, kind := p.Type()
			kinds[string(name)] = string(kind)
		case textparse.EntrySeries:
			_, at, v := p.Series()
			var ls labels.Labels
			p.Labels(&ls)
			r := row{name: ls.Get(labels.MetricName), value: v}
			r.kind = kinds[r.name]
			if at != nil {
				r.at = pcommon.Timestamp(*at * 1e6)
			}
			ls.Range(func(l labels.Label) {
				if l.Name != labels.MetricName {
					r.labels = append(r.labels, l)
				}
			})
			rows = append(rows, r)
		default:
		}
	}
}

// onResources converts a scrape to the layout that the dcgm receiver uses: one Resource per label
// set, and points without attributes.
func onResources(s scrape) pmetric.Metrics {
	md := pmetric.NewMetrics()
	groups := map[string]pmetric.MetricSlice{}
	for _, r := range s.rows {
		key := fmt.Sprint(r.labels)
		ms, ok := groups[key]
		if !ok {
			rm := md.ResourceMetrics().AppendEmpty()
			putLabels(rm.Resource().Attributes(), r.labels)
			ms = rm.ScopeMetrics().AppendEmpty().Metrics()
			groups[key] = ms
		}
		point(ms, r, s.seconds)
	}
	return md
}

// onPoints converts a scrape to the layout that the prometheus receiver uses: the Resource
// describes the scrape target, and the labels are on the points.
func onPoints(s scrape) pmetric.Metrics {
	md := pmetric.NewMetrics()
	rm := md.ResourceMetrics().AppendEmpty()
	rm.Resource().Attributes().PutStr("service.name", "dcgm-exporter")
	rm.Resource().Attributes().PutStr("service.instance.id", "10.0.0.1:9400")
	rm.Resource().Attributes().PutStr("server.address", "10.0.0.1")
	ms := rm.ScopeMetrics().AppendEmpty().Metrics()
	for _, r := range s.rows {
		putLabels(point(ms, r, s.seconds).Attributes(), r.labels)
	}
	return md
}

func putLabels(m pcommon.Map, ls []labels.Label) {
	for _, l := range ls {
		m.PutStr(l.Name, l.Value)
	}
}

func point(ms pmetric.MetricSlice, r row, seconds int64) pmetric.NumberDataPoint {
	m := ms.AppendEmpty()
	m.SetName(r.name)
	var dp pmetric.NumberDataPoint
	if r.kind == "counter" {
		sum := m.SetEmptySum()
		sum.SetIsMonotonic(true)
		sum.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
		dp = sum.DataPoints().AppendEmpty()
	} else {
		dp = m.SetEmptyGauge().DataPoints().AppendEmpty()
	}
	dp.SetTimestamp(cmp.Or(r.at, pcommon.Timestamp(seconds*1e9)))
	dp.SetDoubleValue(r.value)
	return dp
}

// newTestProcessor creates the processor with the factory.
func newTestProcessor(t *testing.T, dir string, set processor.Settings) (processor.Metrics, *consumertest.MetricsSink) {
	t.Helper()
	cfg := createDefaultConfig()
	if file := filepath.Join(dir, "config.yaml"); dir != "" {
		if _, err := os.Stat(file); err == nil {
			conf, err := confmaptest.LoadConf(file)
			require.NoError(t, err)
			require.NoError(t, conf.Unmarshal(cfg))
		}
	}
	require.NoError(t, cfg.(*Config).Validate())
	sink := &consumertest.MetricsSink{}
	p, err := NewFactory().CreateMetrics(context.Background(), set, cfg, sink)
	require.NoError(t, err)
	require.NoError(t, p.Start(context.Background(), nil))
	t.Cleanup(func() { require.NoError(t, p.Shutdown(context.Background())) })
	return p, sink
}

// The run function sends scrapes to the processor and returns its output as text. All drops must be
// counted with a documented reason.
func run(t *testing.T, dir string, scrapes []scrape, layout func(scrape) pmetric.Metrics) string {
	t.Helper()
	tel := componenttest.NewTelemetry()
	set := processortest.NewNopSettings(metadata.Type)
	set.TelemetrySettings = tel.NewTelemetrySettings()
	p, sink := newTestProcessor(t, dir, set)
	for _, s := range scrapes {
		require.NoError(t, p.ConsumeMetrics(context.Background(), layout(s)))
	}
	assert.Subset(t, enumtest.Documented(t, "reason"), slices.Collect(maps.Keys(dropped(tel))))
	return rendered(sink)
}

// runTogether sends the first n scrapes in one batch and the remaining scrapes in another batch.
func runTogether(t *testing.T, dir string, scrapes []scrape, n int) string {
	t.Helper()
	p, sink := newTestProcessor(t, dir, processortest.NewNopSettings(metadata.Type))
	for _, part := range [][]scrape{scrapes[:n], scrapes[n:]} {
		md := pmetric.NewMetrics()
		for _, s := range part {
			onResources(s).ResourceMetrics().MoveAndAppendTo(md.ResourceMetrics())
		}
		require.NoError(t, p.ConsumeMetrics(t.Context(), md))
	}
	return rendered(sink)
}

// runRows sends scrapes as rows. If stages are configured, the dcgm receiver also sends scrapes as
// rows.
func runRows(t *testing.T, dir string, scrapes []scrapeText) string {
	t.Helper()
	p, sink := newTestProcessor(t, dir, processortest.NewNopSettings(metadata.Type))
	list := pdatagpu.NewStages(sink)
	list.Append("gpu_synthesizer", p.(*pdatagpu.Processor))
	parser := exposition.NewParser()
	parser.HonorTimestamps(time.UnixMilli(0), time.UnixMilli(2e12))
	for _, s := range scrapes {
		rows := &pdatagpu.Rows{Time: pcommon.Timestamp(s.seconds * 1e9), Sets: parser.Parse([]byte(s.text + "\n")).Sets}
		require.NoError(t, list.Consume(t.Context(), rows, pmetric.NewMetrics()))
	}
	return rendered(sink)
}

// render returns the points as sorted text, with one line per point. Each line contains the time,
// the Resource, the metric with its kind and unit, the attributes, and the value. The attributes
// for the vendor and the type are omitted, because they are the same on all points.
func render(md pmetric.Metrics) string {
	var lines []string
	same := []string{signal.HardwareVendor, signal.HardwareType, signal.ProcessSource, "server.address", "service.instance.id", "service.name"}
	for p := range points.All(md) {
		m := p.Metric
		kind := "gauge"
		if m.Type() == pmetric.MetricTypeSum {
			kind = "sum"
			if m.Sum().IsMonotonic() {
				kind = "counter"
			}
		}
		where, what := pointtest.Text(p.Resource.Attributes(), same...), pointtest.Text(p.Attributes(), same...)
		if _, ours := signal.Lookup(m.Name()); !ours { // for metrics of other components, the layout depends on the receiver
			where, what = "{}", strings.ReplaceAll(where+what, "{}", "")
		}
		lines = append(lines, strings.TrimRight(fmt.Sprintf("%4ds %s %s %s %s = %s %s%s",
			int64(p.Timestamp())/1e9, where, kind, m.Name(), what,
			value(p.NumberDataPoint), m.Unit(), start(p.NumberDataPoint)), " "))
	}
	slices.SortFunc(lines, cmp.Compare[string])
	return strings.Join(lines, "\n") + "\n"
}

func value(dp pmetric.NumberDataPoint) string {
	if dp.ValueType() == pmetric.NumberDataPointValueTypeInt {
		return strconv.FormatInt(dp.IntValue(), 10)
	}
	v := dp.DoubleValue()
	if r := math.Round(v*1e9) / 1e9; math.Abs(v) < 1e6 {
		v = r // hide rounding errors
	}
	return strconv.FormatFloat(v, 'g', -1, 64) + "f"
}

func start(dp pmetric.NumberDataPoint) string {
	if dp.StartTimestamp() == 0 {
		return ""
	}
	return fmt.Sprintf(" since %ds", int64(dp.StartTimestamp())/1e9)
}
