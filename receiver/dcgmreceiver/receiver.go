package dcgmreceiver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/confighttp"
	"go.opentelemetry.io/collector/config/configmiddleware"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/extension/extensionmiddleware"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/receiverhelper"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/receiverstages"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/dcgmreceiver/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver"
)

// dcgmReceiver contains the data that all endpoints share, such as the HTTP client, the
// self-metrics, and the component status.
type dcgmReceiver struct {
	cfg       *Config
	settings  receiver.Settings
	next      consumer.Metrics
	telemetry *metadata.TelemetryBuilder
	obs       *receiverhelper.ObsReport
	metrics   selfMetrics
	outputs   receiverstages.Outputs
	stages    *pdatagpu.Stages // Nil if the section "stages" is missing.
	nvml      receiver.Metrics // Nil if the section "nvml" is missing.

	endpoints     []*endpoint // The configured endpoints.
	discovery     *discovery  // Nil if endpoints are configured.
	fetcher       *fetcher
	transport     *http.Transport // The HTTP client's transport, without wrappers.
	memory        *memoryLimit
	memoryWarning componenthelper.Trouble // Limits warnings about the memory limit.
	busyWarning   componenthelper.Trouble // Limits warnings about slow scrapes.
	releasePages  func(now time.Time)     // This is componenthelper.ReleasePages, except in tests.

	// Two contexts are needed, because Shutdown cancels HTTP requests immediately, but allows the
	// next consumer to receive data until the context of the Shutdown call ends.
	stopScraping  context.CancelFunc
	stopConsuming context.CancelFunc
	loops         sync.WaitGroup

	status statusReporter
}

var _ receiver.Metrics = (*dcgmReceiver)(nil)

