package gpuviewexporter

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// FuzzRequest asserts that every response has an expected status code and the security headers, and
// that successful allocation responses are valid JSON.
func FuzzRequest(f *testing.F) {
	for _, path := range []string{"/allocation", "/stats/summary", "/api/devices", "/api/devices/1/history", "/allocation.schema.json", "/", "/../config.go"} {
		for _, query := range []string{"", "window=10m&aggregate=pod", "window=-1s", "window=1e9h", "aggregate=<script>", "node=gpu-node-01", "a=%zz&;=", "window=1m&window=2m"} {
			f.Add(path, query)
		}
	}
	cfg := createDefaultConfig().(*Config)
	cfg.StatsSummary = true
	e, err := newViewExporter(nop(), cfg)
	if err != nil {
		f.Fatal(err)
	}
	handler := e.handler()
	consume(f, e, fleet(now(), time.Minute, 8, true))
	f.Fuzz(func(t *testing.T, path, query string) {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, &http.Request{
			Method: http.MethodGet, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Host: "localhost:9411", Header: http.Header{},
			URL: &url.URL{Path: "/" + strings.TrimPrefix(path, "/"), RawQuery: query}, Body: http.NoBody,
		})
		switch w.Code {
		case http.StatusInternalServerError:
			// If the path is not valid UTF-8, net/http responds with the status Internal Server
			// Error.
			if utf8.ValidString(path) {
				t.Fatalf("%q?%q: %s", path, query, w.Body)
			}
		case http.StatusOK, http.StatusMovedPermanently, http.StatusTemporaryRedirect, http.StatusBadRequest, http.StatusNotFound:
		default:
			t.Fatalf("%d for %q?%q: %s", w.Code, path, query, w.Body)
		}
		if strings.HasPrefix(path, "/allocation") && w.Code == http.StatusOK && !json.Valid(w.Body.Bytes()) {
			t.Fatalf("no JSON for %q?%q: %s", path, query, w.Body)
		}
		if w.Header().Get("Content-Security-Policy") == "" {
			t.Fatalf("no policy for %q?%q", path, query)
		}
		if w.Code == http.StatusBadRequest && w.Header().Get("Content-Type") != "application/json" && w.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Fatalf("an error of type %q for %q?%q", w.Header().Get("Content-Type"), path, query)
		}
	})
}
