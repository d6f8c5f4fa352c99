package gpuviewexporter

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuviewexporter/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuviewexporter/internal/store"
	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/misplaced"
)

// viewExporter writes metrics to a store and serves the contents of the store over HTTP.
type viewExporter struct {
	cfg            *Config
	settings       component.TelemetrySettings
	telemetry      *metadata.TelemetryBuilder
	store          *store.Store
	documents      *documents
	order          *misplaced.Check
	aheadWarning   componenthelper.Trouble
	setBackWarning componenthelper.Trouble

	server *http.Server
	// The address field is the address that the server listens on.
	address net.Addr
	running sync.WaitGroup
}

func newViewExporter(set exporter.Settings, cfg *Config) (*viewExporter, error) {
	telemetry, err := metadata.NewTelemetryBuilder(set.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	e := &viewExporter{
		cfg: cfg, settings: set.TelemetrySettings, telemetry: telemetry,
		order: misplaced.New("gpu_view", set.Logger),
		store: store.New(store.Settings{Retention: cfg.Retention, MaxDevices: cfg.MaxDevices, MaxHolders: cfg.MaxHolders}),
	}
	e.documents = newDocuments(e.store)
	return e, nil
}

// The start method opens the listener and starts the server. If the endpoint is unavailable, if a
// certificate cannot be read, or if an extension does not exist, the start method returns an error.
func (e *viewExporter) start(ctx context.Context, host component.Host) error {
	if err := e.observe(); err != nil {
		return err
	}
	e.store.Start(time.Now()) // Receivers start after exporters, so counters that start in this process start later.
	handler := e.handler()
	listener, err := e.cfg.HTTP.ToListener(ctx)
	if err != nil {
		return err
	}
	if isLoopback(listener.Addr()) && !e.cfg.HTTP.TLS.HasValue() && !e.cfg.HTTP.Auth.HasValue() {
		handler = e.localOnly(handler)
	}
	server, err := e.cfg.HTTP.ToServer(ctx, host.GetExtensions(), e.settings, handler)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	e.server, e.address = server, listener.Addr()
	e.running.Go(func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			componentstatus.ReportStatus(host, componentstatus.NewPermanentErrorEvent(err))
		}
	})
	scheme := "http"
	if e.cfg.HTTP.TLS.HasValue() {
		scheme = "https"
	}
	e.settings.Logger.Info("The GPU view is served.", zap.String("url", scheme+"://"+e.address.String()+"/"))
	return nil
}

// The observe method exports self-metrics about the store and about requests.
func (e *viewExporter) observe() error {
	var outcomes [store.Outcomes]metric.MeasurementOption
	for o := range outcomes {
		outcomes[o] = componenthelper.With("outcome", store.Outcome(o).String())
	}
	requests := []struct {
		count  *atomic.Int64
		result metric.MeasurementOption
	}{
		{&e.documents.sent, componenthelper.With("result", "sent")}, {&e.documents.unchanged, componenthelper.With("result", "unchanged")}, {&e.documents.refused, componenthelper.With("result", "refused")},
	}
	return errors.Join(
		e.telemetry.RegisterExporterGpuViewPointsCallback(func(_ context.Context, o metric.Int64Observer) error {
			for i, n := range e.store.Stats().Points {
				if n == 0 && store.Outcome(i) >= store.Implausible {
					continue // Implausible and clamped ratios are rare, so export their counts only if they are not zero.
				}
				o.Observe(int64(n), outcomes[i])
			}
			return nil
		}),
		e.telemetry.RegisterExporterGpuViewDevicesCallback(componenthelper.Observed(func() int64 { return int64(e.store.Stats().Devices) })),
		e.telemetry.RegisterExporterGpuViewHoldersCallback(componenthelper.Observed(func() int64 { return int64(e.store.Stats().Holders) })),
		e.telemetry.RegisterExporterGpuViewRequestsCallback(func(_ context.Context, o metric.Int64Observer) error {
			for _, r := range requests {
				o.Observe(r.count.Load(), r.result)
			}
			return nil
		}),
	)
}

// The consume method stores a batch and never returns an error. Points that cannot be stored are
// only counted.
func (e *viewExporter) consume(_ context.Context, md pmetric.Metrics) error {
	now := time.Now()
	e.order.Batch(md)
	batch := e.store.Begin(now)
	addBatch(batch, md)
	batch.End()
	for _, l := range batch.Reached() {
		do := "Raise the limit, or find out what creates so many items."
		if l.Setting == "" {
			do = "The limit is fixed: find out what creates so many items."
		}
		e.settings.Logger.Warn("A limit is reached: new items above it are refused and not shown. "+do,
			zap.String("setting", l.Setting), zap.Int("limit", l.Limit), zap.String("of", l.Of))
	}
	if batch.Ahead() && e.aheadWarning.ShouldLog(now) {
		e.settings.Logger.Warn("Metrics are more than a minute ahead of this collector's clock. They are dropped and not shown. " +
			"Compare the clocks of the collectors that send them with this one.")
	}
	if batch.SetBack() && e.setBackWarning.ShouldLog(now) {
		e.settings.Logger.Warn("All metrics of a node stayed older than its newest ones: a clock was set back. The node's earlier data is deleted.")
	}
	return nil
}

// The shutdown method waits until all requests in progress are complete or ctx is done.
func (e *viewExporter) shutdown(ctx context.Context) error {
	defer e.telemetry.Shutdown()
	if e.server == nil {
		return nil
	}
	err := e.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, e.server.Close())
	}
	e.running.Wait()
	return err
}
