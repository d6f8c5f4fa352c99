package gpuwindowprocessor

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/confmaptest"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor/internal/window"
)

// TestSpec runs every file under testdata/spec. Each file contains time series and the expected
// windows. The syntax is described in testdata/README.md.
func TestSpec(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "spec", "*.test"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".test")
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, again := range []bool{false, true} {
				run := "straight"
				if again {
					// After every batch, the engine is replaced with an engine that is restored
					// from the stored state. The results must be the same.
					run = "restarted after every batch"
				}
				t.Run(run, func(t *testing.T) {
					s := &spec{t: t, restart: again, cfg: createDefaultConfig().(*Config), got: map[time.Duration]*specWindow{}}
					s.run(string(text))
				})
			}
		})
	}
}

// specOrigin is time 0 in all specs. For any window length that divides a day evenly, a window ends
// at specOrigin.
var specOrigin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const (
	specDevice = "GPU-a"
	specNode   = "node-1"
)

// spec is the state of one run of a spec file.
type spec struct {
	t       *testing.T
	line    int
	restart bool
	cfg     *Config
	engine  *window.Engine
	clock   time.Duration
	got     map[time.Duration]*specWindow
	ended   map[string]float64
	stats   window.Stats
}

// specWindow is the output of one window.
type specWindow struct {
	emitted, carried map[string]float64
	expected         bool
}

// specBlock is a statement and the indented lines below it.
type specBlock struct {
	line  int
	head  string
	lines []string
}

func (s *spec) run(text string) {
	var blocks []specBlock
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case trimmed == "" || strings.HasPrefix(trimmed, "#"):
		case line[0] == ' ' || line[0] == '\t':
			require.NotEmpty(s.t, blocks, "line %d: indented line without a statement", i+1)
			last := &blocks[len(blocks)-1]
			last.lines = append(last.lines, trimmed)
		default:
			blocks = append(blocks, specBlock{line: i + 1, head: trimmed})
		}
	}
	expectations := 0
	for _, b := range blocks {
		s.line = b.line
		word, rest, _ := strings.Cut(b.head, " ")
		if word == "config" {
			s.config(b)
			continue
		}
		if s.engine == nil {
			require.NoError(s.t, confmap.Validate(s.cfg))
			s.engine = window.New(s.cfg.settings(), specOrigin)
		}
		switch strings.TrimSuffix(word, ":") {
		case "load":
			s.load(rest, b.lines)
		case "clock":
			s.setClock(s.duration(rest))
		case "window":
			expectations++
			s.expectWindow(rest, b.lines)
		case "carried":
			expectations++
			s.expectCarried(rest, b.lines)
		case "ended":
			expectations++
			s.expect(s.ended, b.lines, nil)
			s.ended = nil
		case "counted":
			expectations++
			s.expectCounted(rest)
		default:
			s.fail("unknown statement %q", word)
		}
	}
	require.Positive(s.t, expectations, "the spec has no expectations")
	for end, w := range s.got {
		if len(w.emitted) > 0 {
			assert.True(s.t, w.expected, "window %s was sent but not expected: %v", end, w.emitted)
		}
	}
}

func (s *spec) fail(format string, args ...any) {
	s.t.Helper()
	s.t.Fatalf("line %d: %s", s.line, fmt.Sprintf(format, args...))
}

func (s *spec) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		s.fail("%v", err)
	}
	return d
}

// config reads the configuration of the processor. The configuration is either in the lines of the
// statement, with one setting per line, or in the file that the statement names.
func (s *spec) config(b specBlock) {
	file := filepath.Join("testdata", "spec", strings.TrimSpace(strings.TrimPrefix(b.head, "config")))
	if len(b.lines) > 0 {
		file = filepath.Join(s.t.TempDir(), "config.yaml")
		require.NoError(s.t, os.WriteFile(file, []byte(strings.Join(b.lines, "\n")), 0o600))
	}
	conf, err := confmaptest.LoadConf(file)
	require.NoError(s.t, err)
	require.NoError(s.t, conf.Unmarshal(s.cfg))
}

