//go:build linux && !otelcol_gpu_no_nvml

package nvmlreceiver

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap/confmaptest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver/internal/nvmltest"
)

var update = flag.Bool("update", false, "rewrite the expected outputs")

// Each directory below testdata/golden is a sentence. script is what the stub
// library answers from; proc holds the control groups of processes; config.yaml,
// where it exists, is the configuration. output.txt is what must come out of one
// collection, one line a point. Comments in a script name the compiler's flags
// and the outcome, where it is not ok.
func TestGolden(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join("testdata", "golden", "*"))
	require.NoError(t, err)
	require.NotEmpty(t, dirs)
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			script, err := os.ReadFile(filepath.Join(dir, "script"))
			require.NoError(t, err)
			stub := nvmltest.Build(t, strings.Fields(comment(script, "flags"))...)
			stub.Script(t, string(script))
			f := newFixture(t, func(cfg *Config) {
				cfg.LibraryPath = stub.Path
				cfg.NodeName = "node"
				cfg.ProcRoot, err = filepath.Abs(filepath.Join(dir, "proc"))
				require.NoError(t, err)
				if file := filepath.Join(dir, "config.yaml"); exists(file) {
					conf, err := confmaptest.LoadConf(file)
					require.NoError(t, err)
					require.NoError(t, conf.Unmarshal(cfg))
				}
			})
			want := cmp.Or(comment(script, "outcome"), string(outcomeOK))
			assert.Equal(t, want, string(f.collect(t.Context())))
			got := render(f.sink.AllMetrics()[0])

			file := filepath.Join(dir, "output.txt")
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
			}
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			assert.Equal(t, string(text), got)
		})
	}
}

// comment returns what follows a word in a comment of its own.
func comment(script []byte, word string) string {
	m := regexp.MustCompile(`(?m)^# ` + word + ` (.*)$`).FindSubmatch(script)
	if m == nil {
		return ""
	}
	return string(m[1])
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// render writes a batch one line a point, sorted.
func render(md pmetric.Metrics) string {
	var lines []string
	for _, rm := range md.ResourceMetrics().All() {
		for _, m := range rm.ScopeMetrics().At(0).Metrics().All() {
			points, kind := numberPoints(m)
			for _, dp := range points.All() {
				value := fmt.Sprintf("%.9g", dp.DoubleValue())
				if dp.ValueType() == pmetric.NumberDataPointValueTypeInt {
					value = fmt.Sprintf("%d int", dp.IntValue())
				}
				lines = append(lines, fmt.Sprintf("%s %s %s = %s %s | %s\n",
					m.Name(), kind, attributes(dp.Attributes()), value, m.Unit(), attributes(rm.Resource().Attributes())))
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

func attributes(attrs pcommon.Map) string {
	var list []string
	for k, v := range attrs.All() {
		list = append(list, k+"="+v.AsString())
	}
	slices.Sort(list)
	return "{" + strings.Join(list, ", ") + "}"
}
