package processtest

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
)

// Backend is an OTLP/HTTP backend that stores the metrics that it receives.
type Backend struct {
	*httptest.Server

	mu       sync.Mutex
	requests []pmetric.Metrics
	records  []plog.Logs
}

// StartBackend starts a backend that runs until the end of the test. The backend also passes every
// metrics request to the next handler, which writes the response. If next is nil, the backend
// accepts all requests.
func StartBackend(t testing.TB, next http.Handler) *Backend {
	t.Helper()
	b := &Backend{}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		logs := strings.HasSuffix(r.URL.Path, "/v1/logs")
		if !logs && !strings.HasSuffix(r.URL.Path, "/v1/metrics") {
			http.NotFound(w, r)
			return
		}
		body, err := readBody(r)
		if err == nil {
			err = b.keep(body, logs)
		}
		if !assert.NoError(t, err) {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if next != nil && !logs {
			r.Header.Del("Content-Encoding")
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			next.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(b.Close)
	return b
}

// keep stores the metrics or logs in a request body.
func (b *Backend) keep(body []byte, logs bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if logs {
		request := plogotlp.NewExportRequest()
		err := request.UnmarshalProto(body)
		b.records = append(b.records, request.Logs())
		return err
	}
	request := pmetricotlp.NewExportRequest()
	err := request.UnmarshalProto(body)
	b.requests = append(b.requests, request.Metrics())
	return err
}

// Logs returns all received log records.
func (b *Backend) Logs() []plog.Logs {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.records)
}

func readBody(r *http.Request) ([]byte, error) {
	if r.Header.Get("Content-Encoding") != "gzip" {
		return io.ReadAll(r.Body)
	}
	z, err := gzip.NewReader(r.Body)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

// All returns a copy of all metrics received so far.
func (b *Backend) All() pmetric.Metrics {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := pmetric.NewMetrics()
	for _, request := range b.requests {
		for _, resource := range request.ResourceMetrics().All() {
			resource.CopyTo(all.ResourceMetrics().AppendEmpty())
		}
	}
	return all
}

// Until waits until the enough function returns true for the metrics received so far. The test
// fails if the given process exits first.
func (b *Backend) Until(t testing.TB, from *Process, what string, enough func(pmetric.Metrics) bool) {
	t.Helper()
	Until(t, what, func() bool { return enough(b.All()) }, from)
}
