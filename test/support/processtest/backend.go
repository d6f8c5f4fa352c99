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

// Backend is an OTLP/HTTP backend that keeps the metrics it gets.
type Backend struct {
	*httptest.Server

	mu       sync.Mutex
	requests []pmetric.Metrics
	records  []plog.Logs
}

// StartBackend starts a backend, which ends with the test. Every request also goes
// through next, whose answer is the backend's answer; nil accepts everything.
func StartBackend(t testing.TB, next http.Handler) *Backend {
	t.Helper()
	b := &Backend{}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/v1/logs") {
			b.takeLogs(t, w, r)
			return
		}
		if !strings.HasSuffix(r.URL.Path, "/v1/metrics") {
			http.NotFound(w, r)
			return
		}
		request := pmetricotlp.NewExportRequest()
		body, ok := read(t, w, r, request.UnmarshalProto)
		if !ok {
			return
		}
		b.mu.Lock()
		b.requests = append(b.requests, request.Metrics())
		b.mu.Unlock()
		if next != nil {
			r.Header.Del("Content-Encoding")
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			next.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(b.Close)
	return b
}

// takeLogs keeps the records of a request.
func (b *Backend) takeLogs(t testing.TB, w http.ResponseWriter, r *http.Request) {
	t.Helper()
	request := plogotlp.NewExportRequest()
	if _, ok := read(t, w, r, request.UnmarshalProto); !ok {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.records = append(b.records, request.Logs())
}

// read returns the body of a request that can be decoded, and answers another one.
func read(t testing.TB, w http.ResponseWriter, r *http.Request, decode func([]byte) error) (body []byte, ok bool) {
	t.Helper()
	body, err := readBody(r)
	if err == nil {
		err = decode(body)
	}
	if !assert.NoError(t, err) {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return nil, false
	}
	return body, true
}

// Logs returns all records that came.
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

// All returns a copy of everything that arrived until now.
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

// Until returns once enough is true for the metrics that arrived from a process.
func (b *Backend) Until(t testing.TB, from *Process, what string, enough func(pmetric.Metrics) bool) {
	t.Helper()
	Until(t, what, func() bool { return enough(b.All()) }, from)
}
