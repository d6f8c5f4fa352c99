package exposition

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/otelcol-gpu/otelcol-gpu/internal/dcgmsim"
)

func TestASingleLineIsParsed(t *testing.T) {
	for _, tt := range []struct {
		line string
		want string
	}{
		{`up 1`, `up[] 1`},
		{`a:b{} 2`, `a:b[] 2`},
		{"  m{ a = \"1\" , b=\"2\", } 3.5e+08 1700000000000\r", `m[{a 1} {b 2}] 3.5e+08`},
		{`m{a="\"x\\"} NaN`, `m[{a "x\}] NaN`},
		{`m{a="say "hi", ok",b="{}"} +Inf`, `m[{a say "hi", ok} {b {}}] +Inf`},
		{`m{a="1",b="3",a="2",a="1"} 1`, `m[{a 1} {b 3}] 1`},
		{`m{` + manyLabels(MaxLabels+1) + `} 1`, "too_many_labels"},
		{`m{a="1"} ERROR - FAILED`, "value"},
		{`m{a="1" 3`, "syntax"},
		{`m{a="` + strings.Repeat("x", MaxLine) + `"} 1`, "line_too_long"},
	} {
		line, reason, ok := ReadLine([]byte(tt.line))
		got := reason.String()
		if ok {
			got = fmt.Sprint(line.Name, line.Labels, " ", line.Value)
		}
		assert.Equal(t, tt.want, got, "%.100s", tt.line)
	}
}

func TestEveryGenerationIsParsedAsPrometheusParsesIt(t *testing.T) {
	for _, style := range dcgmsim.Styles() {
		for _, scenario := range []string{dcgmsim.ScenarioMixed, dcgmsim.ScenarioXIDBurst, dcgmsim.ScenarioTimeSliced} {
			config := dcgmsim.NewDefaultConfig()
			config.Style, config.Scenario, config.GPUs = style, scenario, 2
			if style == dcgmsim.Style45 || style == dcgmsim.Style483 {
				config.Links = 2
			}
			simulation, err := dcgmsim.New(config)
			require.NoError(t, err)
			body := simulation.AppendBody(nil, 0, 47*time.Second)
			want := parseWithPrometheus(body)
			require.NotNil(t, want, "%s %s", style, scenario)
			assertAgrees(t, want, NewParser().Parse(body))
			for line := range strings.Lines(string(body)) {
				assertReadAlone(t, []byte(strings.TrimSuffix(line, "\n")))
			}
		}
	}
}

func TestEscapedLabelsSurviveARoundTrip(t *testing.T) {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringOf(rapid.SampledFrom([]rune{'a', '"', '\\', '\n', ',', '=', '{', '}', ' ', '#', 'é'})).Draw(t, "value")
		other := rapid.StringOf(rapid.SampledFrom([]rune{'a', '"', '\\', ',', '=', '}'})).Draw(t, "other")
		got, _, ok := ReadLine([]byte(`m{a="` + escape.Replace(value) + `",b="` + escape.Replace(other) + `"} 1`))
		require.True(t, ok)
		require.Equal(t, []Label{{"a", value}, {"b", other}}, got.Labels)
	})
}
