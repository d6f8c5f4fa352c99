package oracle

import (
	"context"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configmiddleware"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/extension/extensionmiddleware"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/dcgmreceiver"
)

// delivery is a batch and the time since epoch at which the batch arrives at gpu_synthesizer.
type delivery struct {
	at time.Duration
	md pmetric.Metrics
}

// deliveries returns a batch for each successful scrape in a timeline. Each batch arrives at the
// time of its scrape.
func (tl timeline) deliveries(lay layout) []delivery {
	var out []delivery
	for _, s := range tl.scrapes {
		if !s.failed {
			out = append(out, delivery{s.at, lay(s.rows, epoch.Add(s.at))})
		}
	}
	return out
}

// change modifies the default configuration of gpu_window.
type change func(*gpuwindowprocessor.Config)

// emitted is the output of the pipeline.
type emitted struct {
	windows windows
	// carried maps each metric that is not windowed to its number of points.
	carried map[string]int
	// outcomes maps each outcome to the number of samples that gpu_window received with that
	// outcome.
	outcomes map[string]int64
}

// run sends batches through gpu_synthesizer and gpu_window with a fake clock, and returns their
// output. The fake clock starts at epoch and runs until all windows have been sent.
func run(t *testing.T, in []delivery, changes ...change) emitted {
	t.Helper()
	return inBubble(t, changes, func(_ *testing.T, first consumer.Metrics) {
		for _, d := range in {
			advance(d.at)
			// Copy the batch, because gpu_synthesizer modifies batches in place.
			md := pmetric.NewMetrics()
			d.md.CopyTo(md)
			require.NoError(t, first.ConsumeMetrics(context.Background(), md))
		}
	})
}

// advance waits until the given time since epoch.
func advance(to time.Duration) {
	if wait := to - time.Since(epoch); wait > 0 {
		<-time.After(wait)
	}
}

// inBubble starts a pipeline in a synctest bubble, calls the feed function with the pipeline's
// first component, and returns the pipeline's output.
func inBubble(t *testing.T, changes []change, feed func(*testing.T, consumer.Metrics)) emitted {
	t.Helper()
	var sink consumertest.MetricsSink
	out := emitted{windows: windows{}, carried: map[string]int{}}
	synctest.Test(t, func(t *testing.T) {
		require.True(t, time.Now().Equal(epoch), "the clock of a bubble starts at %s", epoch)
		ctx := context.Background()
		telemetry := componenttest.NewTelemetry()
		window := gpuwindowprocessor.NewFactory()
		cfg, ok := window.CreateDefaultConfig().(*gpuwindowprocessor.Config)
		require.True(t, ok)
		for _, c := range changes {
			c(cfg)
		}
		require.NoError(t, confmap.Validate(cfg))
		windows, err := window.CreateMetrics(ctx, settings(window.Type(), telemetry), cfg, &sink)
		require.NoError(t, err)
		synthesizer := gpusynthesizerprocessor.NewFactory()
		tap := &tap{Metrics: windows}
		synth, err := synthesizer.CreateMetrics(ctx, settings(synthesizer.Type(), telemetry), synthesizer.CreateDefaultConfig(), tap)
		require.NoError(t, err)
		require.NoError(t, windows.Start(ctx, componenttest.NewNopHost()))
		require.NoError(t, synth.Start(ctx, componenttest.NewNopHost()))

		feed(t, synth)

		// After this wait, every window with a sample has ended and has been sent.
		<-time.After(2*cfg.Window + cfg.Grace + 4*time.Second)
		out.outcomes = outcomes(t, telemetry)
		counted := int64(0)
		for _, n := range out.outcomes {
			counted += n
		}
		require.Equal(t, tap.samples, counted, "every sample has exactly one outcome")
		require.NoError(t, synth.Shutdown(ctx))
		require.NoError(t, windows.Shutdown(ctx))
		require.NoError(t, telemetry.Shutdown(ctx))
	})
	for _, md := range sink.AllMetrics() {
		out.collect(t, md)
	}
	return out
}

// tap counts the samples that are sent to gpu_window.
type tap struct {
	consumer.Metrics
	samples int64
}

func (c *tap) ConsumeMetrics(ctx context.Context, md pmetric.Metrics) error {
	for _, rm := range md.ResourceMetrics().All() {
		for _, sm := range rm.ScopeMetrics().All() {
			for _, m := range sm.Metrics().All() {
				if m.Name() != signal.GPUExporterUp.Name {
					c.samples += int64(points.Of(m).Len())
				}
			}
		}
	}
	return c.Metrics.ConsumeMetrics(ctx, md)
}

// The outcomes function maps each outcome to the number of samples that gpu_window received with
// that outcome.
func outcomes(t *testing.T, telemetry *componenttest.Telemetry) map[string]int64 {
	t.Helper()
	m, err := telemetry.GetMetric("otelcol_processor_gpu_window_samples")
	require.NoError(t, err)
	sum, ok := m.Data.(metricdata.Sum[int64])
	require.True(t, ok)
	out := map[string]int64{}
	for _, dp := range sum.DataPoints {
		v, _ := dp.Attributes.Value("outcome")
		out[v.AsString()] = dp.Value
	}
	return out
}

