package faults

import (
	"fmt"
	"hash/crc32"
	"io"
	"log"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
)

// gpus is the number of GPUs that each simulated exporter has.
const gpus = 2

// answer records the values in a complete and valid response from an exporter.
type answer struct {
	// The at field is the time at which the exporter read its values.
	at time.Time
	// utilization is the utilization of every GPU.
	utilization float64
	// xids is the exporter's counter of XID errors.
	xids int
	// throttled is the exporter's counter of throttled time, in seconds.
	throttled float64
}

// exporter simulates a dcgm-exporter with known values. Each GPU has constant memory occupancy, is
// throttled half of the time, and has one XID error per response. Each response reports a different
// utilization, so the utilization identifies the response.
type exporter struct {
	node string
	// address has the form "127.0.0.1:<port>" and is kept across restarts.
	address string
	// scheme is the scheme of the exporter's URL.
	scheme string
	// host is the host in the exporter's URL.
	host string
	// If wrap is not nil, wrap adds TLS to connections.
	wrap func(net.Listener) net.Listener

	server *http.Server
	done   chan struct{} // closed when server has ended

	keepsNothing bool // do not record answers

	mu      sync.Mutex
	answers []answer
	// n is the number of responses, including invalid ones.
	n int
	// started is the start time of the counters.
	started time.Time
	xids    int
	// If fault is not nil, fault responds instead of the exporter. The rows parameter contains the
	// valid response.
	fault func(w http.ResponseWriter, r *http.Request, rows string)
	// extra returns additional lines for the n-th response, and labels returns additional labels
	// for each device's lines in that response.
	extra  func(n int) string
	labels func(n int) string
}

// newExporter starts an exporter for a node. The exporter runs until the end of the test.
func newExporter(t *testing.T, node string, prepare ...func(*exporter)) *exporter {
	t.Helper()
	e := &exporter{node: node, scheme: "http", host: "127.0.0.1", started: time.Now()}
	for _, p := range prepare {
		p(e)
	}
	e.up(t)
	t.Cleanup(func() { e.down() })
	return e
}

// url returns the URL of the exporter's metrics.
func (e *exporter) url() string {
	_, port, _ := net.SplitHostPort(e.address)
	return e.scheme + "://" + net.JoinHostPort(e.host, port) + "/metrics"
}

// The up method starts the exporter's server. After a call to the down method, up starts the server
// on the same address again.
func (e *exporter) up(t *testing.T) {
	t.Helper()
	listener := listen(t, e.address)
	e.address = listener.Addr().String()
	if e.wrap != nil {
		listener = e.wrap(listener)
	}
	e.server = &http.Server{Handler: e, ReadHeaderTimeout: processtest.Patience, ErrorLog: log.New(io.Discard, "", 0)}
	e.done = make(chan struct{})
	go func(server *http.Server, done chan struct{}) {
		defer close(done)
		assert.ErrorIs(t, server.Serve(listener), http.ErrServerClosed)
	}(e.server, e.done)
}

// The down method stops the exporter and closes its connections.
func (e *exporter) down() {
	_ = e.server.Close()
	<-e.done
}

// restart simulates a restart of the exporter and the driver, so counters start at zero.
func (e *exporter) restart(t *testing.T) {
	t.Helper()
	e.down()
	e.mu.Lock()
	e.started, e.xids = time.Now(), 0
	e.mu.Unlock()
	e.up(t)
}

// The breaks method installs a handler that responds instead of the exporter. If fault is nil, the
// exporter responds again.
func (e *exporter) breaks(fault func(w http.ResponseWriter, r *http.Request, rows string)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fault = fault
}

// The adds method installs functions that return additional labels and lines for valid responses.
func (e *exporter) adds(labels, extra func(n int) string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.labels, e.extra = labels, extra
}

func (e *exporter) served() []answer {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]answer(nil), e.answers...)
}

// device returns the hw.id of a GPU. Each hw.id is unique across all exporters.
func (e *exporter) device(gpu int) string {
	return fmt.Sprintf("GPU-%08x-0000-0000-0000-%012d", crc32.ChecksumIEEE([]byte(e.node)), gpu)
}

// occupancy returns the constant memory occupancy of a GPU.
func occupancy(gpu int) float64 { return float64(gpu+1) / 10 }

// utilization returns the utilization in the n-th response, in percent. The values are random, so
// that no two subsets of responses have the same mean.
func utilization(n int) float64 {
	return math.Round(rand.New(rand.NewPCG(uint64(n), 1)).Float64()*1e8) / 1e6
}

// ServeHTTP implements http.Handler.
func (e *exporter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	now := time.Now()
	e.n++
	e.xids++
	a := answer{at: now, utilization: utilization(e.n), xids: e.xids, throttled: now.Sub(e.started).Seconds() / 2}
	labels, fault := "", e.fault
	if e.labels != nil {
		labels = e.labels(e.n)
	}
	var b strings.Builder
	b.WriteString("# TYPE DCGM_FI_DEV_POWER_VIOLATION counter\n# TYPE DCGM_EXP_XID_ERRORS_TOTAL counter\n")
	for gpu := range gpus {
		id := fmt.Sprintf(`gpu="%d",UUID="%s",device="nvidia%d",modelName="NVIDIA L4",Hostname="%s"%s`, gpu, e.device(gpu), gpu, e.node, labels)
		fmt.Fprintf(&b, "DCGM_FI_DEV_POWER_VIOLATION{%s} %d\n", id, now.Sub(e.started).Nanoseconds()/2)
		fmt.Fprintf(&b, "DCGM_FI_DEV_FB_USED{%s} %d\nDCGM_FI_DEV_FB_FREE{%s} %d\n", id, 100*(gpu+1), id, 1000-100*(gpu+1))
		fmt.Fprintf(&b, "DCGM_FI_DEV_GPU_UTIL{%s} %v\n", id, a.utilization)
		fmt.Fprintf(&b, "DCGM_EXP_XID_ERRORS_TOTAL{%s,xid=\"31\"} %d\n", id, a.xids)
	}
	if e.extra != nil {
		b.WriteString(e.extra(e.n))
	}
	if fault == nil && !e.keepsNothing {
		e.answers = append(e.answers, a)
	}
	e.mu.Unlock()

	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	if fault != nil {
		fault(w, r, b.String())
		return
	}
	_, _ = io.WriteString(w, b.String())
}
