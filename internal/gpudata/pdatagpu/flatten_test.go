package pdatagpu

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

func TestFlattenCopiesTheResourceToPointsOfEveryType(t *testing.T) {
	md := pmetric.NewMetrics()
	md.ResourceMetrics().AppendEmpty() // a Resource without attributes
	rm := md.ResourceMetrics().AppendEmpty()
	rm.Resource().Attributes().PutStr("k8s.pod.name", "train-0")
	rm.Resource().Attributes().PutStr("hw.id", "of the Resource")
	rm.Resource().Attributes().PutInt("replicas", 3)
	metrics := rm.ScopeMetrics().AppendEmpty().Metrics()
	points := []pcommon.Map{
		metrics.AppendEmpty().SetEmptyGauge().DataPoints().AppendEmpty().Attributes(),
		metrics.AppendEmpty().SetEmptySum().DataPoints().AppendEmpty().Attributes(),
		metrics.AppendEmpty().SetEmptyHistogram().DataPoints().AppendEmpty().Attributes(),
		metrics.AppendEmpty().SetEmptyExponentialHistogram().DataPoints().AppendEmpty().Attributes(),
		metrics.AppendEmpty().SetEmptySummary().DataPoints().AppendEmpty().Attributes(),
	}
	metrics.AppendEmpty() // a metric without a type
	for _, p := range points {
		p.PutStr("hw.id", "GPU-1")
	}
	Flatten(md)
	Flatten(md) // the second call has no effect
	for _, p := range points {
		assert.Equal(t, map[string]any{"hw.id": "GPU-1", "k8s.pod.name": "train-0", "replicas": int64(3)}, p.AsRaw())
	}
	assert.Equal(t, 3, rm.Resource().Attributes().Len(), "the Resource keeps its attributes")
}
