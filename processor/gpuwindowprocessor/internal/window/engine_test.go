package window

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc64"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var origin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// testSettings have a rule of every function.
func testSettings() Settings {
	output := func(name, unit string) Output { return Output{Name: name, Unit: unit} }
	return Settings{
		Window: time.Minute, Grace: 5 * time.Second, MaxGap: 90 * time.Second,
		MaxSeries: 1000, IdleTimeout: 10 * time.Minute, MarkEnd: true, KeepLast: true,
		Identity: Identity{Device: "id", Resource: []string{"node|host", "pod"}, Descriptive: []string{"model", "mig.*"}, Annotations: []string{"src"}},
		Rules: []Rule{
			{Source: "busy", Function: Mean, Output: output("busy.avg", "1"), Scale: 1},
			{Source: "busy", Function: Max, Output: output("busy.max", "1"), Scale: 1},
			{Source: "busy", Function: ShareAtLeast, Output: output("busy.high", "1"), Threshold: 0.9, Scale: 1},
			{Source: "stall", Function: TimeRatio, Output: output("stall.ratio", "1"), Attributes: []string{"cause"}, Scale: 1},
			{Source: "bytes", Function: Rate, Output: output("bytes.rate", "By/s"), Scale: 1},
			{
				Source: "faults", Function: Increase, Output: Output{Name: "faults.count", Unit: "{fault}", Int: true}, Scale: 1,
				Where: []Filter{{Attribute: "code", Values: []string{"e*"}, Absent: true}},
			},
		},
		Coverage: output("coverage", "1"), Samples: Output{Name: "samples", Unit: "{sample}", Int: true},
	}
}

// feed gives the engine a sample of every kind at a time.
func feed(e *Engine, at time.Duration, v float64) {
	in := e.Begin(origin.Add(at))
	defer in.End()
	in.SetResource([]Attr{{"node", String("n1")}, {"zone", String("z")}}, "schema")
	in.SetScope(Scope{Name: "scope", Version: "1", Attrs: []Attr{{"a", Value{Kind: BoolValue, Num: 1}}}})
	add := func(m Metric, attrs ...Attr) {
		if in.SetMetric(m) {
			in.Add(&Point{Attrs: attrs, Time: origin.Add(at).UnixNano(), Value: Double(v), Start: origin.UnixNano()})
		}
	}
	id := Attr{"id", String("d1")}
	add(Metric{Name: "busy", Kind: Gauge}, id, Attr{"model", String("m")}, Attr{"team", String("t")})
	add(Metric{Name: "stall", Kind: Counter}, id, Attr{"cause", String("heat")})
	add(Metric{Name: "bytes", Kind: Counter}, id)
	add(Metric{Name: "faults", Kind: Counter}, id, Attr{"code", String("e1")})
	add(Metric{Name: "faults", Kind: Counter}, id, Attr{"code", String("f1")})
	add(Metric{Name: "other", Kind: CumulativeSum, Metadata: []Attr{{"k", String("v")}}}, Attr{"x", Value{Kind: DoubleValue, Num: 7}}, Attr{"y", Value{Kind: BytesValue, Str: "b"}})
}

// drain reads everything that leaves up to a time as text.
func drain(e *Engine, upTo time.Time) []string {
	var out []string
	for em := e.Fetch(upTo); em != nil; em = e.Fetch(upTo) {
		for _, r := range em.Next(nil, em.Rows()) {
			out = append(out, fmt.Sprintf("%+v %+v %s %+v %+v %+v %d %d %v", *r.Resource, r.Scope, r.Metric.Name, r.Own, r.Device, r.Extra, r.Start, r.Time, r.Value))
		}
		em.Close()
	}
	return out
}

// busy returns an engine in the middle of things.
func busy() *Engine {
	e := New(testSettings(), origin)
	for i := range 10 {
		feed(e, time.Duration(i)*10*time.Second, float64(i))
	}
	drain(e, origin)
	return e
}

