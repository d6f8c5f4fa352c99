package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"

	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
)

// counter is a backend that counts the devices for which it receives a given metric. Without the
// count, a contestant that omits devices could seem cheap. counter parses requests only after the
// measurement, because parsing would take CPU time away from the sender.
type counter struct {
	// sent is the total size of all requests, in bytes.
	sent    atomic.Int64
	mu      sync.Mutex
	metric  string
	devices map[string]bool
}

// ServeHTTP handles an OTLP request.
func (c *counter) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	c.sent.Add(c.take(r.Body, r.Header.Get("Content-Encoding")))
}

// The missing method waits up to three windows for points of the metric from all devices, and
// returns the number of devices for which no point was received.
func (c *counter) missing(metric string, devices int, window time.Duration, wait func(time.Duration) error) (int, error) {
	c.begin(metric)
	for n := 0; n < 3*readingsPerWindow && c.seen() < devices; n++ {
		if err := wait(window / readingsPerWindow); err != nil {
			return 0, err
		}
	}
	return devices - c.seen(), nil
}

// The begin method starts counting the devices for which the given metric is received.
func (c *counter) begin(metric string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.metric, c.devices = metric, map[string]bool{}
}

// seen returns the number of devices for which the metric was received.
func (c *counter) seen() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.devices)
}

// The take method reads an OTLP request with the given content encoding and returns its compressed
// size. Requests that cannot be parsed are not counted.
func (c *counter) take(body io.Reader, encoding string) int64 {
	c.mu.Lock()
	metric := c.metric
	c.mu.Unlock()
	if metric == "" {
		n, _ := io.Copy(io.Discard, body)
		return n
	}
	compressed, err := io.ReadAll(body)
	if err != nil {
		return int64(len(compressed))
	}
	request := pmetricotlp.NewExportRequest()
	if plain, err := decoded(compressed, encoding); err == nil {
		_ = request.UnmarshalProto(plain)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for p := range points.All(request.Metrics()) {
		if p.Metric.Name() == metric {
			// Devices are identified by hw.id or by DCGM's labels.
			attrs := p.Attributes()
			c.devices[label(attrs, "hw.id")+label(p.Resource.Attributes(), "hw.id")+label(attrs, "UUID")+"/"+label(attrs, "GPU_I_ID")] = true
		}
	}
	return int64(len(compressed))
}

// decoded decompresses a body with the given content encoding.
func decoded(compressed []byte, encoding string) ([]byte, error) {
	switch encoding {
	case "gzip":
		r, err := gzip.NewReader(bytes.NewReader(compressed))
		if err != nil {
			return nil, err
		}
		return io.ReadAll(r)
	case "zstd":
		r, err := zstd.NewReader(nil)
		if err != nil {
			return nil, err
		}
		defer r.Close()
		return r.DecodeAll(compressed, nil)
	case "":
		return compressed, nil
	default:
		return nil, fmt.Errorf("content encoding %q", encoding)
	}
}

// label returns the string value of an attribute, or "" if the attribute does not exist.
func label(attrs pcommon.Map, key string) string {
	if v, ok := attrs.Get(key); ok {
		return v.Str()
	}
	return ""
}
