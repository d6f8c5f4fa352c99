package exposition

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/expositiontest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// render returns one line per sample, grouped by label set. Each line contains the metric name, the
// labels with quoted values, the sample's value, and "counter" if the metric is a counter.
func render(sc *Scrape) []string {
	lines := []string{}
	for _, set := range sc.Sets {
		var labels []string
		for _, l := range set.Labels {
			labels = append(labels, l.Name+"="+strconv.Quote(l.Value))
		}
		for _, s := range set.Samples {
			line := fmt.Sprintf("%s{%s} %v", s.Metric.Name, strings.Join(labels, ","), s.Value)
			if s.Metric.Counter {
				line += " counter"
			}
			lines = append(lines, line)
		}
	}
	return lines
}

// The skipped function returns the number of skipped lines by reason.
func skipped(sc *Scrape) map[Reason]int {
	m := map[Reason]int{}
	for r, n := range sc.Skipped {
		if n > 0 {
			m[Reason(r)] = n
		}
	}
	return m
}

func TestAcceptedDeviations(t *testing.T) {
	for _, tt := range []struct {
		name    string
		body    string
		want    []string
		skipped map[Reason]int
	}{
		{
			name: "a body as dcgm-exporter 4.5 writes it",
			body: "# HELP DCGM_FI_DEV_GPU_TEMP GPU temperature (in C).\n# TYPE DCGM_FI_DEV_GPU_TEMP gauge\n" +
				`DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-1"} 30` + "\n\n" +
				"# HELP DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION Total energy consumption since boot (in mJ).\n" +
				"# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter\n" +
				`DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu="0",UUID="GPU-1"} 4711` + "\n",
			want: []string{
				`DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-1"} 30`,
				`DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu="0",UUID="GPU-1"} 4711 counter`,
			},
		},
		{
			name: "comments first and samples after, as exporter 2.0 writes it",
			body: "# HELP a A.\n# TYPE a gauge\n# HELP b B.\n# TYPE b counter\n" + `a{gpu="0", UUID="GPU-1"} 1` + "\n" + `b{gpu="0", UUID="GPU-1"} 2` + "\n",
			want: []string{`a{gpu="0",UUID="GPU-1"} 1`, `b{gpu="0",UUID="GPU-1"} 2 counter`},
		},
		{
			name: "no HELP and no TYPE at all",
			body: "a{x=\"1\"} 1\nb 2\n",
			want: []string{`a{x="1"} 1`, `b{} 2`},
		},
		{
			name: "HELP and TYPE without samples",
			body: "# HELP a A.\n# TYPE a gauge\nb 2\n# TYPE c counter\n",
			want: []string{`b{} 2`},
		},
		{
			name: "a family twice with HELP and TYPE repeated",
			body: "# HELP a A.\n# TYPE a counter\na{gpu=\"0\"} 1\n# HELP a A.\n# TYPE a counter\na{nvlink=\"1\"} 2\n",
			want: []string{`a{gpu="0"} 1 counter`, `a{nvlink="1"} 2 counter`},
		},
		{
			name: "a TYPE after the samples it belongs to",
			body: "a 1\n# TYPE a counter\n",
			want: []string{`a{} 1 counter`},
		},
		{
			name: "a name declared as counter and as gauge is no counter",
			body: "# TYPE a counter\na 1\n# TYPE a gauge\n# TYPE b gauge\n# TYPE b counter\nb 2\n",
			want: []string{`a{} 1`, `b{} 2`},
		},
		{
			name: "types other than counter",
			body: "# TYPE a untyped\na 1\n# TYPE b histogram\nb_count 2\n# TYPE c\nc 3\n# TYPE d counterfeit\nd 4\n",
			want: []string{`a{} 1`, `b_count{} 2`, `c{} 3`, `d{} 4`},
		},
		{
			name: "blanks in comments",
			body: "#TYPE a counter\n  #\tTYPE\tb   counter  \na 1\nb 2\n",
			want: []string{`a{} 1 counter`, `b{} 2 counter`},
		},
		{
			name: "comments that are neither HELP nor TYPE, and the end mark of OpenMetrics",
			body: "# a comment\n#\n# TYPE\n# TYPE 0x counter\n# UNIT a seconds\na 1\n# EOF\n",
			want: []string{`a{} 1`},
		},
		{
			name: "blanks around everything",
			body: "  a\t{ gpu = \"0\" ,\tUUID=\"GPU-1\" }\t 1 \t\n",
			want: []string{`a{gpu="0",UUID="GPU-1"} 1`},
		},
		{
			name: "no blank between brace and value",
			body: "a{x=\"1\"}5\n",
			want: []string{`a{x="1"} 5`},
		},
		{
			name: "a trailing comma",
			body: "a{x=\"1\",} 1\nb{x=\"1\", } 2\n",
			want: []string{`a{x="1"} 1`, `b{x="1"} 2`},
		},
		{
			name: "an empty label set with and without braces",
			body: "a{} 1\nb 2\nc{ } 3\n",
			want: []string{`a{} 1`, `b{} 2`, `c{} 3`},
		},
		{
			name: "an empty label value is kept",
			body: "a{pod=\"\",gpu=\"0\"} 1\n",
			want: []string{`a{pod="",gpu="0"} 1`},
		},
		{
			name: "line ends of Windows and blank lines",
			body: "# TYPE a counter\r\n\r\na{x=\"1\"} 1\r\n \t \r\nb 2\r\n",
			want: []string{`a{x="1"} 1 counter`, `b{} 2`},
		},
		{
			name: "no newline at the end",
			body: "a 1\nb{x=\"1\"} 2",
			want: []string{`a{} 1`, `b{x="1"} 2`},
		},
		{
			name: "escaped label values",
			body: `a{x="C:\\dir",y="say \"hi\"",z="two\nlines"} 1` + "\n",
			want: []string{`a{x="C:\\dir",y="say \"hi\"",z="two\nlines"} 1`},
		},
		{
			name: "a backslash before another byte stands for itself",
			body: `a{x="\d+\.\w"} 1` + "\n",
			want: []string{`a{x="\\d+\\.\\w"} 1`},
		},
		{
			name: "escaped braces, commas and number signs need no escape",
			body: `a{x="}, y=\"2\" # {",z="3"} 1` + "\n",
			want: []string{`a{x="}, y=\"2\" # {",z="3"} 1`},
		},
		{
			name: "unescaped quotes inside a value",
			body: `a{err_msg="GPU "0" has fallen off the bus",pod="p"} 79` + "\n",
			want: []string{`a{err_msg="GPU \"0\" has fallen off the bus",pod="p"} 79`},
		},
		{
			name: "unescaped quotes at the ends of a value",
			body: `a{x=""quoted"",y=""} 1` + "\n",
			want: []string{`a{x="\"quoted\"",y=""} 1`},
		},
		{
			name: "an unescaped backslash before the closing quote",
			body: `a{path="C:\dir\",gpu="0"} 1` + "\n" + `b{path="C:\"} 2` + "\n",
			want: []string{`a{path="C:\\dir\\",gpu="0"} 1`, `b{path="C:\\"} 2`},
		},
		{
			name: "unescaped braces and commas together with quotes",
			body: `a{json="{"k": "v", "n": [1, 2]}",gpu="0"} 1` + "\n" + `b{json="{"k":"v"}"} 2` + "\n",
			want: []string{`a{json="{\"k\": \"v\", \"n\": [1, 2]}",gpu="0"} 1`, `b{json="{\"k\":\"v\"}"} 2`},
		},
		{
			name: "number signs and equal signs inside an unescaped value",
			body: `a{x="a "b" # c = "d"",y="e"} 1` + "\n",
			want: []string{`a{x="a \"b\" # c = \"d\"",y="e"} 1`},
		},
		{
			name: "a value that looks like the end of the series",
			body: `a{x="} 5",y="z"} 1` + "\n" + `b{x="say "hi"} now"} 2` + "\n",
			want: []string{`a{x="} 5",y="z"} 1`, `b{x="say \"hi\"} now"} 2`},
		},
		{
			name: "blanks and trailing commas around unescaped values",
			body: `a{ x = "say "hi"" , y="2" , } 1` + "\n",
			want: []string{`a{x="say \"hi\"",y="2"} 1`},
		},
		{
			name: "every form of number",
			body: "a 1\nb -1\nc +1\nd 0.500000\ne 1.28996013e+08\nf 1E-3\ng .5\nh 5.\ni NaN\nj +Inf\nk -Inf\nl Inf\nm 1e300\nn 123456789012.345678\n",
			want: []string{
				`a{} 1`, `b{} -1`, `c{} 1`, `d{} 0.5`, `e{} 1.28996013e+08`, `f{} 0.001`, `g{} 0.5`, `h{} 5`,
				`i{} NaN`, `j{} +Inf`, `k{} -Inf`, `l{} +Inf`, `m{} 1e+300`, `n{} 1.2345678901234567e+11`,
			},
		},
		{
			name: "the blanks of DCGM are handed on as they are",
			body: "a 9223372036854775792\nb 2147483632\nc 140737488355328.000000\n",
			want: []string{`a{} 9.223372036854776e+18`, `b{} 2.147483632e+09`, `c{} 1.40737488355328e+14`},
		},
		{
			name:    "values that are not numbers cost their line only",
			body:    "a 1\nb 0x1F\nc ERROR - FAILED TO CONVERT TO STRING\nd <<<NULL>>>\ne 1_000\nf 0x1p-2\ng 1e400\nh 12 apples\ni{x=\"1\"}\nj{x=\"1\"} \nk 2\n",
			want:    []string{`a{} 1`, `k{} 2`},
			skipped: map[Reason]int{ReasonValue: 9},
		},
		{
			name:    "lines that are no samples cost themselves only",
			body:    "a 1\n<html>\n{x=\"1\"} 1\n0a 1\nfoo\nb{x=\"1\" 1\nc{x=1} 1\nd{=\"1\"} 1\ne{x} 1\nf{,x=\"1\"} 1\nh{x=\"1\",,} 1\ni-j 1\nk 2\n",
			want:    []string{`a{} 1`, `k{} 2`},
			skipped: map[Reason]int{ReasonSyntax: 11},
		},
		{
			name:    "timestamps are read over",
			body:    "a 1 1700000000000\nb{x=\"1\"} 2 -5\nc 3 1700000000.123\nd 4 00000000000000000000\ne 5 NaN\nf 6 7 8\n",
			want:    []string{`a{} 1`, `c{} 3`, `d{} 4`, `b{x="1"} 2`},
			skipped: map[Reason]int{ReasonValue: 2},
		},
		{
			name: "exemplars are read over",
			body: "a 1 # {trace_id=\"x\"} 0.5\nb{x=\"1\"} 2 1700000000 # {trace_id=\"y\"} 0.5 1700000000\n",
			want: []string{`a{} 1`, `b{x="1"} 2`},
		},
		{
			name: "the first of several labels with the same name is used", // dcgm-exporter#529: the exporter writes its own "gpu" and "device" labels before the pod's labels with the same names
			body: "a{x=\"1\",x=\"1\"} 1\nb{x=\"1\",y=\"2\",x=\"3\"} 2\nc 3\n",
			want: []string{`a{x="1"} 1`, `b{x="1",y="2"} 2`, `c{} 3`},
		},
		{
			name:    "of identical series the first wins",
			body:    "a{x=\"1\"} 1\na{x=\"1\"} 2\nb 3\na{x=\"1\"} 1\n",
			want:    []string{`a{x="1"} 1`, `b{} 3`},
			skipped: map[Reason]int{ReasonDuplicateSeries: 2},
		},
		{
			name:    "series that differ in blanks, order of labels and escapes only are identical",
			body:    "a{x=\"1\",y=\"é\"} 1\na{y=\"é\", x=\"1\"} 2\na { x=\"1\",y=\"é\",} 3\nb 4\nb{} 5\n",
			want:    []string{`a{x="1",y="é"} 1`, `b{} 4`},
			skipped: map[Reason]int{ReasonDuplicateSeries: 3},
		},
		{
			name: "series with equal labels in another order share a set",
			body: "a{x=\"1\",y=\"2\"} 1\nb{y=\"2\",x=\"1\"} 2\nc{ y=\"2\" , x=\"1\" } 3\n",
			want: []string{`a{x="1",y="2"} 1`, `b{x="1",y="2"} 2`, `c{x="1",y="2"} 3`},
		},
		{
			name: "UTF-8 is kept and what is no UTF-8 is replaced",
			body: "a{x=\"Grüße 🚀\"} 1\nb{x=\"\xff\xfe.\xc3\"} 2\n",
			want: []string{`a{x="Grüße 🚀"} 1`, "b{x=\"\uFFFD.\uFFFD\"} 2"},
		},
		{
			name:    "bytes that are no text",
			body:    "\x00\x01\x02\xff\n\x1f\x8b\x08\x00 1\n",
			skipped: map[Reason]int{ReasonSyntax: 2},
		},
		{
			name: "a line of 64 KiB and more",
			body: "a{x=\"1\"} 1 # " + strings.Repeat("y", 100_000) + "\n",
			want: []string{`a{x="1"} 1`},
		},
		{
			name:    "a line beyond the limit",
			body:    "a 1\nb{x=\"" + strings.Repeat("y", MaxLine) + "\"} 2\nc 3\n",
			want:    []string{`a{} 1`, `c{} 3`},
			skipped: map[Reason]int{ReasonLineTooLong: 1},
		},
		{
			name:    "more labels than a series may have",
			body:    "a{" + manyLabels(MaxLabels) + "} 1\nb{" + manyLabels(MaxLabels+1) + "} 2\nc 3\n",
			want:    []string{"a{" + manyLabels(MaxLabels) + "} 1", `c{} 3`},
			skipped: map[Reason]int{ReasonTooManyLabels: 1},
		},
		{name: "nothing"},
		{name: "blank lines only", body: "\n \n\t\r\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.skipped == nil {
				tt.skipped = map[Reason]int{}
			}
			if tt.want == nil {
				tt.want = []string{}
			}
			p := NewParser()
			for _, state := range []string{"cold", "warm", "warm again"} {
				sc := p.Parse([]byte(tt.body))
				got := render(sc)
				assert.Equal(t, tt.want, got, state)
				assert.Equal(t, tt.skipped, skipped(sc), state)
				assert.Equal(t, len(tt.want), sc.Samples, state)
				total := 0
				for _, n := range tt.skipped {
					total += n
				}
				assert.Equal(t, total, sc.BadLines(), state)
				assert.False(t, sc.TooLarge)
			}
			for line := range strings.SplitSeq(tt.body, "\n") {
				assertReadAlone(t, []byte(line))
			}
		})
	}
}

