package window

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/enumtest"
)

// allRows returns all rows of a window.
func allRows(em *Emission) []Row {
	rows, _ := em.Next(nil, math.MaxInt)
	return rows
}

// texts encodes attributes with string values. The arguments are alternating keys and values.
func texts(pairs ...string) (b []byte) {
	for pair := range slices.Chunk(pairs, 2) {
		b = AppendAttr(b, pair[0], TextAttr, pair[1])
	}
	return b
}

func nodeKey(node string) ResourceKey { return ResourceKey{Place: gpudata.Place{Node: node}} }

// setNode sets the Resource of a node, with the given additional attributes.
func setNode(in *Ingest, node string, more ...string) {
	in.SetResource(&PlacedResource{Key: nodeKey(node), Attrs: texts(append([]string{"node", node}, more...)...)})
}

var origin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// testSettings returns settings with a rule for every function.
func testSettings() Settings {
	high, most := 0.9, 0.95
	return Settings{
		Window: time.Minute, Grace: 5 * time.Second, MaxGap: 90 * time.Second,
		MaxSeries: 1000, IdleTimeout: 10 * time.Minute, MarkEnd: true, KeepLast: true,
		Rules: []Rule{
			{Source: "busy", Function: "mean", Metric: "busy.avg", Unit: "1"},
			{Source: "busy", Function: "max", Metric: "busy.max", Unit: "1"},
			{Source: "busy", Function: "share_at_least", Metric: "busy.high", Unit: "1", Threshold: &high},
			{Source: "busy", Function: "quantile", Metric: "busy.p95", Unit: "1", Quantile: &most},
			{Source: "stall", Function: "time_ratio", Metric: "stall.ratio", Unit: "1", Attributes: []string{"cause"}},
			{Source: "bytes", Function: "rate", Metric: "bytes.rate", Unit: "By/s"},
			{
				Source: "faults", Function: "increase", Metric: "faults.count", Unit: "{fault}", Integer: true,
				Where: []Filter{{Attribute: "code", Values: []string{"e*"}, Absent: true}},
			},
		},
		Coverage: Metric{Name: "coverage", Unit: "1"}, Samples: Metric{Name: "samples", Unit: "{sample}"},
	}
}

// feed adds one sample of every kind. All samples have the same time.
func feed(e *Engine, at time.Duration, v float64) {
	in := e.Begin(origin.Add(at))
	defer in.End()
	in.SetResource(&PlacedResource{Key: nodeKey("n1"), Attrs: texts("node", "n1", "zone", "z"), SchemaURL: "schema"})
	in.SetScope(Scope{Name: "scope", Version: "1", Attrs: Attrs(AppendAttr(nil, "a", BoolAttr, "true"))})
	add := func(m Metric, p Point) {
		p.Time, p.Value, p.Start = origin.Add(at).UnixNano(), Double(v), origin.UnixNano()
		in.SetMetric(m)
		in.Resolve(&p)
	}
	id := texts("id", "d1")
	add(Metric{Name: "busy", Kind: signal.Gauge}, Point{Device: "d1", About: texts("id", "d1", "model", "m"), Own: texts("team", "t")})
	add(Metric{Name: "stall", Kind: signal.Counter}, Point{Device: "d1", About: id, Own: texts("cause", "heat")})
	add(Metric{Name: "bytes", Kind: signal.Counter}, Point{Device: "d1", About: id})
	add(Metric{Name: "faults", Kind: signal.Counter}, Point{Device: "d1", About: id, Own: texts("code", "e1")})
	add(Metric{Name: "faults", Kind: signal.Counter}, Point{Device: "d1", About: id, Own: texts("code", "f1")})
	all := nodeKey("n1")
	all.All = Attrs(texts("node", "n1", "zone", "z"))
	in.SetResource(&PlacedResource{Key: all, Attrs: []byte(all.All), SchemaURL: "schema"})
	add(Metric{Name: "other", Kind: signal.UpDownCounter, Metadata: Attrs(texts("k", "v"))}, Point{
		Own: AppendAttr(AppendAttr(nil, "x", IntAttr, "7"), "y", OpaqueAttr, "b"),
	})
}

