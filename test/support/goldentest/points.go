package goldentest

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// pointForm matches <time> {<resource>} <metric> {<attributes>} = <value>.
var pointForm = regexp.MustCompile(`^(\S+) \{(.*?)\} (\S+) \{(.*?)\} = (\S+)$`)

// Points parses points, one per line, and returns them in the given order or in reverse order. A
// line has the following form:
//
//	10s {k8s.node.name=n1} hw.gpu.memory.usage {hw.id=GPU-1} = 8Gi
//
// Points with the same Resource attributes share one Resource. Empty lines and lines that start
// with # are ignored. Values can have the suffix Gi or Mi. The value "stale" results in a point
// without a recorded value. Metrics that are not in the signal table become gauges.
func Points(t testing.TB, text string, backwards bool) pmetric.Metrics {
	t.Helper()
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	if backwards {
		slices.Reverse(lines)
	}
	md := pmetric.NewMetrics()
	resources := map[string]pmetric.MetricSlice{}
	for _, line := range lines {
		f := pointForm.FindStringSubmatch(line)
		require.NotNil(t, f, line)
		ms, ok := resources[f[2]]
		if !ok {
			rm := md.ResourceMetrics().AppendEmpty()
			PutAll(t, rm.Resource().Attributes(), f[2])
			ms = rm.ScopeMetrics().AppendEmpty().Metrics()
			resources[f[2]] = ms
		}
		addPoint(t, ms.AppendEmpty(), f[1], f[3], f[4], f[5])
	}
	return md
}

func addPoint(t testing.TB, m pmetric.Metric, at, name, attributes, value string) {
	t.Helper()
	s, ok := signal.Lookup(name)
	if !ok {
		s = &signal.Metric{Name: name} // a metric from another exporter
	}
	dp := points.Begin(m, s).AppendEmpty()
	since, err := time.ParseDuration(at)
	require.NoError(t, err)
	dp.SetTimestamp(pcommon.Timestamp(since))
	PutAll(t, dp.Attributes(), attributes)
	if value == "stale" {
		dp.SetFlags(pmetric.DefaultDataPointFlags.WithNoRecordedValue(true))
		return
	}
	unit := 1.0
	for suffix, bytes := range map[string]float64{"Gi": 1 << 30, "Mi": 1 << 20} {
		if number, ok := strings.CutSuffix(value, suffix); ok {
			value, unit = number, bytes
		}
	}
	v, err := strconv.ParseFloat(value, 64)
	require.NoError(t, err)
	if s.Int {
		dp.SetIntValue(int64(v * unit))
	} else {
		dp.SetDoubleValue(v * unit)
	}
}

// PutAll adds attributes to m. The text parameter has the form "key=value, key=value", as in
// [Points].
func PutAll(t require.TestingT, m pcommon.Map, text string) {
	for part := range strings.SplitSeq(text, ", ") {
		if k, v, ok := strings.Cut(part, "="); ok {
			m.PutStr(k, v)
		} else {
			require.Empty(t, part)
		}
	}
}

// Contract asserts that all metrics in md that are part of the output contract have the correct
// data type and unit.
func Contract(t testing.TB, md pmetric.Metrics) {
	t.Helper()
	for p := range points.All(md) {
		s, ok := signal.Lookup(p.Metric.Name())
		if !ok {
			continue
		}
		sum := p.Metric.Type() == pmetric.MetricTypeSum
		require.Equal(t, s.Kind != signal.Gauge, sum, "%s is a Sum", s.Name)
		if sum {
			require.Equal(t, s.Kind == signal.Counter, p.Metric.Sum().IsMonotonic(), "%s is monotonic", s.Name)
		}
	}
}
