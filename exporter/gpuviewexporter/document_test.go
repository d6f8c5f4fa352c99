package gpuviewexporter

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuviewexporter/internal/metadatatest"
)

// requestDevices sends a request for the devices. The headers parameter contains alternating header
// names and values.
func requestDevices(d http.Handler, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/api/devices", http.NoBody)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w
}

func newTestExporter(t *testing.T) *viewExporter {
	t.Helper()
	e, err := newViewExporter(nop(), createDefaultConfig().(*Config))
	require.NoError(t, err)
	e.documents.age = 0
	return e
}

func TestClientThatHasTheDevicesReceivesNoBody(t *testing.T) {
	e := newTestExporter(t)
	at := now()
	consume(t, e, fleet(at, time.Minute, 8, true))
	first := requestDevices(e.documents)
	assert.Equal(t, http.StatusOK, first.Code)
	assert.True(t, json.Valid(first.Body.Bytes()))
	tag := first.Header().Get("Etag")
	require.NotEmpty(t, tag)
	for _, known := range []string{tag, `"other", ` + tag, strings.TrimPrefix(tag, "W/")} {
		again := requestDevices(e.documents, "If-None-Match", known)
		assert.Equal(t, http.StatusNotModified, again.Code, known)
		assert.Empty(t, again.Body.Bytes())
		assert.Equal(t, tag, again.Header().Get("Etag"))
		assert.NotEmpty(t, again.Header().Get("Cache-Control"), "it also says when to ask next")
	}
	consume(t, e, fleet(at.Add(time.Second), time.Minute, 8, true))
	assert.Equal(t, http.StatusOK, requestDevices(e.documents, "If-None-Match", tag).Code, "a new window")
}

func TestDevicesAreCompressedForClientsThatAcceptIt(t *testing.T) {
	e := newTestExporter(t)
	consume(t, e, fleet(now(), time.Minute, 8, true))
	plain := requestDevices(e.documents)
	for accepted, want := range map[string]string{
		"": "", "br": "", "gzip;q=0": "", "deflate, gzip; q=0.0": "", "xgzip": "", "gzip": "gzip", "br, GZIP;q=0.5": "gzip", "deflate, gzip": "gzip",
	} {
		answer := requestDevices(e.documents, "Accept-Encoding", accepted)
		assert.Equal(t, want, answer.Header().Get("Content-Encoding"), accepted)
		assert.Equal(t, "Accept-Encoding", answer.Header().Get("Vary"))
		assert.Equal(t, strconv.Itoa(answer.Body.Len()), answer.Header().Get("Content-Length"))
		var body io.Reader = answer.Body
		if want != "" {
			unzipped, err := gzip.NewReader(answer.Body)
			require.NoError(t, err)
			body = unzipped
		}
		text, err := io.ReadAll(body)
		require.NoError(t, err)
		assert.Equal(t, plain.Body.String(), string(text), accepted)
	}
}

func TestManyClientsCauseTheWorkOfOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newTestExporter(t)
		e.documents.age = documentAge
		at := now()
		consume(t, e, fleet(at, time.Minute, 8, false))
		first, _ := e.documents.get(time.Now())
		consume(t, e, fleet(at.Add(time.Second), time.Minute, 8, false))
		same, _ := e.documents.get(time.Now())
		assert.Same(t, first, same)
		time.Sleep(documentAge)
		next, _ := e.documents.get(time.Now())
		assert.NotEqual(t, first.tag, next.tag)
		time.Sleep(documentAge)
		unchanged, _ := e.documents.get(time.Now())
		assert.Same(t, next, unchanged, "it is neither hashed nor compressed again")
	})
}

func TestResponseHasTheTimeUntilTheNextWindow(t *testing.T) {
	e := newTestExporter(t)
	at := now()
	wait := func(after time.Duration) time.Duration {
		_, wait := e.documents.get(at.Add(after))
		return wait
	}
	assert.Equal(t, overdueWait, wait(0), "no window")
	consumeAt(t, e, at.Add(3*time.Second), fleet(at, time.Minute, 8, false))
	for after, want := range map[time.Duration]time.Duration{
		5 * time.Second:  maxWait,         // The client must also detect changes that occur between windows.
		55 * time.Second: 9 * time.Second, // The window that ends after 60 s is expected to arrive within 63 s.
		63 * time.Second: time.Second,     //
		64 * time.Second: overdueWait,     // The window is overdue.
		10 * time.Hour:   overdueWait,     //
	} {
		assert.Equal(t, want, wait(after), after)
	}
	assert.Equal(t, "private, max-age=15", requestDevices(e.documents).Header().Get("Cache-Control"))
}

func TestClientsAboveTheLimitAreRefusedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel := componenttest.NewTelemetry()
		defer func() { require.NoError(t, tel.Shutdown(context.Background())) }()
		set := nop()
		set.TelemetrySettings = tel.NewTelemetrySettings()
		cfg := createDefaultConfig().(*Config)
		cfg.MaxClients = 1
		e, err := newViewExporter(set, cfg)
		require.NoError(t, err)
		require.NoError(t, e.observe())
		handler := e.handler()
		slow := &slowClient{ResponseRecorder: httptest.NewRecorder(), read: make(chan struct{})}
		served := make(chan struct{})
		go func() {
			defer close(served)
			handler.ServeHTTP(slow, httptest.NewRequest(http.MethodGet, "/api/devices", http.NoBody))
		}()
		synctest.Wait()
		refused := requestDevices(handler)
		assert.Equal(t, http.StatusServiceUnavailable, refused.Code)
		assert.NotEmpty(t, refused.Header().Get("Retry-After"))
		assert.Contains(t, refused.Body.String(), "max_clients is 1")
		others := httptest.NewRecorder()
		handler.ServeHTTP(others, httptest.NewRequest(http.MethodGet, "/allocation", http.NoBody))
		assert.Equal(t, http.StatusOK, others.Code, "other requests are served")
		close(slow.read)
		<-served
		ready := requestDevices(handler)
		assert.Equal(t, http.StatusOK, ready.Code)
		requestDevices(handler, "If-None-Match", ready.Header().Get("Etag"))
		var want []metricdata.DataPoint[int64]
		for result, n := range map[string]int64{"sent": 2, "unchanged": 1, "refused": 1} {
			want = append(want, metricdata.DataPoint[int64]{Value: n, Attributes: attribute.NewSet(attribute.String("result", result))})
		}
		metadatatest.AssertEqualExporterGpuViewRequests(t, tel, want, metricdatatest.IgnoreTimestamp())
	})
}

// slowClient is a client that does not read the response until the read channel is closed.
type slowClient struct {
	*httptest.ResponseRecorder
	read chan struct{}
}

func (s *slowClient) Write(p []byte) (int, error) {
	<-s.read
	return s.ResponseRecorder.Write(p)
}
