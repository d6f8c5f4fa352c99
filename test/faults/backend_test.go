package faults

import (
	"compress/gzip"
	"io"
	"log"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"

	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
)

// point is a received data point with the attributes that the tests need.
type point struct {
	metric, node, device, pod, uid, url string
	resource                            string
	start, end                          time.Time
	value                               float64
	ended                               bool // whether the NoRecordedValue flag is set
}

// backend is an OTLP/HTTP backend that stores the data points that it accepts.
type backend struct {
	address string
	server  *http.Server
	done    chan struct{}

	keepsNothing bool // whether to discard received data

	mu      sync.Mutex
	points  []point
	refused int
	// If fault is not nil, the backend calls fault for every request. If the call returns true,
	// fault has already responded, and the backend discards the request's data.
	fault func(w http.ResponseWriter, r *http.Request) bool
}

// newBackend starts a backend that runs until the end of the test.
func newBackend(t *testing.T) *backend {
	t.Helper()
	b := &backend{}
	b.up(t)
	t.Cleanup(b.down)
	return b
}

func (b *backend) url() string { return "http://" + b.address }

// The up method starts the backend's server. After a call to the down method, up starts the server
// on the same address again.
func (b *backend) up(t *testing.T) {
	t.Helper()
	listener := listen(t, b.address)
	b.address = listener.Addr().String()
	b.server = &http.Server{Handler: b, ReadHeaderTimeout: processtest.Patience, ErrorLog: log.New(io.Discard, "", 0)}
	b.done = make(chan struct{})
	go func(server *http.Server, done chan struct{}) {
		defer close(done)
		assert.ErrorIs(t, server.Serve(listener), http.ErrServerClosed)
	}(b.server, b.done)
}

func (b *backend) down() {
	_ = b.server.Close()
	<-b.done
}

func (b *backend) breaks(fault func(w http.ResponseWriter, r *http.Request) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fault = fault
}

// ServeHTTP implements http.Handler.
func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	fault := b.fault
	b.mu.Unlock()
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = z
	}
	content, err := io.ReadAll(body)
	if err != nil {
		return // the sender disconnected
	}
	if fault != nil && fault(w, r) {
		b.mu.Lock()
		b.refused++
		b.mu.Unlock()
		return
	}
	if b.keepsNothing {
		return
	}
	request := pmetricotlp.NewExportRequest()
	if err := request.UnmarshalProto(content); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	arrived := flatten(request.Metrics())
	b.mu.Lock()
	b.points = append(b.points, arrived...)
	b.mu.Unlock()
}

// The all method returns the points received so far. Callers must not modify the returned points.
func (b *backend) all() []point {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clip(b.points)
}

// refusals returns the number of requests that were answered by a fault instead of the backend.
func (b *backend) refusals() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refused
}

func flatten(metrics pmetric.Metrics) []point {
	var flat []point
	text := func(attributes pcommon.Map, key string) string {
		if v, ok := attributes.Get(key); ok {
			return v.AsString()
		}
		return ""
	}
	for p := range points.All(metrics) {
		name, place, own := p.Metric.Name(), p.Resource.Attributes(), p.Attributes()
		if name == signal.ThrottleViolationRatio.Name && text(own, signal.ClockViolation) != "power" {
			continue
		}
		flat = append(flat, point{
			metric: name, node: text(place, signal.K8sNodeName), pod: text(place, signal.K8sPodName), uid: text(place, signal.K8sPodUID),
			device: text(own, signal.HardwareID), url: text(own, signal.URLFull), resource: text(own, signal.Resource),
			start: p.StartTimestamp().AsTime(), end: p.Timestamp().AsTime(), value: points.Value(p.NumberDataPoint), ended: p.Flags().NoRecordedValue(),
		})
	}
	return flat
}

// ups returns the points of gpu.exporter.up for scrapes after the given time, in chronological
// order.
func ups(arrived []point, url string, since time.Time) []point {
	var found []point
	for _, p := range arrived {
		if p.metric == signal.GPUExporterUp.Name && p.end.After(since) && (url == "" || p.url == url) {
			found = append(found, p)
		}
	}
	slices.SortStableFunc(found, func(a, b point) int { return a.end.Compare(b.end) })
	return found
}
