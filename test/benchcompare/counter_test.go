package main

import (
	"bytes"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
)

func TestDevicesAreCountedAfterTheMetricIsSet(t *testing.T) {
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
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, err = w.Write(plain)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	z, err := zstd.NewWriter(nil)
	require.NoError(t, err)

	for encoding, body := range map[string][]byte{"gzip": zipped.Bytes(), "zstd": z.EncodeAll(plain, nil), "": plain} {
		var c counter
		assert.EqualValues(t, len(body), c.take(bytes.NewReader(body), encoding))
		assert.Zero(t, c.seen(), "not yet")
		c.begin("raw")
		assert.EqualValues(t, len(body), c.take(bytes.NewReader(body), encoding), "the size of the body that was sent")
		assert.Equal(t, 2, c.seen(), encoding)
		c.begin("windows")
		c.take(bytes.NewReader([]byte("neither compressed nor OTLP")), encoding)
		c.take(bytes.NewReader(body), "br")
		assert.Zero(t, c.seen())
		c.take(bytes.NewReader(body), encoding)
		assert.Equal(t, 3, c.seen(), encoding)
	}
}