func TestASnapshotIsTheSameAfterItWasRestored(t *testing.T) {
	e := busy()
	now := origin.Add(90 * time.Second)
	first := e.Snapshot(nil)
	again, err := Restore(testSettings(), now, origin, first)
	require.NoError(t, err)
	assert.True(t, bytes.Equal(first, again.Snapshot(nil)))
	forever := origin.Add(time.Hour)
	assert.Equal(t, drain(e, forever), drain(again, forever))
}

func TestASnapshotIsAppendedToWhatIsThere(t *testing.T) {
	e := busy()
	b := e.Snapshot([]byte("before"))
	assert.Equal(t, "before", string(b[:6]))
	assert.True(t, bytes.Equal(e.Snapshot(nil), b[6:]))
}

func TestWhatLeftAfterTheSnapshotDoesNotLeaveAgain(t *testing.T) {
	e := busy()
	upTo := origin.Add(time.Minute)
	again, err := Restore(testSettings(), origin.Add(100*time.Second), upTo, e.Snapshot(nil))
	require.NoError(t, err)
	feed(again, 100*time.Second, 10)
	for _, row := range drain(again, origin.Add(time.Hour)) {
		assert.NotContains(t, row, fmt.Sprintf(" %d {", upTo.UnixNano()), "a row of the window that had left")
	}
}

func TestASnapshotThatCannotBeUsedLeavesAnEngineThatCan(t *testing.T) {
	good := busy().Snapshot(nil)
	other := testSettings()
	other.Window = 2 * time.Minute
	version := append([]byte(nil), good...)
	version[len(snapshotMagic)]++
	damaged := append([]byte(nil), good...)
	damaged[len(damaged)/2] ^= 1
	for _, tt := range []struct {
		name string
		set  Settings
		data []byte
		want error
	}{
		{"empty", testSettings(), []byte{}, ErrForeign},
		{"foreign", testSettings(), []byte("something else entirely, and long enough"), ErrForeign},
		{"cut short", testSettings(), good[:len(good)-1], ErrForeign},
		{"damaged", testSettings(), damaged, ErrForeign},
		{"newer", testSettings(), version, ErrVersion},
		{"other settings", other, good, ErrSettings},
		{"inconsistent", testSettings(), seal(good[:len(good)-checksumSize-1]), errTruncated},
	} {
		t.Run(tt.name, func(t *testing.T) {
			upTo := origin.Add(time.Minute)
			e, err := Restore(tt.set, origin.Add(90*time.Second), upTo, tt.data)
			require.ErrorIs(t, err, tt.want)
			require.Zero(t, e.Stats().Series)
			feed(e, 60*time.Second, 1)
			assert.EqualValues(t, 6, e.Stats().Samples[Late], "what is closed stays closed")
		})
	}
}

func TestDescriptionsMayChangeOverARestart(t *testing.T) {
	set := testSettings()
	set.Rules[0].Output.Description = "another one"
	_, err := Restore(set, origin.Add(90*time.Second), origin, busy().Snapshot(nil))
	require.NoError(t, err)
}

// seal gives a body the checksum that it needs to be looked at.
func seal(body []byte) []byte {
	body = append([]byte(nil), body...)
	return binary.LittleEndian.AppendUint64(body, crc64.Checksum(body, checksums))
}

// FuzzRestore gives the reader bodies with a right checksum. It must not panic,
// ask for much more memory than it was given, or make an engine that panics.
func FuzzRestore(f *testing.F) {
	set := testSettings()
	header := New(set, origin).Snapshot(nil)
	header = header[:len(snapshotMagic)+1+8]
	for _, e := range []*Engine{New(set, origin), busy()} {
		b := e.Snapshot(nil)
		f.Add(b[len(header) : len(b)-checksumSize])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		data := seal(append(append([]byte(nil), header...), body...))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		e, err := Restore(set, origin.Add(90*time.Second), origin, data)
		runtime.ReadMemStats(&after)
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 1<<20+256*uint64(len(data)) {
			t.Fatalf("%d bytes asked for %d", len(data), grown)
		}
		if err != nil {
			require.Zero(t, e.Stats().Series)
		}
		feed(e, 95*time.Second, 3)
		e.Snapshot(nil)
		drain(e, origin.Add(time.Hour))
		for more := true; more; {
			_, more = e.Expire(origin.Add(24*time.Hour), nil, 10)
		}
	})
}

