package dcgmreceiver

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"

	"github.com/otelcol-gpu/otelcol-gpu/receiver/dcgmreceiver/internal/metadatatest"
)

const (
	brokenLine    = "{{broken\n"
	duplicateLine = "DCGM_FI_DEV_GPU_TEMP{gpu=\"0\",UUID=\"GPU-1\"} 31\n"
)

// overlongLine returns a line that contains a label that is longer than the parser accepts.
func overlongLine() string {
	return "DCGM_FI_DEV_POWER_USAGE{gpu=\"0\",UUID=\"GPU-1\",modelName=\"" + strings.Repeat("x", 5000) + "\"} 70\n"
}

func TestSkippedLinesAreLoggedOnce(t *testing.T) {
	server := httptest.NewServer(serve(goodBody + duplicateLine + brokenLine + "DCGM_FI_DEV_BRAND{gpu=\"0\"} NVIDIA\n"))
	defer server.Close()
	f := opened(t, []string{server.URL}, nil)
	for range 3 {
		f.scrape(t, 0)
	}
	entries := f.logs.TakeAll()
	if assert.Len(t, entries, 1) {
		assert.Equal(t, "Lines of the exporter's response are skipped", entries[0].Message)
		assert.Equal(t, map[string]any{
			"url.full": f.endpoints[0].urlFull, "samples": int64(2), "syntax": int64(1), "duplicate_series": int64(1),
		}, entries[0].ContextMap())
	}
}

func TestEachReasonForSkippedLinesIsLogged(t *testing.T) {
	body := goodBody + brokenLine
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(body)(w, r) }))
	defer server.Close()
	f := opened(t, []string{server.URL}, nil)
	f.scrape(t, 0)
	require.Equal(t, 1, f.logs.Len())
	f.logs.TakeAll()

	body += overlongLine()
	for range 3 {
		f.scrape(t, 0)
	}
	entries := f.logs.TakeAll()
	if assert.Len(t, entries, 1) {
		assert.Equal(t, map[string]any{
			"url.full": f.endpoints[0].urlFull, "samples": int64(2), "label_too_long": int64(1),
		}, entries[0].ContextMap(), "lines with invalid syntax have already been logged")
	}
}

func TestIfAllLinesAreSkippedTheErrorHasTheReasonAndTheirNumber(t *testing.T) {
	server := httptest.NewServer(serve(brokenLine + strings.Repeat(overlongLine(), 2)))
	defer server.Close()
	f := opened(t, []string{server.URL}, nil)
	value, _ := exporterUpOf(t, f.scrape(t, 0))
	assert.Zero(t, value)
	entries := f.logs.TakeAll()
	if assert.Len(t, entries, 1) {
		fields := entries[0].ContextMap()
		assert.Equal(t, "not_text", fields["outcome"])
		assert.Contains(t, fields["error"], "no line of the body can be used: 2 of 3 are skipped because of label_too_long")
		assert.NotContains(t, fields, "hint", "no hint about the port")
	}
	reason := func(name string, lines int64) metricdata.DataPoint[int64] {
		return metricdata.DataPoint[int64]{Attributes: attribute.NewSet(attribute.String("reason", name)), Value: lines}
	}
	metadatatest.AssertEqualReceiverDcgmSkippedLines(t, f.telemetry, []metricdata.DataPoint[int64]{
		reason("syntax", 1), reason("label_too_long", 2),
	}, metricdatatest.IgnoreTimestamp())
}
