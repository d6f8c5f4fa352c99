package dcgmreceiver

import (
	"context"
	"errors"
	"iter"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/dcgmreceiver/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/statustest"
)

// goodBody is a body that contains a gauge and a counter for one device.
const goodBody = "# TYPE DCGM_FI_DEV_GPU_TEMP gauge\nDCGM_FI_DEV_GPU_TEMP{gpu=\"0\",UUID=\"GPU-1\"} 30\n" +
	"# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter\nDCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu=\"0\",UUID=\"GPU-1\"} 4711\n"

// serve returns a handler that responds to every request with the given body.
func serve(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }
}

// fixture is a receiver that sends its batches to a sink. Tests either start the scrape loops or
// open the receiver and call scrape.
type fixture struct {
	*dcgmReceiver
	sink      *consumertest.MetricsSink
	host      *statustest.Host
	logs      *observer.ObservedLogs
	telemetry *componenttest.Telemetry
}

// newFixture returns a receiver for the endpoints. If the change argument is not nil, newFixture
// calls it to modify the configuration.
func newFixture(t *testing.T, endpoints []string, change func(*Config)) *fixture {
	t.Helper()
	f := &fixture{sink: new(consumertest.MetricsSink), host: statustest.NewHost(), telemetry: componenttest.NewTelemetry()}
	t.Cleanup(func() { require.NoError(t, f.telemetry.Shutdown(context.Background())) })
	core, logs := observer.New(zapcore.DebugLevel)
	f.logs = logs

	cfg := createDefaultConfig().(*Config)
	for _, endpoint := range endpoints {
		cfg.Endpoints = append(cfg.Endpoints, URL(endpoint))
	}
	if change != nil {
		change(cfg)
	}
	require.NoError(t, cfg.Validate())
	set := settings(f.telemetry)
	set.Logger = zap.New(core)
	r, err := newReceiver(set, cfg, f.sink)
	require.NoError(t, err)
	f.dcgmReceiver = r
	t.Cleanup(func() {
		require.NoError(t, r.Shutdown(context.Background()))
		if r.transport != nil {
			r.transport.CloseIdleConnections()
		}
	})
	return f
}

// The opened function returns a fixture whose receiver is already open.
func opened(t *testing.T, endpoints []string, change func(*Config)) *fixture {
	t.Helper()
	f := newFixture(t, endpoints, change)
	require.NoError(t, f.open(context.Background(), f.host))
	return f
}

func settings(telemetry *componenttest.Telemetry) receiver.Settings {
	set := receivertest.NewNopSettings(metadata.Type)
	set.TelemetrySettings = telemetry.NewTelemetrySettings()
	set.BuildInfo = component.BuildInfo{Command: "otelcol-gpu", Version: "1.2.3"}
	return set
}

// The scrape method scrapes the endpoint with index i once and returns the batch.
func (f *fixture) scrape(t *testing.T, i int) pmetric.Metrics {
	t.Helper()
	before := len(f.sink.AllMetrics())
	f.endpoints[i].scrape(context.Background(), context.Background())
	batches := f.sink.AllMetrics()
	require.Len(t, batches, before+1, "one batch per scrape")
	return batches[before]
}

// The points function iterates over the metrics in a batch, and returns the first point of each
// metric. Only metrics that describe the exporter itself can have several points.
func points(md pmetric.Metrics) iter.Seq2[pmetric.Metric, pmetric.NumberDataPoint] {
	return func(yield func(pmetric.Metric, pmetric.NumberDataPoint) bool) {
		for _, rm := range md.ResourceMetrics().All() {
			for _, m := range rm.ScopeMetrics().At(0).Metrics().All() {
				var point pmetric.NumberDataPoint
				if m.Type() == pmetric.MetricTypeSum {
					point = m.Sum().DataPoints().At(0)
				} else {
					point = m.Gauge().DataPoints().At(0)
				}
				if !yield(m, point) {
					return
				}
			}
		}
	}
}

// exporterUpOf returns the value of gpu.exporter.up in a batch, and the URL of the exporter.
func exporterUpOf(t *testing.T, md pmetric.Metrics) (int64, string) {
	t.Helper()
	for m, point := range points(md) {
		if m.Name() == signal.GPUExporterUp.Name {
			url, ok := point.Attributes().Get(signal.URLFull)
			require.True(t, ok)
			return point.IntValue(), url.Str()
		}
	}
	require.Fail(t, "no "+signal.GPUExporterUp.Name)
	return 0, ""
}

// timestamp returns the timestamp of the first point in a batch.
func timestamp(md pmetric.Metrics) time.Time {
	for _, point := range points(md) {
		return point.Timestamp().AsTime()
	}
	return time.Time{}
}

// network is an in-memory network of HTTP servers. Tests in a synctest bubble use this network,
// because the fake clock of the bubble does not advance while a test waits for a real socket.
type network struct {
	servers map[string]*pipeListener // keyed by host and port
}

// listen starts an HTTP server at the given address. The server runs until the test ends.
func (n *network) listen(t *testing.T, address string, handler http.Handler) {
	t.Helper()
	l := &pipeListener{connections: make(chan net.Conn), done: make(chan struct{})}
	if n.servers == nil {
		n.servers = map[string]*pipeListener{}
	}
	n.servers[address] = l
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Hour}
	served := make(chan error)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-served, http.ErrServerClosed)
	})
}

func (n *network) dial(ctx context.Context, _, address string) (net.Conn, error) {
	l := n.servers[address]
	if l == nil {
		return nil, errors.New("connection refused")
	}
	client, server := net.Pipe()
	select {
	case l.connections <- server:
		return client, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type pipeListener struct {
	connections chan net.Conn
	once        sync.Once
	done        chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.connections:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Net: "pipe"} }

// The messages method returns the log messages with their levels.
func messages(logs *observer.ObservedLogs) []string {
	var list []string
	for _, entry := range logs.All() {
		list = append(list, entry.Level.String()+": "+entry.Message)
	}
	return slices.Clip(list)
}
