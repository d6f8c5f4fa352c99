package gpueventsconnector

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/connector"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.uber.org/zap"

	"github.com/otelcol-gpu/otelcol-gpu/connector/gpueventsconnector/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/events"
	"github.com/otelcol-gpu/otelcol-gpu/internal/findings"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/misplaced"
	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/internal/stage"
)

// tick is the interval at which the connector checks whether events are due, for example because
// the interval for combining events has ended.
const tick = time.Second

type gpuEvents struct {
	cfg       *Config
	id        component.ID
	set       component.TelemetrySettings
	logger    *zap.Logger
	telemetry *metadata.TelemetryBuilder
	next      consumer.Logs
	order     *misplaced.Check
	kube      *kubeEvents // Nil if no Kubernetes Events are written.
	tracker   *events.Tracker
	rules     *findings.Tracker       // Nil if the findings section is absent.
	refused   componenthelper.Trouble // Limits warnings about too many nodes or devices.
	ahead     componenthelper.Trouble
	setBack   componenthelper.Trouble

	state *componenthelper.State // nil if no storage is configured

	sending sync.Mutex              // Guards fails. Not held while the next consumer runs.
	fails   componenthelper.Failure // Logs a message when the logs pipeline fails or recovers.

	stop    context.CancelFunc
	ticking sync.WaitGroup
}

