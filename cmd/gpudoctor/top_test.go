package main

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/dcgmsim"
)

// The Collector components that compute the windows run in the test's process.
func TestTopComputesWindowsOfAnExporter(t *testing.T) {
	config := dcgmsim.NewDefaultConfig()
	config.Scenario, config.GPUs = dcgmsim.ScenarioHealthy, 2
	simulation, err := dcgmsim.New(config)
	require.NoError(t, err)
	server := dcgmsim.NewServer(simulation, dcgmsim.ServerSettings{Now: time.Now})
	defer server.Close()
	var key atomic.Value
	exporter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key.Store(r.Header.Get("Authorization"))
		server.ServeHTTP(w, r)
	}))
	defer exporter.Close()

	o, err := parseTop([]string{"-interval", "100ms", "-header", "Authorization: Bearer key", exporter.URL + "/metrics"}, io.Discard)
	require.NoError(t, err)
	o.window, o.scrape = time.Second, 100*time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	out := &untilLine{of: "nvidia1", cancel: cancel}
	require.NoError(t, o.run(ctx, out, io.Discard))
	assert.Contains(t, out.text.String(), "nvidia0")
	assert.Contains(t, out.text.String(), "healthy-0-1", "holders from the exporter's labels")
	assert.Equal(t, "Bearer key", key.Load())
}

// untilLine cancels a context when a given string is written.
type untilLine struct {
	text   strings.Builder
	of     string
	cancel context.CancelFunc
}

func (u *untilLine) Write(p []byte) (int, error) {
	if strings.Contains(string(p), u.of) {
		u.cancel()
	}
	return u.text.Write(p)
}

func TestTopPrintsWhyAnExporterCannotBeScraped(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	o, err := parseTop([]string{"-interval", "100ms", gone.URL + "/metrics"}, io.Discard)
	require.NoError(t, err)
	o.scrape = 100 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	out := &untilLine{of: "scrape fails", cancel: cancel}
	require.NoError(t, o.run(ctx, out, io.Discard))
	assert.Regexp(t, gone.URL+"/metrics: scrape fails: .*connection refused\n", out.text.String())
	assert.Equal(t, 1, strings.Count(out.text.String(), gone.URL), "the URL is not repeated")
}

// If the first port is already in use, the serve method must try another port.
func TestTopTriesAnotherPort(t *testing.T) {
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	asked := 0
	free := func(ctx context.Context) (string, error) {
		if asked++; asked == 1 {
			return taken.Addr().String(), nil
		}
		return freeAddress(ctx)
	}
	o, err := parseTop([]string{"http://127.0.0.1:1/metrics"}, io.Discard)
	require.NoError(t, err)
	page, stop, err := o.serve(t.Context(), free)
	require.NoError(t, err)
	defer stop()
	assert.NotEqual(t, taken.Addr().String(), page.Host)
	assert.Equal(t, 2, asked)
}

// While there is no new window, the server responds without a body.
func TestTopRequestsADocumentOnlyIfItHasChanged(t *testing.T) {
	type exchange struct{ accepted, tag string }
	var requests []exchange
	document := func(end int) string {
		return fmt.Sprintf(`{"newest": %d, "window": 1, "devices": [{"n": 1, "id": "GPU-a", "name": "nvidia%d", "end": %d}]}`, end, end, end)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests = append(requests, exchange{r.Header.Get("Accept-Encoding"), r.Header.Get("If-None-Match")})
		switch len(requests) {
		case 2, 3:
			w.WriteHeader(http.StatusNotModified)
			return
		case 1:
			w.Header().Set("ETag", `W/"first"`)
		default:
			w.Header().Set("ETag", `W/"second"`)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		body := gzip.NewWriter(w)
		_, _ = io.WriteString(body, document(len(requests)))
		_ = body.Close()
	}))
	defer server.Close()
	o, err := parseTop([]string{"-interval", "100ms", server.URL}, io.Discard)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	out := &untilLine{of: "nvidia4", cancel: cancel}
	var errs strings.Builder
	require.NoError(t, o.run(ctx, out, &errs))
	server.Close() // Close waits for requests in progress.
	assert.Empty(t, errs.String())
	assert.Equal(t, 1, strings.Count(out.text.String(), "nvidia1"), "an unchanged window is not written again")
	want := []exchange{{"gzip", ""}, {"gzip", `W/"first"`}, {"gzip", `W/"first"`}, {"gzip", `W/"first"`}}
	assert.Equal(t, want, requests[:len(want)])
}

func TestTopErrorsAreReportedInOneLine(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/locked/api/devices":
			w.WriteHeader(http.StatusUnauthorized)
		case "/busy/api/devices":
			http.Error(w, "too many responses are in progress", http.StatusServiceUnavailable)
		case "/exporter/api/devices":
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<html>GPU Exporter</html>")
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for want, args := range map[string][]string{
		"give credentials with -header":                            {server.URL + "/locked"},
		"HTTP status 503 Service Unavailable: too many responses":  {server.URL + "/busy"},
		"for an exporter, add /metrics to the URL":                 {server.URL + "/exporter"},
		"the server has no gpu_view page":                          {server.URL},
		"connection refused: is a collector with gpu_view running": {gone.URL},
		"want one URL after the flags (got 2)":                     {"http://a", "http://b"},
		"the URL cannot be used; want http://localhost:9411":       {"node:9411"},
		"-interval must be at least 100ms (got 1ms)":               {"-interval", "1ms"},
		"-timeout must be positive (got -1s)":                      {"-timeout", "-1s"},
		"flag provided but not defined: -sort":                     {"-sort", "util"},
	} {
		status, stdout, stderr := gpudoctor(t, "", append([]string{"top"}, args...)...)
		assert.Equal(t, exitUnread, status, want)
		assert.Empty(t, stdout, want)
		assert.Contains(t, stderr, want)
		assert.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
	}
}

func TestTheVariableCOLUMNSIsTheLineWidth(t *testing.T) {
	for columns, want := range map[string]int{"": 120, "80": 80, "0": 120, "-1": 120, "wide": 120} {
		assert.Equal(t, want, lineWidth(columns), "%q", columns)
	}
}
