package points_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/pointtest"
)

// The three function returns metrics with three number data points: a gauge with two data points in
// one resource, and a sum with one data point in another resource. The metrics also include a
// histogram, which has no number data points.
func three() pmetric.Metrics {
	md := pmetric.NewMetrics()
	first := md.ResourceMetrics().AppendEmpty()
	first.Resource().Attributes().PutStr("k8s.node.name", "n1")
	scope := first.ScopeMetrics().AppendEmpty()
	scope.Scope().SetName("scope")
	gauge := scope.Metrics().AppendEmpty()
	gauge.SetName("gauge")
	dps := gauge.SetEmptyGauge().DataPoints()
	dps.AppendEmpty().SetDoubleValue(0.5)
	dps.AppendEmpty().SetIntValue(2)
	scope.Metrics().AppendEmpty().SetEmptyHistogram().DataPoints().AppendEmpty()
	sum := md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
	sum.SetName("sum")
	sum.SetEmptySum().DataPoints().AppendEmpty().SetIntValue(3)
	return md
}

func TestEveryNumberPointIsReturnedOnceWithItsContext(t *testing.T) {
	type seen struct {
		resource, scope, metric string
		value                   float64
	}
	var got []seen
	for p := range points.All(three()) {
		got = append(got, seen{pointtest.Text(p.Resource.Attributes()), p.Scope.Name(), p.Metric.Name(), points.Value(p.NumberDataPoint)})
	}
	assert.Equal(t, []seen{{"{k8s.node.name=n1}", "scope", "gauge", 0.5}, {"{k8s.node.name=n1}", "scope", "gauge", 2}, {"{}", "", "sum", 3}}, got)
}

func TestTheRangeEndsWhereItIsLeft(t *testing.T) {
	n := 0
	for range points.All(three()) {
		n++
		break
	}
	assert.Equal(t, 1, n)
}

func TestAttributesAreWrittenSorted(t *testing.T) {
	m := pcommon.NewMap()
	assert.Equal(t, "{}", pointtest.Text(m))
	m.PutStr("hw.id", "GPU-1")
	m.PutInt("gpu.mig.gpu_instance.id", 7)
	m.PutStr("host.name", "n1")
	assert.Equal(t, "{gpu.mig.gpu_instance.id=7, host.name=n1, hw.id=GPU-1}", pointtest.Text(m))
	assert.Equal(t, "{gpu.mig.gpu_instance.id=7, hw.id=GPU-1}", pointtest.Text(m, "host.name"))
}

func TestBeginMakesAMetricOfTheContract(t *testing.T) {
	for _, tt := range []struct {
		metric    *signal.Metric
		kind      pmetric.MetricType
		monotonic bool
	}{
		{signal.HwPower, pmetric.MetricTypeGauge, false},
		{signal.HwEnergy, pmetric.MetricTypeSum, true},
		{signal.HwGPUMemoryUsage, pmetric.MetricTypeSum, false},
		{signal.K8sContainerGPUMemoryUsage, pmetric.MetricTypeSum, false},
	} {
		m := pmetric.NewMetric()
		points.Begin(m, tt.metric).AppendEmpty()
		assert.Equal(t, tt.metric.Name, m.Name())
		assert.Equal(t, tt.metric.Unit, m.Unit())
		assert.Equal(t, tt.metric.Description, m.Description())
		assert.Equal(t, tt.kind, m.Type(), m.Name())
		assert.Equal(t, 1, points.Of(m).Len())
		if tt.kind == pmetric.MetricTypeSum {
			assert.Equal(t, pmetric.AggregationTemporalityCumulative, m.Sum().AggregationTemporality())
			assert.Equal(t, tt.monotonic, m.Sum().IsMonotonic())
		}
	}
}
