package dcgmsim

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Fault is a way in which a scrape fails.
type Fault string

const (
	// FaultNone responds normally.
	FaultNone Fault = "none"
	// FaultHTTP500 responds with status 500 and the exporter's error message. Exporter 4.8.3 and
	// later respond with status 500 if one sample in the body would be invalid.
	FaultHTTP500 Fault = "http-500"
	// FaultEmpty responds with status 200 and an empty body, as the exporter does during a hot
	// reload.
	FaultEmpty Fault = "empty"
	// FaultHang does not respond until the client gives up or the server is closed.
	FaultHang Fault = "hang"
	// FaultTruncated announces the length of the full body, sends half of the body, and closes the
	// connection.
	FaultTruncated Fault = "truncated"
	// FaultGarbage responds with status 200 and a page that is not exposition text, as a captive
	// portal does.
	FaultGarbage Fault = "garbage"
	// FaultSlow divides the body into slowPieces pieces and waits for slowPause between consecutive
	// pieces.
	FaultSlow Fault = "slow"
)

// Faults lists all faults.
func Faults() []Fault {
	return []Fault{FaultNone, FaultHTTP500, FaultEmpty, FaultHang, FaultTruncated, FaultGarbage, FaultSlow}
}

// The following constants determine the timing of FaultSlow. With FaultSlow, sending a body takes
// about two seconds.
const (
	slowPieces = 10
	slowPause  = 200 * time.Millisecond
)

// maxQueuedFaults is the maximum number of queued faults per node. Only requests to /control check
// this limit.
const maxQueuedFaults = 1000

const internalServerError = "internal server error"

const garbage = "<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body><p>Please sign in to continue.</p></body></html>\n"

// ServerSettings configure a [Server].
type ServerSettings struct {
	// Now returns the current time. The default is time.Now. The simulation starts when the server
	// is created.
	Now func() time.Time
	// Replay is a list of recorded bodies. If Replay is not empty, the server sends the recorded
	// bodies unchanged instead of simulating. Each scrape of a node receives the next recorded
	// body.
	Replay [][]byte
}

// Server serves a simulation over HTTP in the same way as dcgm-exporter serves metrics. The path
// /metrics serves node 0, /node/<n>/metrics serves node n, and /health responds with OK. POST
// /control queues faults. Server is safe for concurrent use.
type Server struct {
	simulation *Simulation
	settings   ServerSettings
	start      time.Time
	mux        *http.ServeMux
	nodes      []served
	closed     chan struct{}
	closeOnce  sync.Once
}

// served is the state of one node.
type served struct {
	mu      sync.Mutex
	scrapes int
	faults  []Fault
	// sampled is the time of the values in the response body. The bytes of the response body must
	// not be modified.
	sampled time.Duration
	body    []byte
}

// NewServer returns a server for the simulation.
func NewServer(simulation *Simulation, settings ServerSettings) *Server {
	if settings.Now == nil {
		settings.Now = time.Now
	}
	s := &Server{
		simulation: simulation,
		settings:   settings,
		start:      settings.Now(),
		mux:        http.NewServeMux(),
		nodes:      make([]served, simulation.config.Nodes),
		closed:     make(chan struct{}),
	}
	s.mux.HandleFunc("/{$}", s.index)
	s.mux.HandleFunc("/health", s.health)
	s.mux.HandleFunc("/metrics", s.metrics)
	s.mux.HandleFunc("/node/{node}/metrics", s.metrics)
	s.mux.HandleFunc("POST /control", s.control)
	return s
}

// Simulation returns the simulation, which provides the true values.
func (s *Server) Simulation() *Simulation { return s.simulation }

// Since returns the simulation time of a scrape at time t. The simulation time is not rounded to
// the collect interval.
func (s *Server) Since(t time.Time) time.Duration { return max(t.Sub(s.start), 0) }

// Inject queues faults for a node. Each of the node's next scrapes gets one fault. Inject panics if
// the simulation has no such node.
func (s *Server) Inject(node int, faults ...Fault) {
	n := &s.nodes[node]
	n.mu.Lock()
	defer n.mu.Unlock()
	n.faults = append(n.faults, faults...)
}

// Close ends hanging and slow responses. After Close, the server still handles other requests.
func (s *Server) Close() {
	s.closeOnce.Do(func() { close(s.closed) })
}

// ServeHTTP serves one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	s.mux.ServeHTTP(w, r)
}