func manyLabels(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(`l%d="v"`, i)
	}
	return strings.Join(list, ",")
}

func TestSetsAreInTheOrderOfTheirFirstSample(t *testing.T) {
	sc := NewParser().Parse([]byte("a{x=\"1\"} 1\na{x=\"2\"} 2\nb 3\nb{x=\"2\"} 4\nb{x=\"1\"} 5\n"))
	assert.Equal(t, []string{
		`a{x="1"} 1`, `b{x="1"} 5`, `a{x="2"} 2`, `b{x="2"} 4`, `b{} 3`,
	}, render(sc))
}

func TestOneSetPerMIGInstance(t *testing.T) {
	sc := NewParser().Parse(expositiontest.Node(8, 7))
	assert.Len(t, sc.Sets, 8*7)
	assert.Equal(t, 8*7*expositiontest.FieldCount, sc.Samples)
	for _, set := range sc.Sets {
		assert.Len(t, set.Samples, expositiontest.FieldCount)
	}
}

func TestTheResultDoesNotDependOnEarlierBodies(t *testing.T) {
	bodies := map[string]string{
		"the series":            "# TYPE a counter\na{x=\"1\"} 1\nb{x=\"1\"} 2\nc{x=\"1\"} 3\n",
		"another order":         "c{x=\"1\"} 3\na{x=\"1\"} 1\nb{x=\"1\"} 2\n",
		"without the TYPE line": "a{x=\"1\"} 1\nb{x=\"1\"} 2\n",
		"another type":          "# TYPE a gauge\n# TYPE b counter\na{x=\"1\"} 1\nb{x=\"1\"} 2\n",
		"fewer series":          "b{x=\"1\"} 5\n",
		"bad values":            "a{x=\"1\"} x\nb{x=\"1\"} 1 x\nc{x=\"1\"}\n",
		"a longer name":         "aa{x=\"1\"} 1\n",
		"exemplars":             "a{x=\"1\"} 1 # {y=\"2\"} 5\nb{x=\"1\"} 2 # {}\n",
		"a brace in a value":    "a{x=\"1\"} 1\"} 2\nb{x=\"1\"} 3 # {y=\"2\"}4\n",
		"duplicates":            "a{x=\"1\"} 1\na{x=\"1\"} 2\nb{x=\"1\"} 2\n",
		"Windows":               "a{x=\"1\"} 1\r\nb{x=\"1\"} 2\r\n",
		"cut off":               "a{x=\"1\"} 1\nb{x=\"1\"} 2",
		"a truncated text":      "a{x=\"1\"} 1\nb{x=\"1",
		"nothing":               "",
	}
	for first, a := range bodies {
		for second, b := range bodies {
			t.Run(first+" then "+second, func(t *testing.T) {
				want := NewParser().Parse([]byte(b))
				p := NewParser()
				p.Parse([]byte(a))
				got := p.Parse([]byte(b))
				assert.Equal(t, want.Skipped, got.Skipped)
				// Scrapes of the same body can differ only in the order of each set's labels, which
				// depends on the first body that contained the set. In this test, each label set
				// has at most one label.
				assert.Equal(t, render(want), render(got))
			})
		}
	}
}

