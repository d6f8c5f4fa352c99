package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/otelcol-gpu/otelcol-gpu/internal/dcgmsim"
	"github.com/otelcol-gpu/otelcol-gpu/internal/diagnose"
)

func TestSamples(t *testing.T) {
	for _, tt := range []struct {
		line string
		want string
	}{
		{`up 1`, `up = 1`},
		{`a:b{} 2`, `a:b = 2`},
		{`m{a="1",b="2"} 3`, `m a=1 b=2 = 3`},
		{`m{a="1",b="2",} 3 1700000000000`, `m a=1 b=2 = 3`},
		{`m{ a = "1" , b="2" } 3.5e+08`, `m a=1 b=2 = 3.5e+08`},
		{`m{gpu="0", UUID="GPU-1"} 9223372036854775794`, `m gpu=0 UUID=GPU-1 = 9.223372036854776e+18`},
		{`m{a="\"x\\\n"} NaN`, "m a=\"x\\\n = NaN"},
		{`m{a="say "hi", ok",b="{}"} +Inf`, `m a=say "hi", ok b={} = +Inf`},
		{`m{a="",b=""} 0`, `m a= b= = 0`},
		{`m{a="1"}3`, `m a=1 = 3`},
		{`m{a="1"} ERROR - FAILED`, ``},
		{`m{a="1"} abc`, ``},
		{`m{a=1} 3`, ``},
		{`m{a="1} 3`, ``},
		{`m{a="1" 3`, ``},
		{`{a="1"} 3`, ``},
		{`m`, ``},
	} {
		name, read, v, ok := sample(tt.line)
		got := ""
		if ok {
			got = name
			for _, l := range read {
				got += " " + l.Name + "=" + l.Value
			}
			got += fmt.Sprintf(" = %v", v)
		}
		assert.Equal(t, tt.want, got, tt.line)
	}
}

// What Prometheus reads of every generation's text, we read alike.
func TestReadsWhatPrometheusReads(t *testing.T) {
	for _, style := range dcgmsim.Styles() {
		for _, scenario := range []string{dcgmsim.ScenarioMixed, dcgmsim.ScenarioXIDBurst, dcgmsim.ScenarioTimeSliced} {
			body := simulated(t, func(c *dcgmsim.Config) {
				c.Style, c.Scenario, c.GPUs = style, scenario, 2
				if style == dcgmsim.Style45 || style == dcgmsim.Style483 {
					c.Links = 2
				}
			})
			want := prometheusReads(t, body)
			n := 0
			for line := range strings.Lines(body) {
				line = strings.TrimSpace(line)
				if line == "" || line[0] == '#' {
					continue
				}
				name, ls, v, ok := sample(line)
				require.True(t, ok, line)
				got := labels.NewBuilder(labels.EmptyLabels()).Set(labels.MetricName, name)
				for _, l := range ls {
					got.Set(l.Name, l.Value)
				}
				assert.Equal(t, want[n], fmt.Sprint(got.Labels(), v))
				n++
			}
			assert.Len(t, want, n)
		}
	}
}

func prometheusReads(t *testing.T, body string) []string {
	t.Helper()
	var out []string
	p := textparse.NewPromParser([]byte(body), labels.NewSymbolTable(), false)
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(t, err)
		if entry == textparse.EntrySeries {
			_, _, v := p.Series()
			var ls labels.Labels
			p.Labels(&ls)
			out = append(out, fmt.Sprint(ls, v))
		}
	}
}

func TestEscapedLabelsComeBack(t *testing.T) {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringOf(rapid.SampledFrom([]rune{'a', '"', '\\', '\n', ',', '=', '{', '}', ' ', '#', 'é'})).Draw(t, "value")
		other := rapid.StringOf(rapid.SampledFrom([]rune{'a', '"', '\\', ',', '=', '}'})).Draw(t, "other")
		_, got, v, ok := sample(`m{a="` + escape.Replace(value) + `",b="` + escape.Replace(other) + `"} 1`)
		require.True(t, ok)
		require.Equal(t, []diagnose.Label{{Name: "a", Value: value}, {Name: "b", Value: other}}, got)
		require.False(t, math.IsNaN(v))
	})
}
