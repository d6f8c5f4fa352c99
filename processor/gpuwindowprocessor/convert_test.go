package gpuwindowprocessor

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

func TestOfAMetricOnlyThePointsWithoutADevicePassAtOnce(t *testing.T) {
	md := pmetric.NewMetrics()
	m := md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
	m.SetName("acme.temperature")
	of := m.SetEmptyGauge().DataPoints()
	for id, value := range map[string]float64{"GPU-a": 70, "": 21} {
		dp := of.AppendEmpty()
		dp.SetDoubleValue(value)
		if id != "" {
			dp.Attributes().PutStr(signal.HardwareID, id)
		}
	}
	var values []float64
	for p := range points.All(passing(md, true)) {
		values = append(values, p.DoubleValue())
	}
	assert.Equal(t, []float64{21}, values)
	require.Equal(t, 2, of.Len(), "what arrived is not changed")
	assert.Zero(t, passing(md, false).ResourceMetrics().Len())

	md.ResourceMetrics().At(0).Resource().Attributes().PutStr(signal.HardwareID, "GPU-b")
	assert.Zero(t, passing(md, true).ResourceMetrics().Len(), "its Resource names the device of all points")
}