func TestSeriesWithTheSameHashAreDistinguished(t *testing.T) {
	p := NewParser()
	p.Parse([]byte("a{x=\"1\"} 1\nb{x=\"1\"} 2\n"))
	other := []byte(`a{x="2"}`)
	for _, s := range p.texts {
		if s.metric.Name == "a" {
			p.texts[p.hash(other)] = s
		}
	}
	assert.Nil(t, p.lookup(other))
	assert.Equal(t, []string{`a{x="2"} 3`}, render(p.Parse([]byte(`a{x="2"} 3`))))
	assert.Equal(t, []string{`a{x="2"} 3`}, render(p.Parse([]byte(`a{x="2"} 3`))), "both texts have the same hash")
}

func TestTheSteadyStateDoesNotAllocate(t *testing.T) {
	for name, body := range map[string][]byte{
		"the reference load":              expositiontest.Node(8, 7),
		"another text style":              []byte("a{ x = \"say \"hi\"\" } 1.5 1700000000000\r\nb{y=\"2\"} NaN # {t=\"1\"} 1\r\n"),
		"numbers that strconv must parse": []byte("a 123456789012.345678\nb 9223372036854775792\nc 1e-30\n"),
	} {
		t.Run(name, func(t *testing.T) {
			p := NewParser()
			require.Positive(t, p.Parse(body).Samples)
			assert.Zero(t, testing.AllocsPerRun(10, func() { p.Parse(body) }))
		})
	}
}