func newConnector(set connector.Settings, cfg *Config, next consumer.Logs) (*gpuEvents, error) {
	telemetry, err := metadata.NewTelemetryBuilder(set.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	c := &gpuEvents{
		cfg: cfg, id: set.ID, set: set.TelemetrySettings, logger: set.Logger, telemetry: telemetry, next: next,
		order:   misplaced.New("gpu_events", set.Logger),
		fails:   componenthelper.Failure{Logger: set.Logger, Fails: "The logs pipeline does not accept events. They are dropped.", Works: "The logs pipeline accepts events again."},
		tracker: events.New(cfg.settings()),
	}
	if cfg.Findings.HasValue() {
		c.rules = findings.New(findings.Settings(*cfg.Findings.Get()))
	}
	return c, nil
}

// Capabilities implements consumer.Metrics.
func (c *gpuEvents) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

// Start restores the state from storage, if storage is configured.
func (c *gpuEvents) Start(ctx context.Context, host component.Host) error {
	var err error
	c.state, err = componenthelper.OpenState(ctx, host, c.cfg.Storage, component.KindConnector, c.id, componenthelper.StateOptions{
		Version:  events.StoredVersion,
		Unusable: "Some of the stored state cannot be used. Its places start from a baseline.",
		Failure:  componenthelper.Failure{Logger: c.logger, Fails: "The state cannot be stored. A restart may repeat events.", Works: "The state can be stored again."},
		Count:    func(ctx context.Context, _ string) { c.telemetry.ConnectorGpuEventsStorageErrors.Add(ctx, 1) },
	})
	if err != nil {
		return err
	}
	if c.kube, err = startKubeEvents(c.cfg.KubernetesEvents, c.set, c.kubeResult()); err != nil { //nolint:contextcheck // API requests are sent after Start returns
		return errors.Join(fmt.Errorf("kubernetes_events: %w", err), c.state.Close(ctx))
	}
	componenthelper.Restore(ctx, c.state, func(_ string, stored *events.Stored) error { return c.tracker.Restore(stored) })
	ctx, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	c.ticking.Go(func() {
		componenthelper.EveryTick(ctx, tick, func(now time.Time) {
			gone := c.tracker.Forget(now)
			c.run(ctx, gone, func() []events.Event { return c.tracker.Tick(now) })
		})
	})
	return nil
}

// ConsumeMetrics implements consumer.Metrics. ConsumeMetrics never returns an error, because an
// error would cause the metrics pipeline to send the samples again.
func (c *gpuEvents) ConsumeMetrics(ctx context.Context, md pmetric.Metrics) error {
	c.order.Batch(md)
	c.read(ctx, &pdatagpu.Arrival{Metrics: md})
	return nil
}

// NewStage returns gpu_events as a stage. The stage reads frames and metrics without modifying
// them, and sends log records to the next consumer. The stage does not check its position, because
// stages always run in the correct order.
func NewStage(set connector.Settings, cfg *Config, next consumer.Logs) (*pdatagpu.Processor, error) {
	c, err := newConnector(set, cfg, next)
	if err != nil {
		return nil, err
	}
	return pdatagpu.NewStage(pdatagpu.Functions{
		Start: c.Start, Shutdown: c.Shutdown,
		Process: func(ctx context.Context, a *pdatagpu.Arrival) ([]*gpudata.Frame, error) {
			c.read(ctx, a)
			return a.Frames, nil
		},
	}), nil
}

// The read method finds events in the received data and sends a log record for each event.
func (c *gpuEvents) read(ctx context.Context, came *pdatagpu.Arrival) {
	md, now := came.Metrics, time.Now()
	c.run(ctx, nil, func() (out []events.Event) {
		exporters, answered := 0, ""
		for _, rm := range md.ResourceMetrics().All() {
			attrs := rm.Resource().Attributes()
			text := func(key string) string { return pdatagpu.Text(attrs, key) }
			for _, sm := range rm.ScopeMetrics().All() {
				for _, m := range sm.Metrics().All() {
					if m.Name() != signal.GPUExporterUp.Name {
						continue
					}
					for _, dp := range points.Of(m).All() {
						v, _, ok := pdatagpu.Observation(dp)
						if url, has := dp.Attributes().Get(signal.URLFull); ok && has {
							at := gpudata.Place{Cluster: text(signal.K8sClusterName), Node: text(signal.K8sNodeName)}
							exporters++
							if v != 0 {
								answered = url.AsString()
							}
							out = append(out, c.tracker.Exporter(at, text(signal.HostName), url.AsString(), v != 0, int64(dp.Timestamp()), now)...)
						}
					}
				}
			}
		}
		batch := came.ReadOnly(c.wants)
		for _, f := range batch.Frames {
			if c.rules != nil {
				c.rules.Frame(f, now)
			}
			out = append(out, c.tracker.Frame(f, now, batch.Resource)...)
		}
		if exporters == 1 && answered != "" { // the batch comes from a single scrape
			c.tracker.RecordResponse(answered, batch.Frames)
		}
		return out
	})
}

func (c *gpuEvents) wants(m *signal.Metric) bool {
	return events.Wants(m) || c.rules != nil && findings.Wants(m)
}

// The run method calls the find function and sends the events that find returns. Before run sends
// the events, it stores the new state of the affected nodes, and deletes the stored state of the
// nodes in the gone slice.
func (c *gpuEvents) run(ctx context.Context, gone []gpudata.Place, find func() []events.Event) {
	found := find()
	changed := gone
	for _, e := range found {
		if e.Name != events.Suppressed {
			changed = append(changed, e.Place)
		}
	}
	if c.tracker.Refused.Load() > 0 && c.refused.ShouldLog(time.Now()) {
		c.logger.Warn("Too many places, devices, exporters or kinds of errors are known. Further ones have no events.")
	}
	c.reportSkips(ctx)
	c.save(ctx, changed)
	if len(found) == 0 {
		return
	}
	c.kube.add(found)
	err := c.next.ConsumeLogs(ctx, logs(found, time.Now()))
	if err != nil {
		c.telemetry.ConnectorGpuEventsDropped.Add(ctx, int64(len(found)))
	}
	c.sending.Lock()
	defer c.sending.Unlock()
	c.fails.Result(err)
}

// reportSkips counts the frames and points that were skipped because of their timestamps, and logs
// why they were skipped.
func (c *gpuEvents) reportSkips(ctx context.Context) {
	var skipped [events.NumSkips]int64
	for s := range skipped {
		skipped[s] = c.tracker.Skipped[s].Swap(0)
	}
	componenthelper.CountBy[events.Skip](ctx, c.telemetry.ConnectorGpuEventsFramesSkipped, "reason", skipped[:])
	now := time.Now()
	if skipped[events.Future] > 0 && c.ahead.ShouldLog(now) {
		c.logger.Warn("Samples are more than a minute ahead of this collector's clock. They are dropped. Compare the clocks of the nodes with this one.")
	}
	if skipped[events.ClockSetBack] > 0 && c.setBack.ShouldLog(now) {
		c.logger.Warn("For longer than max_gap, all samples of a node were older than its newest one: a clock was set back. "+
			"Events start again from a baseline.", zap.Duration("max_gap", c.cfg.MaxGap))
	}
}

// The save method stores the state of the given nodes.
func (c *gpuEvents) save(ctx context.Context, changed []gpudata.Place) {
	keys := make([]string, 0, len(changed))
	for _, p := range changed {
		keys = append(keys, stage.Key(p))
	}
	_ = c.state.Save(ctx, c.tracker.Store, keys...) // c.state logs failures
}

// Shutdown stores the state. If no storage is configured, Shutdown sends the pending events
// instead.
func (c *gpuEvents) Shutdown(ctx context.Context) error {
	defer c.telemetry.Shutdown()
	defer func() { c.kube.stop() }()
	if c.stop == nil {
		return nil
	}
	c.stop()
	c.ticking.Wait()
	if c.state == nil {
		c.run(ctx, nil, func() []events.Event { return c.tracker.Flush(time.Now()) })
		return nil
	}
	c.run(ctx, nil, func() []events.Event { return c.tracker.Suppressed(time.Now()) })
	c.save(ctx, c.tracker.Places())
	return c.state.Close(ctx)
}
