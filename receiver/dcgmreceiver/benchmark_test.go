package dcgmreceiver

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/receiver/receivertest"

	"github.com/otelcol-gpu/otelcol-gpu/internal/exposition"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/dcgmreceiver/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/cpumeter"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/expositiontest"
)

// The benchmarks in this file scrape an exporter for 8 GPUs that have 7 MIG instances each, with
// pod labels on the samples. The test/bench directory contains benchmarks that compare this
// receiver with the prometheus receiver.

// BenchmarkScrapeToPdata measures a scrape without network access. In this benchmark, a scrape
// consists of parsing the body and building the batch.
func BenchmarkScrapeToPdata(b *testing.B) {
	body := expositiontest.Node(8, 7)
	parser, batches := exposition.NewParser(), batchBuilder{version: "1.2.3"}
	samples := parser.Parse(body).Samples
	ts := pcommon.NewTimestampFromTime(time.Now())
	b.ReportAllocs()
	var cpu cpumeter.Meter
	cpu.Start(b)
	for b.Loop() {
		batches.build(parser.Parse(body), "http://localhost:9400/metrics", ts)
	}
	cpu.Stop(b)
	cpu.Report(b, samples)
}

// BenchmarkScrape measures a scrape over HTTP, including the server.
func BenchmarkScrape(b *testing.B) {
	server := httptest.NewServer(serve(string(expositiontest.Node(8, 7))))
	defer server.Close()
	cfg := createDefaultConfig().(*Config)
	cfg.Endpoints = []URL{URL(server.URL)}
	r, err := newReceiver(receivertest.NewNopSettings(metadata.Type), cfg, consumertest.NewNop())
	require.NoError(b, err)
	require.NoError(b, r.open(b.Context(), componenttest.NewNopHost()))
	defer r.transport.CloseIdleConnections()
	b.ReportAllocs()
	for b.Loop() {
		r.endpoints[0].scrape(b.Context(), b.Context())
	}
}

// staticResponse is an HTTP transport that always returns the same body without network access, so
// that a test measures only the client.
type staticResponse []byte

func (a staticResponse) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, ProtoMajor: 1, ContentLength: int64(len(a)), Body: io.NopCloser(bytes.NewReader(a))}, nil
}

// The limit is 10% above the number of allocations that was measured when this test was written.
func TestAllocationsOfAScrapeAreLimited(t *testing.T) {
	f := opened(t, []string{"http://exporter:9400/metrics"}, nil)
	f.fetcher.client = &http.Client{Transport: staticResponse(expositiontest.Node(8, 7))}
	attempt := func() {
		a := f.endpoints[0].attempt(t.Context())
		require.Nil(t, a.failure)
	}
	attempt()
	assert.Less(t, testing.AllocsPerRun(20, attempt), 26.0)
}
