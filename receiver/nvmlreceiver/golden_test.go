//go:build linux && !otelcol_gpu_no_nvml

package nvmlreceiver

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap/confmaptest"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/goldentest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/nvmltest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/pointtest"
)

// TestGolden runs one test for each directory in testdata/golden. The name of each directory is a
// sentence that describes the test. The script file contains the responses of the stub library. The
// proc directory contains the control groups of processes. The optional config.yaml file contains
// the configuration. The output.txt file contains the expected points of the last collection, with
// one point per line. Comments in a script specify the compiler flags for the stub library, the
// expected outcome (default: ok), and the number of collections (default: one).
func TestGolden(t *testing.T) {
	for _, dir := range goldentest.Dirs(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			script, err := os.ReadFile(filepath.Join(dir, "script"))
			require.NoError(t, err)
			stub := nvmltest.Build(t, strings.Fields(comment(script, "flags"))...)
			stub.Script(t, string(script))
			f := newFixture(t, func(cfg *Config) {
				cfg.LibraryPath = stub.Path
				cfg.NodeName = "node"
				if proc := filepath.Join(dir, "proc"); exists(proc) {
					require.NoError(t, os.CopyFS(cfg.ProcRoot, os.DirFS(proc)))
				}
				if file := filepath.Join(dir, "config.yaml"); exists(file) {
					conf, err := confmaptest.LoadConf(file)
					require.NoError(t, err)
					require.NoError(t, conf.Unmarshal(cfg))
				}
			})
			want := cmp.Or(comment(script, "outcome"), outcomeOK.name)
			collections, _ := strconv.Atoi(cmp.Or(comment(script, "collections"), "1"))
			synctest.Test(t, func(t *testing.T) {
				for range collections {
					time.Sleep(f.cfg.CollectionInterval)
					assert.Equal(t, want, f.collect(t.Context()).name)
				}
			})
			require.NoError(t, f.release())
			goldentest.Compare(t, dir, render(f.sink.AllMetrics()[collections-1]))
		})
	}
}

// The comment function finds the comment line in a script that starts with the given word, and
// returns the rest of the line.
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

// The render function returns the points in a batch as sorted lines, with one line per point.
func render(md pmetric.Metrics) string {
	var lines []string
	for _, rm := range md.ResourceMetrics().All() {
		for _, m := range rm.ScopeMetrics().At(0).Metrics().All() {
			of, kind := numberPoints(m)
			for _, dp := range of.All() {
				value := fmt.Sprintf("%.9g", dp.DoubleValue())
				if dp.ValueType() == pmetric.NumberDataPointValueTypeInt {
					value = fmt.Sprintf("%d int", dp.IntValue())
				}
				lines = append(lines, fmt.Sprintf("%s %s %s = %s %s | %s\n",
					m.Name(), kind, pointtest.Text(dp.Attributes()), value, m.Unit(), pointtest.Text(rm.Resource().Attributes())))
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

func TestScopeIdentifiesTheReceiver(t *testing.T) {
	assert.Equal(t, signal.ScopeNVML, metadata.ScopeName)
}
