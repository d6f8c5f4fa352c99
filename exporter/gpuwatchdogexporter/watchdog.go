package gpuwatchdogexporter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"
	"k8s.io/client-go/kubernetes"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuwatchdogexporter/internal/cluster"
	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuwatchdogexporter/internal/decide"
	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuwatchdogexporter/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper/lease"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/internal/misplaced"
)

// The component status consists of the following parts.
const (
	statusLease      = "lease"
	statusEvaluation = "evaluation"
)

// The watchdog type collects samples, evaluates the samples at regular intervals, and carries out
// the decisions.
type watchdog struct {
	cfg       *Config
	policy    decide.Policy
	settings  exporter.Settings
	logger    *zap.Logger
	telemetry *metadata.TelemetryBuilder
	samples   *collection
	refused   componenthelper.Trouble
	order     *misplaced.Check

	// In production, newCache is kube.Acquire, newCluster is cluster.New, and clock is time.Now.
	// Tests replace these functions.
	newCache   func(kube.Options, component.TelemetrySettings) (*kube.Cache, error)
	newCluster func(kubernetes.Interface, cluster.Options) *cluster.Cluster
	clock      func() time.Time

	cache   *kube.Cache
	cluster *cluster.Cluster
	record  *lease.Record          // The record is nil if the shared record is disabled.
	state   *componenthelper.State // The state is nil if there is no storage extension.
	term    atomic.Pointer[lease.Term]

	// Only the goroutine that runs the evaluations uses the following fields.
	memory     *evaluationState
	recorded   []decide.Action // The actions that the record contained when it was last read.
	recordRead time.Time       // The time of the evaluation that last read the record.
	denied     missingPermissions
	stored     []byte // the state that was last written to the storage
	lastTerm   *lease.Term
	lastTick   time.Time                       // Wall clock time of the last evaluation.
	lastRan    time.Duration                   // Time from startedAt to the last evaluation, according to the monotonic clock.
	startedAt  time.Time                       // Start time, with a monotonic clock reading.
	reasons    map[decide.Device]decide.Reason // The reason from the last evaluation of each device.

	lastSuccess              atomic.Int64 // milliseconds since the Unix epoch; 0 means that no evaluation was complete
	stopEvaluating, stopTerm context.CancelFunc
	evaluating, electing     sync.WaitGroup
	ending                   componenthelper.Ending

	status componenthelper.Status
}