// drain fetches all windows up to the given time, and returns their rows as text.
func drain(e *Engine, upTo time.Time) []string {
	var out []string
	for em := e.Fetch(upTo); em != nil; em = e.Fetch(upTo) {
		for _, r := range allRows(em) {
			out = append(out, fmt.Sprintf("%+v %+v %s %+v %+v %+v %d %d %v", *r.Resource, r.Scope, r.Metric.Name, r.Own, r.Device, r.Extra, r.Start, r.Time, r.Value))
		}
		em.Close()
	}
	return out
}

// The busy function returns an engine with open windows and series of every kind.
func busy() *Engine {
	e := New(testSettings(), origin)
	for i := range 10 {
		feed(e, time.Duration(i)*10*time.Second, float64(i))
	}
	drain(e, origin)
	return e
}

func TestTheNumberOfClosedWindowsIsBounded(t *testing.T) {
	e := New(testSettings(), origin)
	for minute := range 30 {
		feed(e, time.Duration(minute)*time.Minute+30*time.Second, 1)
	}
	var ends []int64
	for em := e.Fetch(origin.Add(time.Hour)); em != nil; em = e.Fetch(origin.Add(time.Hour)) {
		ends = append(ends, int64(em.End().Sub(origin)/time.Minute))
		em.Close()
	}
	assert.Equal(t, []int64{22, 23, 24, 25, 26, 27, 28, 29, 30}, ends, "the newest closed windows and the open window")
	assert.EqualValues(t, 21, e.Stats().WindowsDropped)
}

func TestTheMemoryOfEndedSeriesIsFreed(t *testing.T) {
	e := busy()
	drain(e, origin.Add(time.Hour))
	for more := true; more; {
		_, more = e.Expire(origin.Add(24*time.Hour), nil, 2)
	}
	assert.Zero(t, e.Stats().Series)
	assert.Empty(t, e.nodes)
	assert.Empty(t, e.order)
	assert.NotEmpty(t, e.shapes.values)
	// The loop runs three times, because a shape refers to its metric and the metric refers to its
	// scope.
	for range 3 {
		runtime.GC()
		for _, trim := range []func(){e.shapes.trim, e.metrics.trim, e.scopes.trim} {
			trim()
		}
	}
	assert.Empty(t, e.shapes.values)
	assert.Empty(t, e.metrics.values)
	assert.Empty(t, e.scopes.values)
}

func TestTheMemoryOfAnEndedSeriesIsFreedIfItsDeviceRemains(t *testing.T) {
	e := New(testSettings(), origin)
	feed(e, 10*time.Second, 1)
	n := e.nodes["n1"]
	d := n.places[nodeKey("n1")].devices["d1"]
	require.NotEmpty(t, d.carried)
	drain(e, origin.Add(time.Minute))
	resolve(e, 9*time.Minute, 1) // one series of the device continues
	drain(e, origin.Add(10*time.Minute))
	_, more := e.Expire(origin.Add(12*time.Minute), nil, 100)
	require.False(t, more)
	require.Same(t, d, n.places[nodeKey("n1")].devices["d1"])
	assert.Len(t, d.series, 1)
	assert.Empty(t, d.carried)
}

func TestTheNumberOfDescriptiveAttributesIsBounded(t *testing.T) {
	e := New(testSettings(), origin)
	for i := range 1000 {
		in := e.Begin(origin.Add(30 * time.Second))
		setNode(in, "n1", fmt.Sprint("key", i), "v")
		in.SetScope(Scope{})
		in.SetMetric(Metric{Name: "busy"})
		in.Resolve(&Point{
			Device: "d1", About: texts("id", "d1", fmt.Sprint("mig.", i), "v"),
			Time: origin.Add(30*time.Second).UnixNano() + int64(i), Value: Double(1),
		})
		in.End()
	}
	em := e.Fetch(origin.Add(time.Hour))
	for _, r := range allRows(em) {
		assert.Equal(t, maxDescriptive, r.Device.Len())
		assert.Equal(t, maxDescriptive, r.Resource.Attrs.Len())
	}
	em.Close()
}