func TestClosedWindowsThatNobodyTakesDoNotPileUp(t *testing.T) {
	e := New(testSettings(), origin)
	for minute := range 30 {
		feed(e, time.Duration(minute)*time.Minute+30*time.Second, 1)
	}
	var ends []int64
	for em := e.Fetch(origin.Add(time.Hour)); em != nil; em = e.Fetch(origin.Add(time.Hour)) {
		ends = append(ends, int64(em.End().Sub(origin)/time.Minute))
		em.Close()
	}
	assert.Equal(t, []int64{22, 23, 24, 25, 26, 27, 28, 29, 30}, ends, "the newest closed ones and the open one")
	assert.EqualValues(t, 21, e.Stats().WindowsDropped)
}

func TestWhatEndedSeriesReferredToIsGivenBack(t *testing.T) {
	e := busy()
	drain(e, origin.Add(time.Hour))
	for more := true; more; {
		_, more = e.Expire(origin.Add(24*time.Hour), nil, 2)
	}
	assert.Zero(t, e.series.len())
	assert.Zero(t, e.outputs.len())
	assert.Zero(t, e.devices.len())
	assert.Zero(t, e.resources.len())
	assert.Zero(t, e.sets.len())
	assert.Zero(t, e.metrics.len())
	assert.Zero(t, e.scopes.len())

	// The places are used again.
	size := len(e.series.items)
	runs := len(e.runs.data)
	feed(e, 24*time.Hour, 1)
	assert.Len(t, e.series.items, size)
	assert.Len(t, e.runs.data, runs)
}

func TestDescriptiveAttributesDoNotPileUp(t *testing.T) {
	e := New(testSettings(), origin)
	for i := range 1000 {
		in := e.Begin(origin.Add(30 * time.Second))
		in.SetResource([]Attr{{"node", String("n1")}, {fmt.Sprint("key", i), String("v")}}, "")
		in.SetScope(Scope{})
		in.SetMetric(Metric{Name: "busy"})
		in.Add(&Point{
			Attrs: []Attr{{"id", String("d1")}, {fmt.Sprint("mig.", i), String("v")}},
			Time:  origin.Add(30*time.Second).UnixNano() + int64(i), Value: Double(1),
		})
		in.End()
	}
	em := e.Fetch(origin.Add(time.Hour))
	for _, r := range em.Next(nil, em.Rows()) {
		assert.Len(t, r.Device, maxDescriptive)
		assert.Len(t, r.Resource.Attrs, maxDescriptive)
	}
	em.Close()
}

// Sums of 0.7 round: ten of them divided by ten are more than 0.7, and a mean
// above the maximum would make readers doubt both.
func TestTheMeanOfEqualSamplesIsExactlyThatSample(t *testing.T) {
	e := New(testSettings(), origin)
	for i := range 6 {
		feed(e, time.Duration(i+1)*10*time.Second, 0.7)
	}
	means := 0
	for em := e.Fetch(origin.Add(time.Minute)); em != nil; em = e.Fetch(origin.Add(time.Minute)) {
		for _, r := range em.Next(nil, em.Rows()) {
			if r.Metric.Name == "busy.avg" {
				means++
				assert.Equal(t, r.Value, Double(0.7), "%v", r.Value.Float())
			}
		}
		em.Close()
	}
	assert.Equal(t, 1, means)
}

