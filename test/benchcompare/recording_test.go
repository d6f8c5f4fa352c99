package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
)

// sent returns an encoded request with one point for each of the given devices.
func sent(t *testing.T, node string, at time.Time, devices ...string) []byte {
	t.Helper()
	md := pmetric.NewMetrics()
	rm := md.ResourceMetrics().AppendEmpty()
	rm.Resource().Attributes().PutStr("k8s.node.name", node)
	m := rm.ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
	m.SetName("hw.gpu.utilization")
	dps := m.SetEmptyGauge().DataPoints()
	for _, id := range devices {
		dp := dps.AppendEmpty()
		dp.SetTimestamp(pcommon.NewTimestampFromTime(at))
		dp.SetStartTimestamp(7)
		dp.SetDoubleValue(0.5)
		dp.Attributes().PutStr("hw.id", id)
	}
	body, err := pmetricotlp.NewExportRequestFromMetrics(md).MarshalProto()
	require.NoError(t, err)
	return body
}

func TestARecordingIsAdaptedToAnotherNodeAndTime(t *testing.T) {
	then, now := time.Unix(1_700_000_000, 123_456_789), time.Unix(1_700_000_015, 0)
	r, err := newRecording(sent(t, recordedNode, then, "GPU-aaaaaaaa-0001", "GPU-aaaaaaaa-0002"))
	require.NoError(t, err)
	assert.Equal(t, 2, r.points)
	assert.Equal(t, 2, r.gpus)
	assert.Equal(t, sent(t, "gpu-node-09999", now, "GPU-0270faaa-0001", "GPU-0270faaa-0002"), r.of(nil, 9999, now))
	assert.Equal(t, sent(t, "gpu-node-00001", then, "GPU-00001aaa-0001", "GPU-00001aaa-0002"), r.of(nil, 1, then), "the recording itself did not change")
}

func TestARequestThatIsNoScrapeOfTheNodeIsRejected(t *testing.T) {
	now := time.Now()
	for name, body := range map[string][]byte{
		"no OTLP":       []byte("text"),
		"another node":  sent(t, "elsewhere", now, "GPU-aaaaaaaa-0001"),
		"no GPU":        sent(t, recordedNode, now, "short"),
		"without point": sent(t, recordedNode, now),
	} {
		_, err := newRecording(body)
		assert.Error(t, err, name)
	}
}