func settings(kind component.Type, telemetry *componenttest.Telemetry) processor.Settings {
	set := processortest.NewNopSettings(kind)
	set.TelemetrySettings = telemetry.NewTelemetrySettings()
	return set
}

// collect adds the points in a batch to e.
func (e *emitted) collect(t *testing.T, md pmetric.Metrics) {
	t.Helper()
	for _, rm := range md.ResourceMetrics().All() {
		for _, sm := range rm.ScopeMetrics().All() {
			for _, m := range sm.Metrics().All() {
				s, known := signal.Lookup(m.Name())
				if !known || s.Stage != signal.StageWindow {
					for range points.Of(m).Len() {
						e.carried[m.Name()]++
					}
					continue
				}
				for _, dp := range points.Of(m).All() {
					if dp.Flags().NoRecordedValue() {
						continue
					}
					k := key{metric: m.Name(), end: dp.Timestamp().AsTime().Sub(epoch)}
					device, _ := dp.Attributes().Get(signal.HardwareID)
					k.device = device.Str()
					for _, own := range s.Attributes {
						v, _ := dp.Attributes().Get(own)
						k.own = v.Str()
					}
					_, twice := e.windows[k]
					require.False(t, twice, "%s was sent twice", k)
					e.windows[k] = points.Value(dp)
				}
			}
		}
	}
}

// runOverHTTP makes the dcgm receiver scrape the given response bodies one after another, and sends
// the receiver's batches through the pipeline. If a body is empty, the exporter responds with HTTP
// status 500.
func runOverHTTP(t *testing.T, step time.Duration, texts []string, changes ...change) emitted {
	t.Helper()
	return inBubble(t, changes, func(t *testing.T, first consumer.Metrics) {
		t.Helper()
		ctx := context.Background()
		exporter := &exporter{texts: texts, connections: make(chan net.Conn), closed: make(chan struct{})}
		server := &http.Server{Handler: exporter, ReadHeaderTimeout: time.Minute}
		served := make(chan error)
		go func() { served <- server.Serve(exporter) }()
		transport := &http.Transport{DialContext: exporter.dial}

		factory := dcgmreceiver.NewFactory()
		cfg, ok := factory.CreateDefaultConfig().(*dcgmreceiver.Config)
		require.True(t, ok)
		cfg.Endpoints = []dcgmreceiver.URL{"http://gpu-node-1:9400/metrics"}
		cfg.CollectionInterval = step
		cfg.StartJitter = new(time.Duration)
		id := component.MustNewID("memory")
		cfg.HTTP.Middlewares = []configmiddleware.Config{{ID: id}}
		require.NoError(t, confmap.Validate(cfg))
		receiver, err := factory.CreateMetrics(ctx, receivertest.NewNopSettings(factory.Type()), cfg, first)
		require.NoError(t, err)
		require.NoError(t, receiver.Start(ctx, host{id: roundTripper{transport: transport}}))
		// Wait for all scrapes, the first of which happens immediately.
		advance(step*time.Duration(len(texts)) - step/2)
		require.NoError(t, receiver.Shutdown(ctx))
		require.Len(t, texts, exporter.served, "every text is scraped once")
		transport.CloseIdleConnections()
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-served, http.ErrServerClosed)
	})
}

// exporter serves the given bodies one after another over in-memory pipes. exporter does not use
// sockets, because a synctest bubble's clock does not advance while a goroutine in the bubble waits
// for a socket.
type exporter struct {
	texts  []string
	served int

	connections chan net.Conn
	once        sync.Once
	closed      chan struct{}
}

func (e *exporter) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	text := e.texts[e.served]
	e.served++
	if text == "" {
		http.Error(w, "no metrics", http.StatusInternalServerError)
		return
	}
	_, _ = w.Write([]byte(text))
}

func (e *exporter) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case e.connections <- server:
		return client, nil
	case <-e.closed:
		return nil, net.ErrClosed
	}
}

// Accept implements net.Listener.
func (e *exporter) Accept() (net.Conn, error) {
	select {
	case c := <-e.connections:
		return c, nil
	case <-e.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (e *exporter) Close() error {
	e.once.Do(func() { close(e.closed) })
	return nil
}

// Addr implements net.Listener.
func (e *exporter) Addr() net.Addr { return &net.UnixAddr{Net: "pipe"} }

// host is a Collector host that provides extensions.
type host map[component.ID]component.Component

func (h host) GetExtensions() map[component.ID]component.Component { return h }

// roundTripper is an HTTP client middleware that sends requests over the given transport.
type roundTripper struct {
	component.StartFunc
	component.ShutdownFunc
	transport http.RoundTripper
}

var _ extensionmiddleware.HTTPClient = roundTripper{}

func (r roundTripper) GetHTTPRoundTripper(context.Context) (extensionmiddleware.WrapHTTPRoundTripperFunc, error) {
	return func(context.Context, http.RoundTripper) (http.RoundTripper, error) { return r.transport, nil }, nil
}

// windowOf returns a change that sets the window length.
func windowOf(length time.Duration) change {
	return func(c *gpuwindowprocessor.Config) { c.Window = length }
}
