package pdatagpu

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

func TestEachPointHasItsTimesAndResourceAttributes(t *testing.T) {
	md := pmetric.NewMetrics()
	add := func(id, own string, resource map[string]any, names ...string) {
		rm := md.ResourceMetrics().AppendEmpty()
		assert.NoError(t, rm.Resource().Attributes().FromRaw(resource))
		for i, name := range names {
			m := rm.ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
			m.SetName(name)
			var dp pmetric.NumberDataPoint
			switch name {
			case "sum":
				dp = m.SetEmptySum().DataPoints().AppendEmpty()
				dp.SetIntValue(7)
			case "histogram":
				m.SetEmptyHistogram().DataPoints().AppendEmpty()
				continue
			case "ended":
				dp = m.SetEmptyGauge().DataPoints().AppendEmpty()
				dp.SetFlags(pmetric.DefaultDataPointFlags.WithNoRecordedValue(true))
			default:
				dp = m.SetEmptyGauge().DataPoints().AppendEmpty()
				dp.SetDoubleValue(0.5)
			}
			dp.SetStartTimestamp(10)
			dp.SetTimestamp(70)
			if id != "" {
				dp.Attributes().PutStr(signal.HardwareID, id)
			}
			dp.Attributes().PutInt(own, int64(i))
		}
	}
	pod := map[string]any{signal.K8sNodeName: "n", signal.K8sNamespaceName: "ns", signal.K8sPodName: "p", signal.K8sContainerName: "c"}
	add("GPU-1", "x", pod, "gauge", "sum", "other")
	add("", "x", map[string]any{signal.HostName: "h", signal.HardwareID: "GPU-2"}, "histogram", "ended", "gauge")

	type seen struct {
		place, pod, metric, id, x string
		first, ended              bool
		value                     float64
	}
	var got []seen
	counts := EachPoint(md, func(metric string) bool { return metric != "other" }, func(p *Point) {
		assert.Equal(t, [2]int64{10, 70}, [2]int64{p.Start, p.Time})
		assert.Empty(t, p.Own(signal.K8sNodeName), "the Resource's attributes are not included")
		attributes := map[string]string{}
		p.ResourceAttributes(func(key, text string) { attributes[key] = text })
		p.OwnAttributes(func(key, text string) { attributes[key] = text })
		assert.Equal(t, p.Text(signal.HardwareID), attributes[signal.HardwareID])
		got = append(got, seen{p.Place.Node, p.Holder.Pod, p.Metric, p.Text(signal.HardwareID), p.Own("x"), p.First, p.Ended, p.Value})
	})
	assert.Equal(t, []seen{
		{"n", "p", "gauge", "GPU-1", "0", true, false, 0.5},
		{"n", "p", "sum", "GPU-1", "1", false, false, 7},
		{"h", "", "ended", "GPU-2", "1", true, true, 0},
		{"h", "", "gauge", "GPU-2", "2", false, false, 0.5},
	}, got)
	assert.Equal(t, Counts{Others: 2}, counts, "an unwanted metric and a histogram")
	assert.Equal(t, gpudata.Holder{}, HolderOf(md.ResourceMetrics().At(1).Resource().Attributes()))
}

func TestEachPointClampsRatiosAndSkipsImplausibleOnes(t *testing.T) {
	md := pmetric.NewMetrics()
	metrics := md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics()
	add := func(name string, values ...float64) {
		m := metrics.AppendEmpty()
		m.SetName(name)
		dps := m.SetEmptyGauge().DataPoints()
		for _, v := range values {
			dps.AppendEmpty().SetDoubleValue(v)
		}
	}
	add(signal.HwGPUUtilization.Name, 1.4e16, 4294967295, -0.06, math.NaN(), 0.5, 1.0001, 2, -0.01)
	add(signal.UtilizationAvg.Name, 2.01, 0.25)
	add(signal.K8sContainerGPUMemoryBudgetUtilization.Name, 3) // this ratio may exceed 1
	add(signal.HwPower.Name, 1.4e16)
	delta := metrics.AppendEmpty()
	delta.SetName(signal.HwEnergy.Name)
	delta.SetEmptySum().SetAggregationTemporality(pmetric.AggregationTemporalityDelta)
	delta.Sum().DataPoints().AppendEmpty().SetDoubleValue(5) // an increment is not a total
	got := map[string][]float64{}
	first := 0
	counts := EachPoint(md, func(string) bool { return true }, func(p *Point) {
		got[p.Metric] = append(got[p.Metric], p.Value)
		if p.First {
			first++
		}
	})
	assert.Equal(t, map[string][]float64{
		signal.HwGPUUtilization.Name: {0.5, 1, 1, 0}, signal.UtilizationAvg.Name: {0.25},
		signal.K8sContainerGPUMemoryBudgetUtilization.Name: {3}, signal.HwPower.Name: {1.4e16},
	}, got)
	assert.Equal(t, Counts{Others: 1, Implausible: 5, Clamped: 3}, counts)
	assert.Equal(t, 1, first, "First is set even if the first point is skipped")
}