func TestSightingsStartNoSeriesAboveTheLimit(t *testing.T) {
	set := testSettings()
	set.KeepLast, set.MaxSeries = false, 2
	e := New(set, origin)
	for i := range 5 {
		in := e.Begin(origin.Add(time.Duration(i) * time.Second))
		in.SetResource([]Attr{{"node", String("n1")}}, "")
		require.False(t, in.SetMetric(Metric{Name: "warmth", Kind: Gauge}))
		in.Sight(&Point{Attrs: []Attr{{"id", String(fmt.Sprint(i))}}, Time: origin.Add(time.Second).UnixNano(), Value: Double(1)})
		in.End()
	}
	assert.Equal(t, 2, e.Stats().Series)
}

func TestWhatAPointCannotHoldIsAbsent(t *testing.T) {
	set := testSettings()
	set.Coverage.Disabled, set.Samples.Disabled, set.KeepLast = true, true, false
	set.Rules = []Rule{
		{Source: "busy", Function: Mean, Output: Output{Name: "mean"}, Scale: 1e308},
		{Source: "busy", Function: Max, Output: Output{Name: "max"}, Scale: -1e308},
		{Source: "bytes", Function: Rate, Output: Output{Name: "rate"}, Scale: 1e308},
		{Source: "faults", Function: Increase, Output: Output{Name: "count", Int: true}, Scale: 1e18},
		{Source: "busy", Function: Mean, Output: Output{Name: "held"}, Scale: 1},
	}
	e := New(set, origin)
	for i := range 3 {
		feed(e, time.Duration(i+1)*10*time.Second, float64(100*i+100))
	}
	em := e.Fetch(origin.Add(time.Minute))
	rows := em.Next(nil, em.Rows())
	require.Len(t, rows, 1)
	assert.Equal(t, "held", rows[0].Metric.Name)
	em.Close()
}

// An annotation is about the samples that have it: other series of the device do not get
// it, and it is gone when they have it no more.
func TestAnAnnotationGoesWithTheLastSampleOfItsSeriesAlone(t *testing.T) {
	e := New(testSettings(), origin)
	add := func(at time.Duration, sources ...string) {
		in := e.Begin(origin.Add(at))
		defer in.End()
		in.SetResource([]Attr{{"node", String("n1")}}, "")
		in.SetScope(Scope{})
		for _, name := range []string{"other", "busy", "watts"} {
			p := Point{Attrs: []Attr{{"id", String("d1")}}, Time: origin.Add(at).UnixNano(), Value: Double(0.5)}
			if name != "other" {
				for _, source := range sources {
					p.Attrs = append(p.Attrs, Attr{"src", String(source)})
				}
			}
			in.SetMetric(Metric{Name: name, Kind: Gauge})
			in.Add(&p)
		}
	}
	said := func(rows []Row) map[string][]Attr {
		of := map[string][]Attr{}
		for _, r := range rows {
			of[r.Metric.Name] = r.Extra
			assert.Equal(t, []Attr{{"id", String("d1")}}, r.Device)
		}
		return of
	}
	window := func(n int) map[string][]Attr {
		em := e.Fetch(origin.Add(time.Duration(n) * time.Minute))
		defer em.Close()
		return said(em.Next(nil, em.Rows()))
	}
	src := func(source string) []Attr { return []Attr{{"src", String(source)}} }

	add(10*time.Second, "guessed")
	add(50*time.Second, "measured")
	add(70 * time.Second) // of the next window
	e, err := Restore(testSettings(), origin.Add(70*time.Second), time.Time{}, e.Snapshot(nil))
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
	e, err = Restore(testSettings(), origin.Add(190*time.Second), time.Time{}, e.Snapshot(nil))
	require.NoError(t, err)
	rows, _ := e.Expire(origin.Add(time.Hour), nil, 100)
	of = said(rows)
	assert.Equal(t, src("guessed"), of["watts"], "the end is that of the series which was sent")
	assert.Empty(t, of["other"])
}