func (s *Server) index(w http.ResponseWriter, _ *http.Request) {
	_, _ = w.Write([]byte(`<html>
			<head><title>GPU Exporter</title></head>
			<body>
			<h1>GPU Exporter</h1>
			<p><a href="./metrics">Metrics</a></p>
			<p><a href="./health">Health</a></p>
			</body>
			</html>`))
}

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("X-Registry-Available", "true")
	_, _ = w.Write([]byte("OK"))
}

// node parses a node number.
func (s *Server) node(value string) (int, error) {
	if value == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 || n >= len(s.nodes) {
		return 0, refused("node", value, "0 to %d", len(s.nodes)-1)
	}
	return n, nil
}

func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	n, err := s.node(r.PathValue("node"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	body, fault := s.scrape(n)
	if contentType := s.simulation.contentType(n); contentType != "" {
		w.Header().Set("Content-Type", contentType)
	}
	switch fault {
	case FaultHTTP500:
		http.Error(w, internalServerError, http.StatusInternalServerError)
	case FaultEmpty:
		w.WriteHeader(http.StatusOK)
	case FaultHang:
		s.wait(r, nil)
	case FaultTruncated:
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body[:len(body)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	case FaultGarbage:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(garbage))
	case FaultSlow:
		s.drip(w, r, body)
	default:
		_, _ = w.Write(body)
	}
}

// scrape returns the body and the fault for a node's next scrape.
func (s *Server) scrape(node int) ([]byte, Fault) {
	n := &s.nodes[node]
	n.mu.Lock()
	defer n.mu.Unlock()
	count := n.scrapes
	n.scrapes++

	fault := FaultNone
	if len(n.faults) > 0 {
		fault, n.faults = n.faults[0], n.faults[1:]
	}
	if replay := s.settings.Replay; len(replay) > 0 {
		return replay[count%len(replay)], fault
	}

	at := s.simulation.Sampled(s.Since(s.settings.Now()))
	if n.body == nil || n.sampled != at {
		// Allocate a new slice, because other requests may still be sending the old one.
		n.body = s.simulation.AppendBody(make([]byte, 0, len(n.body)+len(n.body)/16), node, at)
		n.sampled = at
	}
	return n.body, fault
}

// wait blocks until the client disconnects, the server is closed, or the channel is ready. The
// result is true if the channel was ready.
func (s *Server) wait(r *http.Request, ready <-chan time.Time) bool {
	select {
	case <-r.Context().Done():
		return false
	case <-s.closed:
		return false
	case <-ready:
		return true
	}
}

// drip sends the body slowly.
func (s *Server) drip(w http.ResponseWriter, r *http.Request, body []byte) {
	flush := http.NewResponseController(w).Flush
	for piece := range slowPieces {
		if piece > 0 {
			timer := time.NewTimer(slowPause)
			goOn := s.wait(r, timer.C)
			timer.Stop()
			if !goOn {
				return
			}
		}
		from, to := piece*len(body)/slowPieces, (piece+1)*len(body)/slowPieces
		if _, err := w.Write(body[from:to]); err != nil {
			return
		}
		if err := flush(); err != nil {
			return
		}
	}
}

// control queues faults for a request such as POST /control?node=0&fault=hang&times=3.
func (s *Server) control(w http.ResponseWriter, r *http.Request) {
	node, fault, times, err := s.controlQuery(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	n := &s.nodes[node]
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.faults)+times > maxQueuedFaults {
		http.Error(w, fmt.Sprintf("node %d already has %d queued faults, the limit is %d", node, len(n.faults), maxQueuedFaults), http.StatusTooManyRequests)
		return
	}
	n.faults = append(n.faults, slices.Repeat([]Fault{fault}, times)...)
	w.WriteHeader(http.StatusNoContent)
}

// controlQuery parses the query of a control request.
func (s *Server) controlQuery(r *http.Request) (node int, fault Fault, times int, err error) {
	query := r.URL.Query()
	node, nodeErr := s.node(query.Get("node"))
	fault = Fault(query.Get("fault"))
	times = 1
	var timesErr error
	if value := query.Get("times"); value != "" {
		if times, timesErr = strconv.Atoi(value); timesErr != nil || times < 1 || times > maxQueuedFaults {
			timesErr = refused("times", value, "1 to %d", maxQueuedFaults)
		}
	}
	return node, fault, times, errors.Join(nodeErr, oneOf("fault", fault, Faults()), timesErr)
}