func TestLabelChurnDoesNotGrowTheCache(t *testing.T) {
	const perBody = 500
	p := NewParser()
	for scrape := range 200 {
		var b []byte
		for i := range perBody {
			b = fmt.Appendf(b, "# TYPE m%d_%d counter\nm%d_%d{pod=\"p-%d-%d\"} 1\n", scrape, i, scrape, i, scrape, i)
		}
		require.Equal(t, perBody, p.Parse(b).Samples)
		assert.LessOrEqual(t, p.CacheSize(), 3*perBody+sweepSlack)
		assert.LessOrEqual(t, len(p.metrics), 3*perBody+sweepSlack)
		assert.LessOrEqual(t, len(p.sets), 3*perBody+sweepSlack)
	}
	for range 3 {
		p.Parse([]byte("m{pod=\"p\"} 1\n"))
	}
	assert.LessOrEqual(t, p.CacheSize(), 1+sweepSlack)
	for s := p.first.next; s != nil; s = s.next {
		assert.GreaterOrEqual(t, s.seen, p.generation-1, "a dropped series is still reachable")
	}
}

func TestCommentsDoNotGrowTheCache(t *testing.T) {
	p := NewParser()
	for scrape := range 200 {
		var b []byte
		for i := range 500 {
			b = fmt.Appendf(b, "# TYPE m%d_%d counter\n", scrape, i)
		}
		p.Parse(b)
		assert.LessOrEqual(t, len(p.metrics), 3*500+sweepSlack)
	}
}