// specSeries is one line of a load statement.
type specSeries struct {
	metric   window.Metric
	resource pcommon.Map
	attrs    pcommon.Map
	values   []window.Point
}

func (s *spec) load(head string, lines []string) {
	fields := strings.Fields(head)
	if len(fields) == 0 {
		s.fail("load needs a step")
	}
	step := s.duration(fields[0])
	var from time.Duration
	at := time.Duration(-1)
	for i := 1; i+1 < len(fields); i += 2 {
		switch fields[i] {
		case "from":
			from = s.duration(fields[i+1])
		case "at":
			at = s.duration(fields[i+1])
		default:
			s.fail("unknown option %q", fields[i])
		}
	}
	var all []specSeries
	columns := 0
	for _, line := range lines {
		series := s.series(line)
		columns = max(columns, len(series.values))
		all = append(all, series)
	}
	for c := range columns {
		offset := from + time.Duration(c)*step
		now := offset
		if at >= 0 {
			now = at
		}
		if now > s.clock || at >= 0 {
			s.setClock(now)
		}
		in := s.engine.Begin(specOrigin.Add(s.clock))
		for _, series := range all {
			if c >= len(series.values) || series.values[c].Time < 0 {
				continue
			}
			p := series.values[c]
			var resource placedResource
			resource.set(series.resource, "")
			resource.setPoint(in, &p, series.attrs)
			p.Time = specOrigin.Add(offset).UnixNano()
			if series.metric.Name == signal.GPUExporterUp.Name {
				in.RecordArrival(resource.ofDevices.Key.Place.Node, p.Time)
				continue
			}
			in.SetScope(window.Scope{Name: "spec"})
			in.SetMetric(series.metric)
			in.Resolve(&p)
		}
		in.End()
		s.maybeRestart()
	}
}

func (s *spec) maybeRestart() {
	if !s.restart {
		return
	}
	now := specOrigin.Add(s.clock)
	s.addStats(s.engine.Stats())
	s.engine.Stop()
	e, err := window.Restore(s.cfg.settings(), now, time.Unix(0, 0), states(s.engine)...)
	require.NoError(s.t, err)
	s.engine = e
}

func (s *spec) addStats(n window.Stats) {
	for i := range n.Samples {
		s.stats.Samples[i] += n.Samples[i]
	}
	s.stats.Clamped += n.Clamped
	s.stats.WindowsDropped += n.WindowsDropped
	s.stats.ClockSteps += n.ClockSteps
	s.stats.SeriesEnded += n.SeriesEnded
}

// series parses a line of the form metric{key=value,...} [on node[/pod]] values...
func (s *spec) series(line string) specSeries {
	name, rest := line, ""
	var series specSeries
	if i := strings.IndexAny(line, "{ "); i >= 0 {
		name, rest = line[:i], line[i:]
	}
	series.attrs, series.resource = pcommon.NewMap(), pcommon.NewMap()
	series.attrs.PutStr(signal.HardwareID, specDevice)
	if strings.HasPrefix(rest, "{") {
		inner, after, ok := strings.Cut(rest[1:], "}")
		if !ok {
			s.fail("missing }")
		}
		rest = after
		for pair := range strings.SplitSeq(inner, ",") {
			k, v, _ := strings.Cut(strings.TrimSpace(pair), "=")
			switch {
			case k == "":
			case k == signal.HardwareID && v == "":
				series.attrs.Remove(k)
			default:
				series.attrs.PutStr(k, v)
			}
		}
	}
	base, suffix, _ := strings.Cut(name, "!")
	series.metric = window.Metric{Name: base}
	if m, ok := signal.Lookup(base); ok {
		series.metric.Unit, series.metric.Description, series.metric.Kind = m.Unit, m.Description, m.Kind
	}
	switch suffix {
	case "counter":
		series.metric.Kind = signal.Counter
	case "sum":
		series.metric.Kind = signal.UpDownCounter
	}
	fields := strings.Fields(rest)
	place := specNode
	if len(fields) > 1 && fields[0] == "on" {
		place, fields = fields[1], fields[2:]
	}
	node, pod, _ := strings.Cut(place, "/")
	series.resource.PutStr(signal.K8sNodeName, node)
	if pod != "" {
		series.resource.PutStr(signal.K8sPodName, pod)
	}
	for _, f := range fields {
		series.values = append(series.values, s.values(f)...)
	}
	return series
}