// Because sums are rounded, the sum of ten values of 0.7, divided by 10, is greater than 0.7. The
// mean must not exceed the maximum.
func TestTheMeanOfEqualSamplesIsExactlyThatSample(t *testing.T) {
	e := New(testSettings(), origin)
	for i := range 6 {
		feed(e, time.Duration(i+1)*10*time.Second, 0.7)
	}
	means := 0
	for em := e.Fetch(origin.Add(time.Minute)); em != nil; em = e.Fetch(origin.Add(time.Minute)) {
		for _, r := range allRows(em) {
			if r.Metric.Name == "busy.avg" {
				means++
				assert.Equal(t, r.Value, Double(0.7), "%v", r.Value.Float())
			}
		}
		em.Close()
	}
	assert.Equal(t, 1, means)
}

func TestSightingsDoNotCreateSeriesBeyondTheLimit(t *testing.T) {
	set := testSettings()
	set.KeepLast, set.MaxSeries = false, 2
	e := New(set, origin)
	for i := range 5 {
		in := e.Begin(origin.Add(time.Duration(i) * time.Second))
		setNode(in, "n1")
		in.SetMetric(Metric{Name: "warmth", Kind: signal.Gauge})
		in.Resolve(&Point{Device: fmt.Sprint(i), About: texts("id", fmt.Sprint(i)), Time: origin.Add(time.Second).UnixNano(), Value: Double(1)})
		in.End()
	}
	assert.Equal(t, 2, e.Stats().Series)
}

func TestAValueThatAPointCannotRepresentIsAbsent(t *testing.T) {
	set := testSettings()
	set.Disabled, set.KeepLast = []string{"coverage", "samples"}, false
	huge, least, many := 1e308, -1e308, 1e18
	set.Rules = []Rule{
		{Source: "busy", Function: "mean", Metric: "mean", Scale: &huge},
		{Source: "busy", Function: "max", Metric: "max", Scale: &least},
		{Source: "bytes", Function: "rate", Metric: "rate", Scale: &huge},
		{Source: "faults", Function: "increase", Metric: "count", Integer: true, Scale: &many},
		{Source: "busy", Function: "mean", Metric: "held"},
	}
	e := New(set, origin)
	for i := range 3 {
		feed(e, time.Duration(i+1)*10*time.Second, float64(100*i+100))
	}
	em := e.Fetch(origin.Add(time.Minute))
	rows := allRows(em)
	require.Len(t, rows, 1)
	assert.Equal(t, "held", rows[0].Metric.Name)
	em.Close()
}