func newReceiver(set receiver.Settings, cfg *Config, next consumer.Metrics) (*dcgmReceiver, error) {
	obs, err := receiverhelper.NewObsReport(receiverhelper.ObsReportSettings{
		ReceiverID:             set.ID,
		Transport:              "http",
		ReceiverCreateSettings: set,
	})
	if err != nil {
		return nil, err
	}
	telemetry, err := metadata.NewTelemetryBuilder(set.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	r := &dcgmReceiver{
		cfg:       cfg,
		settings:  set,
		next:      next,
		outputs:   receiverstages.Outputs{Metrics: next},
		telemetry: telemetry,
		obs:       obs,
		metrics:   newSelfMetrics(telemetry),
		memory:    newMemoryLimit(cfg.MemoryLimit),

		releasePages: componenthelper.ReleasePages,
	}
	for i, text := range cfg.Endpoints {
		u, err := parseEndpoint(string(text))
		if err != nil {
			return nil, fmt.Errorf("endpoints[%d]: %w", i, err)
		}
		r.endpoints = append(r.endpoints, newEndpoint(r, u))
	}
	if len(r.endpoints) == 0 {
		r.discovery = newDiscovery(r, cfg.discovery())
	}
	if err := r.registerGauges(); err != nil {
		return nil, err
	}
	return r, nil
}

// registerGauges registers the self-metrics that use callbacks.
func (r *dcgmReceiver) registerGauges() error {
	return errors.Join(
		r.telemetry.RegisterReceiverDcgmSeriesCacheSizeCallback(func(_ context.Context, o metric.Int64Observer) error {
			size := r.discovery.cacheSize()
			for _, e := range r.endpoints {
				size += e.cacheSize.Load()
			}
			o.Observe(size)
			return nil
		}),
		r.telemetry.RegisterReceiverDcgmEndpointsCallback(func(_ context.Context, o metric.Int64Observer) error {
			if r.discovery != nil {
				r.discovery.observeEndpoints(o)
			} else {
				o.Observe(int64(len(r.endpoints)), originConfigured)
			}
			return nil
		}),
		r.telemetry.RegisterReceiverDcgmDiscoveryStateCallback(func(_ context.Context, o metric.Int64Observer) error {
			r.discovery.observeState(o)
			return nil
		}),
	)
}

// Start implements component.Component. Start returns an error if the settings of the HTTP client
// refer to files or extensions that cannot be used, if the kubeconfig for discovery cannot be used,
// or if a stage or the nvml source fails to start.
func (r *dcgmReceiver) Start(ctx context.Context, host component.Host) error {
	if err := r.open(ctx, host); err != nil {
		return err
	}
	if err := r.startStages(ctx); err != nil {
		return err
	}
	r.run(ctx)
	return nil
}

// Outputs implements receiverstages.Receiver.
func (r *dcgmReceiver) Outputs() *receiverstages.Outputs { return &r.outputs }

// startStages starts the stages and the nvml source.
func (r *dcgmReceiver) startStages(ctx context.Context) error {
	if r.next == nil { // all pipelines have been created before Start is called
		r.next = r.outputs.MetricsOrDiscard()
	}
	set := r.settings
	if r.cfg.Stages.HasValue() {
		stages, err := receiverstages.New(ctx, r.cfg.Stages.Get(), set, r.cfg.CollectionInterval, &r.outputs)
		if err != nil {
			return err
		}
		r.stages = stages
		if err := r.stages.Start(ctx, r.status.Part("stages")); err != nil {
			return err
		}
		r.next = r.stages
	} else if r.outputs.Logs != nil {
		set.Logger.Warn("The receiver is in a logs pipeline but sends no log records. Add the section stages::gpu_events, or remove the receiver from the pipeline.")
	}
	if !r.cfg.NVML.HasValue() {
		return nil
	}
	factory := nvmlreceiver.NewFactory()
	set.ID = component.NewIDWithName(factory.Type(), set.ID.Name())
	set.Logger = set.Logger.With(zap.String("source", factory.Type().String()))
	nvml, err := factory.CreateMetrics(ctx, set, r.cfg.NVML.Get(), r.next)
	if err != nil {
		return fmt.Errorf("nvml: %w", err)
	}
	r.nvml = nvml
	if err := r.nvml.Start(ctx, r.status.Part("nvml")); err != nil {
		return fmt.Errorf("nvml: %w", err)
	}
	return nil
}

// The send method sends the metrics and rows from a scrape to the stages or, if there are no
// stages, to the next consumer. The rows may be nil.
func (r *dcgmReceiver) send(ctx context.Context, rows *pdatagpu.Rows, md pmetric.Metrics) error {
	if r.stages != nil {
		return r.stages.Consume(ctx, rows, md)
	}
	if rows != nil {
		rows.WriteTo(md)
	}
	return r.next.ConsumeMetrics(ctx, md)
}

// The open method creates the HTTP client and acquires the caches of discovery.
func (r *dcgmReceiver) open(ctx context.Context, host component.Host) error {
	r.status.Host = host
	client, transport, err := newClient(ctx, r.cfg.HTTP, host, r.settings.TelemetrySettings)
	if err != nil {
		return fmt.Errorf("http: %w", err)
	}
	r.transport = transport
	r.fetcher = &fetcher{
		client:      client,
		userAgent:   r.settings.BuildInfo.Command + "/" + r.settings.BuildInfo.Version,
		maxBodySize: r.cfg.MaxBodySize,
	}
	if r.discovery != nil {
		return r.discovery.open()
	}
	return nil
}

// The run method starts discovery and the scrape loops of the configured endpoints. Both continue
// after ctx is canceled, because the context of Start may be canceled as soon as Start returns.
func (r *dcgmReceiver) run(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	scraping, stopScraping := context.WithCancel(ctx)
	consuming, stopConsuming := context.WithCancel(ctx)
	r.stopScraping, r.stopConsuming = stopScraping, stopConsuming
	if r.discovery != nil {
		r.loops.Go(func() { r.discovery.run(scraping, consuming) })
	}
	for _, e := range r.endpoints {
		s := r.newSchedule()
		r.loops.Go(func() {
			defer componenthelper.SetScrapeError(e.urlFull, nil)
			s.run(scraping, func() {
				if r.hasMemory(consuming) {
					e.scrape(scraping, consuming)
				}
			}, func(n int64) { r.skip(consuming, n) })
		})
	}
}

// hasMemory reports whether there is enough memory for a scrape. If there is not enough memory,
// hasMemory counts the scrape as skipped and sets the receiver's status to an error until there is
// enough memory again.
func (r *dcgmReceiver) hasMemory(ctx context.Context) bool {
	now := time.Now()
	used, exceeded := r.memory.exceeded(now)
	if !exceeded {
		r.status.Report("memory", nil)
		return true
	}
	r.metrics.skipped(ctx, outcomeMemoryLimit, 1)
	r.status.Report("memory", fmt.Errorf("the heap is above memory_limit (%d bytes): scrapes are skipped", r.memory.limit))
	if r.memoryWarning.ShouldLog(now) {
		r.settings.Logger.Warn("The heap is above memory_limit. Scrapes are skipped until memory is free again.",
			zap.Int64("memory_limit", r.memory.limit), zap.Int64("used", used))
	}
	return false
}

// The skip method counts scrapes that were skipped because the previous scrape was not complete.
func (r *dcgmReceiver) skip(ctx context.Context, n int64) {
	r.metrics.skipped(ctx, outcomeBusy, n)
	if r.busyWarning.ShouldLog(time.Now()) {
		r.settings.Logger.Warn("Scrapes are skipped, because a scrape and the processing of its samples take longer than collection_interval.",
			zap.Duration("collection_interval", r.cfg.CollectionInterval))
	}
}

// newSchedule returns the schedule of one scrape loop.
func (r *dcgmReceiver) newSchedule() schedule {
	s := schedule{interval: r.cfg.CollectionInterval}
	if bound := r.cfg.startJitter(); bound > 0 {
		s.offset = rand.N(bound)
	}
	return s
}

// Shutdown implements component.Component. Shutdown cancels requests in progress and waits until
// the scrape loops have ended. If ctx ends before the loops do, Shutdown returns the error from
// ctx. If Start failed, Shutdown releases everything that Start opened before it failed.
func (r *dcgmReceiver) Shutdown(ctx context.Context) error {
	defer r.telemetry.Shutdown()
	if r.transport != nil {
		defer r.transport.CloseIdleConnections()
	}
	var err error
	if r.stopScraping != nil {
		defer r.stopConsuming()
		err = r.stopLoops(ctx)
	} else if r.discovery != nil {
		r.discovery.release() // The loop of discovery, which otherwise releases the caches, was not started.
	}
	// Stop the sources before the stages, so that the stages can still send the last data from the
	// sources.
	if r.nvml != nil {
		err = errors.Join(err, r.nvml.Shutdown(ctx))
	}
	if r.stages != nil {
		err = errors.Join(err, r.stages.Shutdown(ctx))
	}
	return err
}

// stopLoops stops scraping and waits until the scrape loops have ended. If ctx ends first,
// stopLoops also stops the next consumer and returns the error from ctx.
func (r *dcgmReceiver) stopLoops(ctx context.Context) error {
	r.stopScraping()
	done := make(chan struct{})
	go func() {
		r.loops.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		r.stopConsuming()
		return ctx.Err()
	}
}

// newClient returns the HTTP client and its underlying transport. Shutdown closes idle connections
// through the transport, because the wrappers that confighttp adds for telemetry, headers, and
// authentication do not implement CloseIdleConnections.
func newClient(
	ctx context.Context,
	cfg confighttp.ClientConfig,
	host component.Host,
	set component.TelemetrySettings,
) (*http.Client, *http.Transport, error) {
	innermost := &transportCatcher{}
	id := component.MustNewIDWithName("dcgm_transport", "internal")
	extensions := map[component.ID]component.Component{}
	maps.Copy(extensions, host.GetExtensions())
	extensions[id] = innermost
	cfg.Middlewares = append(append([]configmiddleware.Config(nil), cfg.Middlewares...), configmiddleware.Config{ID: id})
	client, err := cfg.ToClient(ctx, extensions, set)
	if err != nil {
		return nil, nil, err
	}
	if innermost.transport == nil {
		return nil, nil, errors.New("the client does not end in a *http.Transport")
	}
	client.CheckRedirect = checkRedirect
	return client, innermost.transport, nil
}

// transportCatcher is an HTTP client middleware that only stores the transport and does not wrap
// it.
type transportCatcher struct {
	component.StartFunc
	component.ShutdownFunc
	transport *http.Transport
}

var _ extensionmiddleware.HTTPClient = (*transportCatcher)(nil)

func (c *transportCatcher) GetHTTPRoundTripper(context.Context) (extensionmiddleware.WrapHTTPRoundTripperFunc, error) {
	return func(_ context.Context, next http.RoundTripper) (http.RoundTripper, error) {
		c.transport, _ = next.(*http.Transport)
		return next, nil
	}, nil
}

// statusReporter reports to the host when the first endpoint fails and when all endpoints work
// again. The receiver's status combines the statuses of the endpoints, the memory limit, the
// stages, and NVML. The zero value is ready to use after Host has been set.
type statusReporter struct {
	componenthelper.Status

	mu      sync.Mutex
	failing int
}

// The changed method records that an endpoint has started to fail with err. If err is nil, the
// method records that the endpoint works again. The lock is held during reports to the host, so
// that the host receives status events in the correct order.
func (s *statusReporter) changed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		if s.failing++; s.failing == 1 {
			s.Report("endpoints", err)
		}
		return
	}
	if s.failing--; s.failing == 0 {
		s.Report("endpoints", nil)
	}
}
