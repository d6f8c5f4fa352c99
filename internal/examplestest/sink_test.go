package examplestest

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
)

// sink is an OTLP/HTTP backend that keeps what it gets and, where one is given,
// hands it on to another one.
type sink struct {
	*httptest.Server
	arrived chan struct{} // one token per request, dropped when nobody waits

	mu       sync.Mutex
	requests []pmetric.Metrics
}

// newSink starts a backend. Every request also goes through next, whose answer
// is the backend's answer; nil accepts everything.
func newSink(t *testing.T, next http.Handler) *sink {
	t.Helper()
	s := &sink{arrived: make(chan struct{}, 1)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/v1/metrics") {
			http.NotFound(w, r)
			return
		}
		body, err := readBody(r)
		if !assert.NoError(t, err) {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		request := pmetricotlp.NewExportRequest()
		if err := request.UnmarshalProto(body); !assert.NoError(t, err) {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.mu.Lock()
		s.requests = append(s.requests, request.Metrics())
		s.mu.Unlock()

		if next != nil {
			r.Header.Del("Content-Encoding")
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			next.ServeHTTP(w, r)
		}
		select {
		case s.arrived <- struct{}{}:
		default:
		}
	}))
	t.Cleanup(s.Close)
	return s
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

// all returns everything that arrived until now as one.
func (s *sink) all() pmetric.Metrics {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := pmetric.NewMetrics()
	for _, request := range s.requests {
		for _, resource := range request.ResourceMetrics().All() {
			resource.CopyTo(all.ResourceMetrics().AppendEmpty())
		}
	}
	return all
}

// waitFor returns once enough says so of what arrived from the collector.
func (s *sink) waitFor(t *testing.T, c *collector, what string, enough func(pmetric.Metrics) bool) {
	t.Helper()
	end := timeout(t)
	for !enough(s.all()) {
		select {
		case <-s.arrived:
		case <-c.ended:
			require.Fail(t, "the collector ended", "waiting for %s: %v", what, c.err)
		case <-end:
			require.Fail(t, "nothing came", "waiting for %s; got %v", what, names(s.all()))
		}
	}
}

// points calls visit with every number point.
func points(metrics pmetric.Metrics, visit func(pmetric.ResourceMetrics, pmetric.Metric, pmetric.NumberDataPoint)) {
	for _, resource := range metrics.ResourceMetrics().All() {
		for _, scope := range resource.ScopeMetrics().All() {
			for _, metric := range scope.Metrics().All() {
				var slice pmetric.NumberDataPointSlice
				switch metric.Type() {
				case pmetric.MetricTypeGauge:
					slice = metric.Gauge().DataPoints()
				case pmetric.MetricTypeSum:
					slice = metric.Sum().DataPoints()
				default:
					continue
				}
				for _, point := range slice.All() {
					visit(resource, metric, point)
				}
			}
		}
	}
}

// names counts the points of each metric.
func names(metrics pmetric.Metrics) map[string]int {
	counts := map[string]int{}
	points(metrics, func(_ pmetric.ResourceMetrics, metric pmetric.Metric, _ pmetric.NumberDataPoint) {
		counts[metric.Name()]++
	})
	return counts
}