// gap is a missing point.
var gap = window.Point{Time: -1}

func (s *spec) values(field string) []window.Point {
	times := 1
	if head, n, ok := strings.Cut(field, "x"); ok {
		count, err := strconv.Atoi(n)
		if err != nil {
			s.fail("bad repetition %q", field)
		}
		field, times = head, count
	}
	var start int64
	if head, at, ok := strings.Cut(field, "@"); ok {
		start = specOrigin.Add(s.duration(at)).UnixNano()
		field = head
	}
	var out []window.Point
	switch field {
	case "_":
		return slices.Repeat([]window.Point{gap}, times)
	case "stale", "empty":
		return slices.Repeat([]window.Point{{Value: window.Double(math.NaN())}}, times)
	}
	var step float64
	if i := strings.LastIndexAny(field, "+-"); i > 0 && field[i-1] != 'e' && !strings.Contains(field, "nf") {
		step = s.number(field[i:])
		field = field[:i]
	}
	v := s.number(field)
	for range times {
		out = append(out, window.Point{Value: window.Double(v), Start: start})
		v += step
	}
	return out
}

func (s *spec) number(text string) float64 {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		s.fail("%v", err)
	}
	return v
}

// setClock sets the wall clock to the given time and fetches the windows that are closed at that
// time.
func (s *spec) setClock(to time.Duration) {
	s.clock = to
	now := specOrigin.Add(to)
	upTo, _ := s.engine.ClosedUpTo(now)
	s.fetch(upTo)
	var rows []window.Row
	for more := true; more; {
		rows, more = s.engine.Expire(now, rows, len(rows)+2)
	}
	for _, r := range rows {
		require.True(s.t, r.Ended)
		if s.ended == nil {
			s.ended = map[string]float64{}
		}
		s.put(s.ended, r, time.Unix(0, r.Time).Sub(specOrigin).Seconds())
	}
}

func (s *spec) fetch(upTo time.Time) {
	for em := s.engine.Fetch(upTo); em != nil; em = s.engine.Fetch(upTo) {
		w := &specWindow{emitted: map[string]float64{}, carried: map[string]float64{}}
		end := em.End().Sub(specOrigin)
		require.NotContains(s.t, s.got, end, "a window was sent twice")
		s.got[end] = w
		var rows []window.Row
		for more := true; more; {
			rows, more = em.Next(rows, len(rows)+1)
		}
		em.Close()
		for _, r := range rows {
			if r.Scope != nil {
				s.put(w.carried, r, r.Value.Float())
				continue
			}
			require.Equal(s.t, em.End().UnixNano(), r.Time)
			require.Equal(s.t, em.End().Add(-s.cfg.Window).UnixNano(), r.Start)
			s.put(w.emitted, r, r.Value.Float())
		}
	}
}

// put stores the value of a row. The key is the text that identifies the series in the expectations
// of a spec.
func (s *spec) put(to map[string]float64, r window.Row, value float64) {
	var attrs []string
	for a := range (r.Own + r.Device + r.Extra).All() {
		if a.Key != signal.HardwareID || a.Value != specDevice {
			attrs = append(attrs, a.Key+"="+a.Value)
		}
	}
	slices.Sort(attrs)
	text := r.Metric.Name
	if len(attrs) > 0 {
		text += "{" + strings.Join(attrs, ",") + "}"
	}
	var place []string
	for a := range r.Resource.Attrs.All() {
		place = append(place, a.Value)
	}
	if at := strings.Join(place, "/"); at != specNode {
		text += " on " + at
	}
	require.NotContains(s.t, to, text, "a series was sent twice in one window")
	to[text] = value
}

