package exposition

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/expositiontest"
)

// oracle is the result of parsing a body with Prometheus's own parser.
type oracle struct {
	values   map[string][]float64 // Values of each series, by seriesKey.
	counters map[string]bool      // True for each name whose TYPE lines all declare a counter.
}

// commonForm matches lines that conform to the specification of the text format. For lines that do
// not conform, the results of the two parsers may differ, because they accept different extensions
// of the format. Prometheus accepts quoted names, labels that are not separated by commas, names
// without a following space, newlines inside values, names with leading spaces, and any byte
// between the name and the type in a TYPE line. Package exposition accepts label values that are
// not escaped.
var commonForm = func() *regexp.Regexp {
	const (
		blank   = `[ \t]*`
		name    = `[a-zA-Z_:][a-zA-Z0-9_:]*`
		comment = `#(?:[ \t]+(?:HELP|TYPE)[ \t]+` + name + `(?:[ \t][^"]*)?|` + blank + `[^HT" \t][^"]*)?`
		label   = `[a-zA-Z_][a-zA-Z0-9_]*` + blank + `=` + blank + `"(?:[^"\\]|\\.)*"`
		set     = `\{` + blank + `(?:` + label + `(?:` + blank + `,` + blank + label + `)*(?:` + blank + `,)?)?` + blank + `\}`
		value   = `[^ \t{}"#]+(?:[ \t]+-?[0-9]+)?`
	)
	return regexp.MustCompile(`^(?:` + comment + `|` + name + `(?:` + blank + set + blank + `|[ \t]+)` + value + blank + `)?$`)
}()

// parseWithPrometheus parses a body with Prometheus's parser. If Prometheus rejects the body or a
// line does not match commonForm, parseWithPrometheus returns nil.
func parseWithPrometheus(body []byte) *oracle {
	if bytes.IndexByte(body, 0) >= 0 {
		return nil // Prometheus stops parsing at a line that contains a zero byte
	}
	for line := range bytes.Lines(body) {
		if !commonForm.Match(bytes.TrimSuffix(line, []byte{'\n'})) || bytes.Contains(line, []byte("__name__")) {
			return nil
		}
	}
	o := &oracle{values: map[string][]float64{}, counters: map[string]bool{}}
	p := textparse.NewPromParser(slices.Clone(body), labels.NewSymbolTable(), false)
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			return o
		}
		if err != nil {
			return nil
		}
		switch entry {
		case textparse.EntryType:
			name, kind := p.Type()
			was, repeated := o.counters[string(name)]
			o.counters[string(name)] = kind == model.MetricTypeCounter && (was || !repeated)
		case textparse.EntrySeries:
			var ls labels.Labels
			p.Labels(&ls)
			if _, duplicate := ls.HasDuplicateLabelNames(); duplicate {
				return nil // Prometheus rejects the entire body if a series has duplicate label names
			}
			byName := map[string]string{}
			ls.Range(func(l labels.Label) { byName[l.Name] = l.Value })
			_, _, v := p.Series()
			key := seriesKey(byName)
			o.values[key] = append(o.values[key], v)
		}
	}
}

// seriesKey returns a key that identifies a series. Like Prometheus, seriesKey ignores labels with
// an empty value.
func seriesKey(byName map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		if byName[name] != "" {
			fmt.Fprintf(&b, "%s=%q ", name, byName[name])
		}
	}
	return b.String()
}

// assertAgrees asserts that a scrape contains the same values and types as the oracle for the same
// body.
func assertAgrees(t testing.TB, want *oracle, sc *Scrape) {
	t.Helper()
	got := map[string][]float64{}
	for _, set := range sc.Sets {
		byName := map[string]string{}
		for _, l := range set.Labels {
			byName[l.Name] = l.Value
		}
		for _, s := range set.Samples {
			byName["__name__"] = s.Metric.Name
			key := seriesKey(byName)
			got[key] = append(got[key], s.Value)
			assert.Equal(t, want.counters[s.Metric.Name], s.Metric.Counter, "whether %s is a counter", s.Metric.Name)
		}
	}
	assert.Equal(t, slices.Sorted(maps.Keys(want.values)), slices.Sorted(maps.Keys(got)))
	for key, values := range got {
		for _, v := range values {
			// Package exposition keeps labels with an empty value, but Prometheus's parser does
			// not. Therefore, several series may have the same key.
			assert.True(t, slices.ContainsFunc(want.values[key], func(w float64) bool {
				return w == v || math.IsNaN(w) && math.IsNaN(v)
			}), "%s: %v is none of %v", key, v, want.values[key])
		}
	}
}