func newWatchdog(set exporter.Settings, cfg *Config) (*watchdog, error) {
	telemetry, err := metadata.NewTelemetryBuilder(set.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	return &watchdog{
		cfg: cfg, policy: cfg.policy(), settings: set, logger: set.Logger, telemetry: telemetry,
		samples:  newCollection(cfg.MaxDataAge),
		order:    misplaced.New("gpu_watchdog", set.Logger),
		newCache: kube.Acquire, newCluster: cluster.New, clock: time.Now,
		memory:  newEvaluationState(),
		reasons: map[decide.Device]decide.Reason{},
	}, nil
}

// The start method returns an error if a kubeconfig cannot be read or if the storage extension does
// not exist. If the API server is unreachable, the start method does not return an error.
func (w *watchdog) start(ctx context.Context, host component.Host) error {
	w.status.Host = host
	if err := w.restore(ctx, host); err != nil {
		return err
	}
	cache, err := w.newCache(kube.Options{Config: w.cfg.Kubernetes}, w.settings.TelemetrySettings)
	if err != nil {
		return errors.Join(fmt.Errorf("kubernetes: %w", err), w.state.Close(ctx))
	}
	if err := w.observe(); err != nil {
		cache.Release()
		return errors.Join(err, w.state.Close(ctx))
	}
	w.cache = cache

	ctx = context.WithoutCancel(ctx) // The context that is passed to the start method ends when the method returns.
	evaluating, stopEvaluating := context.WithCancel(ctx)
	electing, stopTerm := context.WithCancel(ctx)
	w.stopEvaluating, w.stopTerm = stopEvaluating, stopTerm
	if client := cache.Client(); client != nil {
		w.cluster = w.newCluster(client, cluster.Options{
			DryRun: w.cfg.DryRun, Delete: w.cfg.Action == actionDelete, Budgets: gpushare.BudgetOptions{Annotation: w.cfg.Budgets.Annotation},
		})
		if w.cfg.SharedRecord.Enabled {
			w.record = lease.NewRecord(client, w.cfg.SharedRecord, recordKey)
		}
		report := func(err error) { w.report(statusLease, err) }
		w.electing.Go(func() {
			if err := lease.Run(electing, w.cfg.LeaderElection, client, w.term.Store, report); err != nil {
				report(err)
			}
		})
	}
	w.evaluating.Go(func() { w.run(evaluating) })
	w.logger.Info("The GPU watchdog was started.", zap.Bool("dry_run", w.cfg.DryRun), zap.Stringer("floor", w.cfg.Floor),
		zap.Int("breaches", w.cfg.Breaches), zap.Strings("namespaces", w.cfg.Namespaces))
	return nil
}

func (w *watchdog) observe() error {
	return errors.Join(
		w.telemetry.RegisterExporterGpuWatchdogDevicesCallback(componenthelper.Observed(w.samples.count)),
		w.telemetry.RegisterExporterGpuWatchdogLeaderCallback(componenthelper.Observed(func() int64 { return w.term.Load().LeadingValue() })),
		w.telemetry.RegisterGpuWatchdogLastSuccessCallback(func(_ context.Context, o metric.Float64Observer) error {
			if at := w.lastSuccess.Load(); at != 0 {
				o.Observe(float64(at) / 1000)
			}
			return nil
		}),
	)
}

// The consume method processes a batch and never returns an error. Points that cannot be used are
// only counted.
func (w *watchdog) consume(ctx context.Context, md pmetric.Metrics) error {
	w.order.Batch(md)
	counts := w.samples.add(md, w.clock())
	componenthelper.CountBy[outcome](ctx, w.telemetry.ExporterGpuWatchdogPoints, "outcome", counts[:])
	if n := counts[refused]; n > 0 && w.refused.ShouldLog(time.Now()) {
		w.logger.Warn(fmt.Sprintf("A watchdog watches at most %d devices with at most %d containers each. Further ones are not watched. "+
			"Run a watchdog in the agent of each node.", maxDevices, maxHolders), zap.Int64("refused", n))
	}
	return nil
}

func (w *watchdog) run(ctx context.Context) {
	w.startedAt, w.lastTick = time.Now(), w.clock().Round(0)
	componenthelper.EveryTick(ctx, w.cfg.Interval, func(time.Time) { w.evaluate(ctx) })
}

// The restore method reads the stored state.
func (w *watchdog) restore(ctx context.Context, host component.Host) error {
	var err error
	w.state, err = componenthelper.OpenState(ctx, host, w.cfg.Storage, component.KindExporter, w.settings.ID, componenthelper.StateOptions{
		Version:  stateVersion,
		Key:      stateKey,
		Unusable: "The stored state cannot be used. Breach counts and cool-downs restart.",
		Failure:  componenthelper.Failure{Logger: w.logger}, // The component status reports storage errors.
		Count: func(ctx context.Context, operation string) {
			w.telemetry.ExporterGpuWatchdogStorageErrors.Add(ctx, 1, componenthelper.With("operation", operation))
		},
	})
	componenthelper.Restore(ctx, w.state, func(_ string, stored *storedState) error {
		w.memory = stored.evaluationState()
		w.stored = w.memory.encode()
		if !w.memory.lastSuccess.IsZero() {
			w.lastSuccess.Store(w.memory.lastSuccess.UnixMilli())
		}
		return nil
	})
	return err
}

// The save method stores the state if the state has changed. If there is no storage extension, the
// save method does nothing.
func (w *watchdog) save(ctx context.Context) error {
	text := w.memory.encode()
	if !slices.Equal(text, w.stored) {
		w.stored = text
		w.state.Changed(stateKey)
	}
	if err := w.state.Save(ctx, func(string) any { return json.RawMessage(text) }); err != nil {
		return fmt.Errorf("storage: %w", err)
	}
	return nil
}

// The report method sets one part of the component status, and logs a message when the problem of
// that part changes.
func (w *watchdog) report(part string, err error) {
	switch changed, recovered := w.status.Report(part, err); {
	case !changed:
	case recovered:
		w.logger.Info("The GPU watchdog can act again.")
	case err != nil: // If there is no error, the remaining problems have already been reported.
		w.logger.Warn("The GPU watchdog cannot act.", zap.Error(err))
	}
}

// The shutdown method waits for the evaluation in progress, releases the Lease so that another
// replica can take over immediately, and stores the state. If ctx is done first, the method returns
// the error from ctx.
func (w *watchdog) shutdown(ctx context.Context) error {
	defer w.telemetry.Shutdown()
	if w.cache == nil {
		return nil
	}
	return w.ending.Run(ctx, func() error {
		w.stopEvaluating()
		w.evaluating.Wait()
		w.stopTerm()
		w.electing.Wait()
		w.cache.Release()
		return errors.Join(w.save(context.WithoutCancel(ctx)), w.state.Close(context.WithoutCancel(ctx)))
	})
}