func (s *spec) expectWindow(head string, lines []string) {
	end, inline, ok := strings.Cut(head, ":")
	if !ok {
		s.fail("window needs a colon")
	}
	at := s.duration(end)
	if s.clock < at+s.cfg.Grace {
		s.setClock(at + s.cfg.Grace)
	}
	w := s.got[at]
	if strings.TrimSpace(inline) == "nothing" {
		if w != nil {
			assert.Empty(s.t, w.emitted, "line %d", s.line)
		}
		return
	}
	if w == nil {
		s.fail("no window left")
	}
	w.expected = true
	aliases := map[string]string{"samples": signal.WindowSamples.Name, "coverage": signal.WindowCoverage.Name}
	for pair := range strings.FieldsSeq(inline) {
		k, v, _ := strings.Cut(pair, "=")
		lines = append(lines, cmp.Or(aliases[k], k)+" = "+v)
	}
	// Metrics that exist in every window are compared only if the spec names them.
	about := func(name string) bool {
		return slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, name) })
	}
	s.expect(w.emitted, lines, func(text string) bool {
		for _, name := range aliases {
			if strings.HasPrefix(text, name) && !about(name) {
				return true
			}
		}
		return false
	})
}

func (s *spec) expectCarried(head string, lines []string) {
	w := s.got[s.duration(strings.TrimSuffix(head, ":"))]
	if w == nil {
		s.fail("no window left")
	}
	s.expect(w.carried, lines, nil)
}

// expect compares the actual values with the expected values, which are lines of the form "series =
// value".
func (s *spec) expect(got map[string]float64, lines []string, skip func(string) bool) {
	want := map[string]float64{}
	for _, line := range lines {
		i := strings.LastIndex(line, " = ")
		if i < 0 {
			s.fail("expectation without a value: %q", line)
		}
		want[line[:i]] = s.number(line[i+3:])
	}
	for _, text := range slices.Sorted(maps.Keys(got)) {
		v, ok := want[text]
		if !ok {
			if skip == nil || !skip(text) {
				s.t.Errorf("line %d: unexpected %s = %v", s.line, text, got[text])
			}
			continue
		}
		if math.Abs(v-got[text]) > 1e-9*max(1, math.Abs(v)) {
			s.t.Errorf("line %d: %s is %v, not %v", s.line, text, got[text], v)
		}
		delete(want, text)
	}
	for text := range want {
		s.t.Errorf("line %d: %s is absent", s.line, text)
	}
}

// expectCounted compares the counts since the start of the file. If an outcome other than accepted
// is not named, its count must be 0.
func (s *spec) expectCounted(head string) {
	before := s.stats
	s.addStats(s.engine.Stats())
	got := s.stats
	s.stats = before
	counts := map[string]uint64{
		"clamped": got.Clamped, "windows_dropped": got.WindowsDropped,
		"clock_steps": got.ClockSteps, "series_ended": got.SeriesEnded,
	}
	for o := range window.Outcomes {
		if o != window.Accepted {
			counts[o.String()] = got.Samples[o]
		}
	}
	want := map[string]uint64{}
	for pair := range strings.FieldsSeq(head) {
		k, v, _ := strings.Cut(pair, "=")
		n, err := strconv.ParseUint(v, 10, 64)
		if _, known := counts[k]; !known || err != nil {
			s.fail("unknown count %q", pair)
		}
		want[k] = n
	}
	for k, n := range counts {
		assert.Equal(s.t, want[k], n, "line %d: %s", s.line, k)
	}
}