func TestAGeneratedNodeIsParsedAsPrometheusParsesIt(t *testing.T) {
	body := expositiontest.Node(2, 7)
	want := parseWithPrometheus(body)
	require.NotNil(t, want)
	assertAgrees(t, want, NewParser().Parse(body))
}

func TestRecordedOutputsAreParsedAsPrometheusParsesThem(t *testing.T) {
	compared := 0
	for _, path := range expositiontest.Recordings(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			body, err := os.ReadFile(path)
			require.NoError(t, err)
			p := NewParser()
			cold := p.Parse(body)
			require.Positive(t, cold.Samples)
			if filepath.Base(path) == "intel_xpum1_flex140_issue112.prom" {
				assert.Equal(t, map[Reason]int{ReasonDuplicateSeries: 1}, skipped(cold), "the exporter printed one series twice")
			} else {
				assert.Empty(t, skipped(cold))
			}
			first := render(cold)
			warm := p.Parse(body)
			assert.Equal(t, first, render(warm))
			want := parseWithPrometheus(body)
			if want == nil {
				t.Log("Prometheus does not accept this recording")
				return
			}
			compared++
			assertAgrees(t, want, warm)
		})
	}
	assert.Positive(t, compared, "Prometheus accepted none of the recordings")
}

// FuzzParse checks the parser's guarantees for any two consecutive bodies from one endpoint.
func FuzzParse(f *testing.F) {
	f.Add([]byte("# TYPE a counter\na{x=\"1\"} 1\n"), []byte("a{x=\"1\"} 2\n"))
	f.Add([]byte("a{x=\"say \"hi\"\",y=\"2\"} 1 1700000000 # {t=\"1\"} 2\r\n"), []byte("a{ y = \"2\", x=\"\\\"\" , } NaN"))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		honors := len(first)%2 == 1
		parser := func() *Parser {
			p := NewParser()
			if honors {
				p.HonorTimestamps(time.UnixMilli(0), time.UnixMilli(2e12))
			}
			return p
		}
		p := parser()
		p.Parse(first)
		for _, body := range [][]byte{second, first, second} {
			got, want := p.Parse(body), parser().Parse(body)
			require.Equal(t, want.Samples, got.Samples)
			require.Equal(t, want.Skipped, got.Skipped)
			require.Equal(t, canonical(want), canonical(got))
			read, err := p.Read(iotest.OneByteReader(bytes.NewReader(body)))
			require.NoError(t, err)
			require.Equal(t, want.Skipped, read.Skipped)
			require.Equal(t, canonical(want), canonical(read))
		}
		lines := strings.Count(string(first), "\n") + strings.Count(string(second), "\n") + 2
		require.LessOrEqual(t, p.CacheSize(), 2*lines)
		if want, got := parseWithPrometheus(second), p.Parse(second); want != nil && !honors && !got.limited() {
			assertAgrees(t, want, got)
		}
		for line := range bytes.SplitSeq(second, []byte{'\n'}) {
			assertReadAlone(t, line)
		}
	})
}

// The limited function reports whether the parser skipped lines because they exceed limits that
// Prometheus does not have.
func (s *Scrape) limited() bool {
	return s.Skipped[ReasonLineTooLong]+s.Skipped[ReasonTooManyLabels]+s.Skipped[ReasonLabelTooLong] > 0
}

// assertReadAlone asserts that ReadLine and a Parser return the same result for a line.
func assertReadAlone(t testing.TB, line []byte) {
	t.Helper()
	if text := trim(line); len(text) == 0 || text[0] == '#' {
		return
	}
	want := NewParser().Parse(line)
	got, reason, ok := ReadLine(line)
	require.Equal(t, want.Samples == 1, ok, "%q", line)
	if !ok {
		require.Equal(t, map[Reason]int{reason: 1}, skipped(want), "%q", line)
		return
	}
	sample := want.Sets[0].Samples[0]
	require.Equal(t, sample.Metric.Name, got.Name, "%q", line)
	require.Equal(t, want.Sets[0].Labels, got.Labels, "%q", line)
	require.Equal(t, math.Float64bits(sample.Value), math.Float64bits(got.Value), "%q", line)
}

// The canonical function formats a scrape with sorted labels. In the scrape itself, the order of a
// set's labels depends on the first body that contained the set.
func canonical(sc *Scrape) []string {
	lines := []string{}
	for _, set := range sc.Sets {
		sorted := slices.SortedFunc(slices.Values(set.Labels), func(a, b Label) int { return strings.Compare(a.Name, b.Name) })
		for i, s := range set.Samples {
			at := int64(0)
			if i < len(set.Times) {
				at = set.Times[i]
			}
			lines = append(lines, fmt.Sprintf("%s%q %v %t %d", s.Metric.Name, sorted, s.Value, s.Metric.Counter, at))
		}
	}
	return lines
}
