package main

import (
	"bytes"
	"compress/gzip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
)

func TestDevicesAreCountedOnceTheMetricIsNamed(t *testing.T) {
	md := pmetric.NewMetrics()
	metrics := md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics()
	for _, name := range []string{"windows", "other"} {
		m := metrics.AppendEmpty()
		m.SetName(name)
		dps := m.SetEmptyGauge().DataPoints()
		for _, id := range []string{"GPU-1", "GPU-2", "GPU-2", "GPU-3"} {
			dps.AppendEmpty().Attributes().PutStr("hw.id", id)
		}
	}
	raw := metrics.AppendEmpty()
	raw.SetName("raw")
	dps := raw.SetEmptyGauge().DataPoints()
	for _, instance := range []string{"7", "8", "7"} {
		attrs := dps.AppendEmpty().Attributes()
		attrs.PutStr("UUID", "GPU-1")
		attrs.PutStr("GPU_I_ID", instance)
	}
	plain, err := pmetricotlp.NewExportRequestFromMetrics(md).MarshalProto()
	require.NoError(t, err)
	var body bytes.Buffer
	w := gzip.NewWriter(&body)
	_, err = w.Write(plain)
	require.NoError(t, err)
	require.NoError(t, w.Close())

	var c counter
	assert.EqualValues(t, body.Len(), c.take(bytes.NewReader(body.Bytes())))
	assert.Zero(t, c.seen(), "not yet")
	c.begin("raw")
	assert.EqualValues(t, body.Len(), c.take(bytes.NewReader(body.Bytes())))
	assert.Equal(t, 2, c.seen())
	c.begin("windows")
	c.take(bytes.NewReader([]byte("neither gzip nor OTLP")))
	assert.Zero(t, c.seen())
	c.take(bytes.NewReader(body.Bytes()))
	assert.Equal(t, 3, c.seen())
}
