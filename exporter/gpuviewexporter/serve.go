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
)

//go:embed web
var assets embed.FS

//go:embed allocation.schema.json
var allocationSchema []byte

const (
	// patience is how long a page may take for one write.
	patience = 10 * time.Second
	// heartbeat keeps proxies from closing a connection on which nothing happens.
	heartbeat = 15 * time.Second
)

// handler serves the page and the API. Everything is GET.
func (e *viewExporter) handler() (http.Handler, error) {
	web, err := fs.Sub(assets, "web")
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(web))
	mux.HandleFunc("GET /api/devices", e.serveDevices)
	mux.HandleFunc("GET /events", e.serveEvents)
	mux.HandleFunc("GET /allocation", e.serveAllocation)
	mux.HandleFunc("GET /allocation.schema.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/schema+json")
		_, _ = w.Write(allocationSchema)
	})
	if e.cfg.StatsSummary {
		mux.HandleFunc("GET /stats/summary", e.serveSummary)
	}
	return secure(mux), nil
}

// secure lets the page load nothing from elsewhere and be embedded nowhere.
func secure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-cache")
		next.ServeHTTP(w, r)
	})
}

// isLoopback says whether only processes of the same host can reach an address.
func isLoopback(address net.Addr) bool {
	tcp, ok := address.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// localOnly serves requests to localhost, a loopback address, or the name in the
// configuration. Any other Host comes from a page whose name was made to resolve
// to loopback (DNS rebinding), which the browser lets read the answer: TLS and
// authentication stop that, and without them only the Host tells.
func (e *viewExporter) localOnly(next http.Handler) http.Handler {
	configured := hostName(e.cfg.HTTP.NetAddr.Endpoint)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := hostName(r.Host)
		ip, err := netip.ParseAddr(name)
		if name != "localhost" && name != configured && (err != nil || !ip.Unmap().IsLoopback()) {
			http.Error(w, "the Host must be localhost or a loopback address", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hostName returns the host of host or host:port, in lower case and without
// brackets and a final dot.
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
	// Whoever no longer listens is not our concern.
	_, _ = w.Write(text)
}

func (e *viewExporter) serveDevices(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, e.hub.snapshot(time.Now()))
}

func (e *viewExporter) serveAllocation(w http.ResponseWriter, r *http.Request) {
	q, bad := allocation.ParseQuery(r.URL.Query(), e.cfg.Retention)
	if bad != nil {
		writeJSON(w, bad.Code, bad)
		return
	}
	writeJSON(w, http.StatusOK, allocation.Compute(e.store, time.Now(), q.Span, q.Aggregate))
}

func (e *viewExporter) serveSummary(w http.ResponseWriter, r *http.Request) {
	summary, bad := allocation.Summarize(e.store, time.Now(), r.URL.Query().Get("node"))
	if bad != nil {
		writeJSON(w, bad.Code, bad)
		return
	}
	writeJSON(w, http.StatusOK, summary)
}

// serveEvents sends a patch as a server-sent event for each window. The server's
// write timeout is for answers; here every write has its own.
func (e *viewExporter) serveEvents(w http.ResponseWriter, r *http.Request) {
	patches, ok := e.hub.join()
	if !ok {
		w.Header().Set("Retry-After", "30")
		writeJSON(w, http.StatusServiceUnavailable, map[string]any{
			"code": http.StatusServiceUnavailable, "message": "too many pages are open, max_clients is " + strconv.Itoa(e.cfg.MaxClients),
		})
		return
	}
	defer e.hub.leave(patches)
	control := http.NewResponseController(w)
	send := func(parts ...[]byte) bool {
		if err := control.SetWriteDeadline(time.Now().Add(patience)); err != nil {
			return false
		}
		for _, p := range parts {
			if _, err := w.Write(p); err != nil {
				return false
			}
		}
		return control.Flush() == nil
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	for ok := send([]byte("retry: 2000\n\n")); ok; {
		select {
		case <-r.Context().Done():
			return
		case <-ticker.C:
			ok = send([]byte(":\n\n"))
		case patch, open := <-patches:
			if !open {
				return
			}
			ok = send([]byte("data: "), patch, []byte("\n\n"))
		}
	}
}
