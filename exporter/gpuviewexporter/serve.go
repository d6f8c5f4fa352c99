package gpuviewexporter

import (
	"embed"
	"encoding/json"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuviewexporter/internal/allocation"
	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuviewexporter/internal/live"
)

//go:embed web
var assets embed.FS

//go:embed allocation.schema.json
var allocationSchema []byte

const (
	// maxResponses is the maximum number of concurrent responses, not including the shared
	// document. The number is limited because each response is held in memory until the client has
	// read the response. If the maximum has been reached, a request waits for up to maxQueueTime.
	maxResponses = 4
	maxQueueTime = 10 * time.Second
)

// The handler method returns the HTTP handler for the page and the API. All requests use GET.
func (e *viewExporter) handler() http.Handler {
	web, _ := fs.Sub(assets, "web") // Sub fails only if the path is invalid.
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(web))
	windows := live.Windows()
	mux.HandleFunc("GET /windows.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
		_, _ = w.Write(windows)
	})
	mux.HandleFunc("GET /api/devices", limitConcurrency(make(chan struct{}, e.cfg.MaxClients), maxQueueTime, e.documents.ServeHTTP, func(w http.ResponseWriter) {
		e.documents.refused.Add(1)
		writeBusy(w, "too many clients read the devices, max_clients is "+strconv.Itoa(e.cfg.MaxClients))
	}))
	slots := make(chan struct{}, maxResponses)
	limited := func(next http.HandlerFunc) http.HandlerFunc {
		return limitConcurrency(slots, maxQueueTime, next, func(w http.ResponseWriter) { writeBusy(w, "too many responses are in progress") })
	}
	mux.HandleFunc("GET /api/devices/{number}/history", limited(e.serveHistory))
	mux.HandleFunc("GET /api/waste", limited(e.serveWaste))
	mux.HandleFunc("GET /allocation", limited(e.serveAllocation))
	mux.HandleFunc("GET /allocation.schema.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/schema+json")
		_, _ = w.Write(allocationSchema)
	})
	if e.cfg.StatsSummary {
		mux.HandleFunc("GET /stats/summary", limited(e.serveSummary))
	}
	return withSecurityHeaders(mux)
}

// limitConcurrency serves at most cap(slots) requests concurrently. Additional requests wait. If a
// request has waited for the given time, the refuse function responds to the request.
func limitConcurrency(slots chan struct{}, wait time.Duration, next http.HandlerFunc, refuse func(http.ResponseWriter)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case slots <- struct{}{}:
		case <-r.Context().Done():
			return
		case <-time.After(wait):
			refuse(w)
			return
		}
		defer func() { <-slots }()
		next(w, r)
	}
}

// writeBusy writes an error response that tells the client to retry later.
func writeBusy(w http.ResponseWriter, message string) {
	w.Header().Set("Retry-After", "30")
	writeJSON(w, http.StatusServiceUnavailable, apiError{http.StatusServiceUnavailable, message})
}

// apiError is the body of an error response.
type apiError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// withSecurityHeaders sets headers that prevent the page from loading content from other sites and
// from being embedded in frames.
func withSecurityHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-cache")
		next.ServeHTTP(w, r)
	})
}

// isLoopback reports whether only processes on the same host can reach the address.
func isLoopback(address net.Addr) bool {
	tcp, ok := address.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// localOnly serves only requests whose Host header contains localhost, a loopback address, or the
// host name in the configuration. If the Host header contains any other host name, the request may
// come from a site that made its own host name resolve to a loopback address (DNS rebinding). After
// DNS rebinding, the browser would allow the other site's scripts to read the response. TLS and
// authentication prevent DNS rebinding. If neither TLS nor authentication is enabled, only the Host
// header reveals DNS rebinding.
//
// Scripts on other sites cannot read the responses to cross-site requests, but cross-site requests
// could overload the exporter and use up the connections that the exporter's own pages need.
// Therefore, unless CORS is configured, other sites can only link to the page.
func (e *viewExporter) localOnly(next http.Handler) http.Handler {
	configured := hostName(e.cfg.HTTP.NetAddr.Endpoint)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := hostName(r.Host)
		ip, err := netip.ParseAddr(name)
		if name != "localhost" && name != configured && (err != nil || !ip.Unmap().IsLoopback()) {
			http.Error(w, "the Host header must name localhost or a loopback address", http.StatusMisdirectedRequest)
			return
		}
		if r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Header.Get("Sec-Fetch-Mode") != "navigate" && !e.cfg.HTTP.CORS.HasValue() {
			http.Error(w, "pages of other sites may only link to this page", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hostName returns the host name in an address of the form host or host:port. The result is in
// lowercase, without brackets and without a trailing dot.
func hostName(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		address = host
	}
	return strings.TrimSuffix(strings.ToLower(strings.Trim(address, "[]")), ".")
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	// A write error means that the client has disconnected.
	_, _ = w.Write(text)
}

func (e *viewExporter) serveHistory(w http.ResponseWriter, r *http.Request) {
	// If the number is invalid, ParseUint returns 0 or the maximum value, and no device has such a
	// number.
	number, _ := strconv.ParseUint(r.PathValue("number"), 10, 64)
	history, ok := live.Trace(e.store, time.Now(), number)
	if !ok {
		writeJSON(w, http.StatusNotFound, apiError{http.StatusNotFound, "there is no device with this number"})
		return
	}
	writeJSON(w, http.StatusOK, history)
}

func (e *viewExporter) serveWaste(w http.ResponseWriter, r *http.Request) {
	waste, ok := allocation.Wasted(e.store, time.Now(), r.URL.Query().Get("by"))
	if !ok {
		writeJSON(w, http.StatusBadRequest, apiError{http.StatusBadRequest, "by must be workload, namespace, claim or node"})
		return
	}
	writeJSON(w, http.StatusOK, waste)
}

func (e *viewExporter) serveAllocation(w http.ResponseWriter, r *http.Request) {
	q, bad := allocation.ParseQuery(r.URL.RawQuery, e.cfg.Retention)
	if bad != nil {
		writeJSON(w, bad.Code, bad)
		return
	}
	writeJSON(w, http.StatusOK, allocation.Compute(e.store, time.Now(), q.Span, q.Aggregate))
}

func (e *viewExporter) serveSummary(w http.ResponseWriter, r *http.Request) {
	nodes := r.URL.Query()["node"]
	if len(nodes) > 1 {
		writeJSON(w, http.StatusBadRequest, apiError{http.StatusBadRequest, "node must be given at most once"})
		return
	}
	summary, bad := allocation.Summarize(e.store, time.Now(), strings.Join(nodes, ""))
	if bad != nil {
		writeJSON(w, bad.Code, bad)
		return
	}
	writeJSON(w, http.StatusOK, summary)
}