// An annotation describes only the samples that have it. The annotation must not be added to other
// series of the device, and must be removed when the samples of its series no longer have it.
func TestAnAnnotationIsSentOnlyWithTheLastSampleOfItsSeries(t *testing.T) {
	e := New(testSettings(), origin)
	add := func(at time.Duration, sources ...string) {
		in := e.Begin(origin.Add(at))
		defer in.End()
		setNode(in, "n1")
		in.SetScope(Scope{})
		for _, name := range []string{"other", "busy", "watts"} {
			p := Point{Device: "d1", About: texts("id", "d1"), Time: origin.Add(at).UnixNano(), Value: Double(0.5)}
			if name != "other" {
				for _, source := range sources {
					p.Notes = append(p.Notes, texts("src", source)...)
				}
			}
			in.SetMetric(Metric{Name: name, Kind: signal.Gauge})
			in.Resolve(&p)
		}
	}
	extraByMetric := func(rows []Row) map[string]Attrs {
		of := map[string]Attrs{}
		for _, r := range rows {
			of[r.Metric.Name] = r.Extra
			assert.Equal(t, Attrs(texts("id", "d1")), r.Device)
		}
		return of
	}
	window := func(n int) map[string]Attrs {
		em := e.Fetch(origin.Add(time.Duration(n) * time.Minute))
		defer em.Close()
		return extraByMetric(allRows(em))
	}
	src := func(source string) Attrs { return Attrs(texts("src", source)) }

	add(10*time.Second, "guessed")
	add(50*time.Second, "measured")
	add(70 * time.Second) // in the next window
	e, err := Restore(testSettings(), origin.Add(70*time.Second), time.Time{}, states(e)...)
	require.NoError(t, err)
	of := window(1)
	assert.Equal(t, src("measured"), of["watts"])
	assert.Equal(t, src("measured"), of["busy.avg"])
	assert.Empty(t, of["other"])
	assert.Empty(t, of["coverage"])

	of = window(2)
	assert.Contains(t, of, "watts")
	for name, extra := range of {
		assert.Empty(t, extra, name)
	}

	add(130*time.Second, "guessed")
	window(3)
	e, err = Restore(testSettings(), origin.Add(190*time.Second), time.Time{}, states(e)...)
	require.NoError(t, err)
	rows, _ := e.Expire(origin.Add(time.Hour), nil, 100)
	of = extraByMetric(rows)
	assert.Equal(t, src("guessed"), of["watts"], "the mark has the source of the series that was sent")
	assert.Empty(t, of["other"])
}

// busySample returns a point of the device d1 that has a description and an annotation.
func busySample(at time.Duration, v float64) *Point {
	return &Point{
		Device: "d1", About: texts("id", "d1", "model", "m"), Notes: texts("src", "guessed"),
		Time: origin.Add(at).UnixNano(), Value: Double(v),
	}
}

// The resolve function adds a sample of the busy metric and returns the series of the sample.
func resolve(e *Engine, at time.Duration, v float64) *Series {
	in := e.Begin(origin.Add(at))
	defer in.End()
	setNode(in, "n1", "zone", "z")
	in.SetScope(Scope{})
	in.SetMetric(Metric{Name: "busy"})
	s, _ := in.Resolve(busySample(at, v))
	return s
}

func TestFurtherSamplesOfASeriesNeedNoAttributes(t *testing.T) {
	all, once := New(testSettings(), origin), New(testSettings(), origin)
	var s *Series
	for i := range 10 {
		at, v := time.Duration(i*15)*time.Second, float64(i)/10
		resolve(all, at, v)
		if i == 0 {
			s = resolve(once, at, v)
			continue
		}
		in := once.Begin(origin.Add(at))
		in.SetNode("n1")
		require.True(t, in.CanAdd(s))
		assert.Equal(t, Accepted, in.Add(s, origin.Add(at).UnixNano(), 0, Double(v)))
		assert.Equal(t, Duplicate, in.Add(s, origin.Add(at).UnixNano(), 0, Double(v)))
		assert.Equal(t, NoValue, in.Add(s, origin.Add(at).UnixNano(), 0, Double(math.NaN())))
		in.End()
	}
	forever := origin.Add(time.Hour)
	want := drain(all, forever)
	require.NotEmpty(t, want)
	assert.Equal(t, want, drain(once, forever))
}

func TestAfterTheEndOfASeriesTheNextSampleCreatesANewSeries(t *testing.T) {
	e := New(testSettings(), origin)
	s := resolve(e, 0, 1)
	drain(e, origin.Add(time.Minute))
	_, more := e.Expire(origin.Add(time.Hour), nil, 100)
	require.False(t, more)
	in := e.Begin(origin.Add(time.Hour))
	in.SetNode("n1")
	assert.False(t, in.CanAdd(s))
	in.End()
	assert.NotSame(t, s, resolve(e, time.Hour, 1))
}