func TestASeriesThatIsMissingFromOneScrapeStaysCached(t *testing.T) {
	p := NewParser()
	full := expositiontest.Node(1, 7)
	p.Parse(full)
	size := p.CacheSize()
	p.Parse([]byte("a 1\n"))
	p.Parse(full)
	assert.Equal(t, size+1, p.CacheSize())
	assert.Zero(t, testing.AllocsPerRun(3, func() { p.Parse(full) }))
}

func TestABodyWithTooManyItemsIsDropped(t *testing.T) {
	for name, body := range map[string]string{
		"samples": strings.Repeat("a 1\n", 10) + "b 1\nc 1\nd 1\ne 1\nf 1\n",
		"labels":  `a{l1="",l2="",l3="",l4="",l5=""} 1` + "\n",
		"types":   "# TYPE a gauge\n# TYPE b gauge\n# TYPE c gauge\n# TYPE d gauge\n# TYPE e gauge\nf 1\n",
	} {
		t.Run(name, func(t *testing.T) {
			p := NewParser()
			p.maxItems = 4
			for range 2 {
				sc := p.Parse([]byte(body))
				assert.True(t, sc.TooLarge)
				assert.Zero(t, sc.Samples)
				assert.Empty(t, sc.Sets)
				assert.Zero(t, p.CacheSize())
			}
			sc := p.Parse([]byte("a 1\nb 1\n"))
			assert.False(t, sc.TooLarge)
			assert.Equal(t, []string{`a{} 1`, `b{} 1`}, render(sc))
		})
	}
}

// Parsing the lines in this test would take hours if the parser searched from each quote to the end
// of the line.
func TestUnescapedValuesAreParsedInLinearTime(t *testing.T) {
	for _, filling := range []string{`"}`, `"} `, `",`, `", a`, `",a=`, `"} 1 `, `"}1`, `\"`, `"`} {
		t.Run(filling, func(t *testing.T) {
			n := (MaxLine - 64) / len(filling)
			sc := NewParser().Parse([]byte(`a{x="` + strings.Repeat(filling, n) + `y"} 7` + "\n"))
			assert.Equal(t, 1, sc.Samples+sc.BadLines())
		})
	}
}

func TestReasonsHaveNames(t *testing.T) {
	names := map[string]bool{}
	for r := range NumReasons {
		names[r.String()] = true
	}
	assert.Equal(t, []string{"duplicate_series", "label_too_long", "line_too_long", "syntax", "timestamp", "too_many_labels", "value"},
		slices.Sorted(maps.Keys(names)))
}