func TestASeriesOfAnUnusedMetricShowsThatItsDeviceExists(t *testing.T) {
	set := testSettings()
	set.KeepLast = false
	e := New(set, origin)
	in := e.Begin(origin.Add(10 * time.Second))
	setNode(in, "n1")
	in.SetScope(Scope{})
	in.SetMetric(Metric{Name: "warmth"})
	s, outcome := in.Resolve(&Point{Device: "d1", About: texts("id", "d1"), Time: origin.Add(10 * time.Second).UnixNano(), Value: Double(1)})
	assert.Equal(t, Ignored, outcome)
	assert.Equal(t, Ignored, in.Add(s, origin.Add(20*time.Second).UnixNano(), 0, Double(1)))
	in.SetMetric(Metric{Name: "faults", Kind: signal.Counter})
	_, outcome = in.Resolve(&Point{
		Device: "d1", About: texts("id", "d1"), Start: origin.Add(20 * time.Second).UnixNano(), Time: origin.Add(30 * time.Second).UnixNano(), Value: Double(3),
	})
	assert.Equal(t, Accepted, outcome)
	in.End()
	assert.Equal(t, [Outcomes]uint64{Accepted: 1}, e.Stats().Samples, "unused samples are not counted")
	em := e.Fetch(origin.Add(time.Minute))
	assert.Contains(t, fmt.Sprintf("%+v", valuesOf(allRows(em))), "faults.count:3", "the counter started after the device was seen")
	em.Close()
}

// valuesOf returns the values of the rows, keyed by metric name.
func valuesOf(rows []Row) map[string]float64 {
	out := map[string]float64{}
	for _, r := range rows {
		out[r.Metric.Name] = r.Value.Float()
	}
	return out
}

func TestAResourceThatIsSetAgainRefersToAnExistingPlace(t *testing.T) {
	e := New(testSettings(), origin)
	r := &PlacedResource{Key: nodeKey("n1"), Attrs: texts("node", "n1", "zone", "z")}
	sample := func(at time.Duration) {
		in := e.Begin(origin.Add(at))
		defer in.End()
		in.SetResource(r)
		in.SetScope(Scope{})
		in.SetMetric(Metric{Name: "busy"})
		_, outcome := in.Resolve(busySample(at, 1))
		require.Equal(t, Accepted, outcome)
	}
	sample(10 * time.Second)
	sample(20 * time.Second) // the place exists
	require.NotEmpty(t, drain(e, origin.Add(time.Minute)))
	_, more := e.Expire(origin.Add(time.Hour), nil, 100)
	require.False(t, more)
	require.Empty(t, e.nodes)

	sample(time.Hour + 10*time.Second)
	assert.NotEmpty(t, drain(e, origin.Add(time.Hour+time.Minute)), "the samples after the place was removed are sent")

	// Another source changes the attributes of the place. When the old attributes are set again,
	// the engine must use them again.
	in := e.Begin(origin.Add(time.Hour + 70*time.Second))
	setNode(in, "n1", "zone", "y")
	in.SetScope(Scope{})
	in.SetMetric(Metric{Name: "busy"})
	in.Resolve(busySample(time.Hour+70*time.Second, 1))
	in.End()
	sample(time.Hour + 80*time.Second)
	assert.Contains(t, fmt.Sprint(drain(e, origin.Add(time.Hour+2*time.Minute))), string(texts("zone", "z")))
}

func TestEveryOutcomeIsDocumented(t *testing.T) {
	assert.ElementsMatch(t, enumtest.Documented(t, "outcome"), enumtest.Names(0, Outcomes))
}

// The time of the next search for idle series must not stay in the future if the clock is set back.
func TestSeriesEndAfterTheClockWasSetBack(t *testing.T) {
	set := testSettings()
	e := New(set, origin)
	feed(e, 24*time.Hour, 1)
	_, more := e.Expire(origin.Add(24*time.Hour), nil, math.MaxInt)
	require.False(t, more)
	feed(e, 0, 1) // the clock is set back, and all series still exist
	at := origin.Add(set.IdleTimeout)
	assert.Equal(t, at, e.NextExpiry().UTC())
	drain(e, at)
	rows, more := e.Expire(at, nil, math.MaxInt)
	assert.False(t, more)
	assert.NotEmpty(t, rows)
	assert.Zero(t, e.series.Load())
}
