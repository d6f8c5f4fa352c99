package gpuclusterreceiver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/receiverhelper"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper/lease"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/gpuclusterreceiver/internal/demand"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/gpuclusterreceiver/internal/metadata"
)

// clusterReceiver emits the points of the store while this replica is the leader.
type clusterReceiver struct {
	cfg       *Config
	settings  receiver.Settings
	next      consumer.Metrics
	telemetry *metadata.TelemetryBuilder
	obs       *receiverhelper.ObsReport
	store     *store
	batches   batches

	// newCache is kube.Acquire, except in tests, where newCache returns a cache that uses a fake
	// client.
	newCache func(kube.Options, component.TelemetrySettings) (*kube.Cache, error)

	cache    *kube.Cache
	progress componenthelper.Notice // Signals that an object or the state of a kind has changed.
	term     atomic.Pointer[lease.Term]
	size     int // The number of points in the last emission.
	// The following fields record whether the last emission dropped pools, devices, or conditions.
	pools, devices, conditions, claimConditions repeatedDrop

	stopEmitting, stopElection context.CancelFunc
	emitting, electing         sync.WaitGroup
	unsubscribe                []func()
	ending                     componenthelper.Ending

	status componenthelper.Status
}

func newReceiver(set receiver.Settings, cfg *Config, next consumer.Metrics) (*clusterReceiver, error) {
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
	r := &clusterReceiver{
		cfg:       cfg,
		settings:  set,
		next:      next,
		telemetry: telemetry,
		obs:       obs,
		batches:   batches{cfg.ClusterName, set.BuildInfo.Version},
		newCache:  kube.Acquire,
		progress:  componenthelper.NewNotice(),
	}
	r.store, err = newStore(cfg, r.progress.Notify, set.Logger)
	return r, err
}

// demandOptions returns the options for the demand package.
func (cfg *Config) demandOptions(families gpushare.Families) demand.Options {
	opts := demand.Options{
		IsGPU:    families.IsGPU,
		Drivers:  cfg.DRADrivers,
		Classes:  cfg.DeviceClasses,
		First:    cfg.FirstAvailable == firstAvailableFirst,
		Disabled: cfg.Metrics.Disabled(emitted()),
	}
	for _, rule := range gpushare.Rules() {
		opts.Rules = append(opts.Rules, string(rule))
	}
	return opts
}

// Start implements component.Component. Start returns an error if the address of the API server is
// unknown. With a service account, this is the case if the collector runs outside a cluster or the
// service account has no token. With a kubeconfig, this is the case if the kubeconfig cannot be
// used. If the API server is unreachable, Start does not return an error.
func (r *clusterReceiver) Start(ctx context.Context, host component.Host) error {
	c, err := r.newCache(kube.Options{Config: r.cfg.Kubernetes}, r.settings.TelemetrySettings)
	if err != nil {
		return fmt.Errorf("kubernetes: %w", err)
	}
	// If there is no API server, all kinds are off, so checking one kind is sufficient.
	c.Need(kinds...) //nolint:contextcheck // The informers must continue to run after Start returns.
	if state := c.State(kube.Pods); state.Phase == kube.Off {
		c.Release()
		return fmt.Errorf("kubernetes: the address of the API server, the only data source, is unknown: %w", state.Err)
	}
	r.cache = c
	r.status.Host = host
	if err := r.registerCallbacks(); err != nil {
		r.cache = nil
		c.Release()
		return err
	}

	r.unsubscribe = append(r.unsubscribe, r.store.subscribe(c))
	changed := componenthelper.NewNotice()
	for _, k := range kinds {
		r.unsubscribe = append(r.unsubscribe, c.Subscribe(k, func() {
			r.progress.Notify()
			changed.Notify()
		}))
	}

	ctx = context.WithoutCancel(ctx) // The context of Start may be canceled when Start returns.
	emitting, stopEmitting := context.WithCancel(ctx)
	electing, stopElection := context.WithCancel(ctx)
	r.stopEmitting, r.stopElection = stopEmitting, stopElection
	terms := make(chan *lease.Term)
	r.emitting.Go(func() { r.reportStates(emitting, changed) })
	r.emitting.Go(func() { r.run(emitting, terms) })
	r.electing.Go(func() { r.elect(electing, terms) })
	return nil
}

// elect takes part in leader election until ctx is done or leader election cannot start. At the
// start of each leadership term of this replica, elect sends the term to the given channel.
func (r *clusterReceiver) elect(ctx context.Context, terms chan<- *lease.Term) {
	client := r.cache.Client()
	if client == nil { // The cache is not connected to an API server.
		return
	}
	report := func(err error) {
		switch news, _ := r.status.Report("lease", err); {
		case !news:
		case err != nil:
			r.settings.Logger.Warn("The lease cannot be read or written. Without it nothing is emitted.", zap.Error(err))
		default:
			r.settings.Logger.Info("The lease can be read and written again.")
		}
	}
	lead := func(t *lease.Term) {
		select {
		case terms <- t:
		case <-t.Context().Done():
		}
	}
	if err := lease.Run(ctx, r.cfg.LeaderElection, client, lead, report); err != nil {
		report(fmt.Errorf("leader election: %w", err))
	}
}

// The run method emits points during each leadership term, until ctx is done.
func (r *clusterReceiver) run(ctx context.Context, terms <-chan *lease.Term) {
	for {
		select {
		case <-ctx.Done():
			return
		case t := <-terms:
			r.emitDuringTerm(ctx, t)
		}
	}
}

// emitDuringTerm emits points until the leadership term ends or ctx is done. Points are emitted when
// all kinds are settled for the first time, and once per interval after that. While some kinds are
// not settled, points are emitted once per interval, starting one interval after the term begins.
func (r *clusterReceiver) emitDuringTerm(ctx context.Context, t *lease.Term) {
	termContext, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.Context(), cancel)() //nolint:contextcheck // The term ends with the lease, not with the caller's context.
	r.term.Store(t)
	defer r.term.Store(nil)

	tick := time.NewTicker(r.cfg.CollectionInterval)
	defer tick.Stop()
	first := r.progress
	r.progress.Notify()
	for {
		select {
		case <-termContext.Done():
			return
		case <-first:
			if !r.settled() {
				continue
			}
			first = nil
			tick.Reset(r.cfg.CollectionInterval)
		case <-tick.C:
		}
		r.emit(termContext, t, time.Now())
	}
}

// The settled method reports whether every kind is either known or not expected to become known
// soon.
func (r *clusterReceiver) settled() bool {
	return !slices.ContainsFunc(kinds, func(k kube.Kind) bool {
		known, settled := r.kindState(k)
		return !known && !settled
	})
}

// kindState reports whether all objects of a kind are known, and whether waiting for them is
// unnecessary. If the API server is unavailable, the last objects that were read still count as
// known.
func (r *clusterReceiver) kindState(k kube.Kind) (known, settled bool) {
	switch state := r.cache.State(k); state.Phase {
	case kube.Synced, kube.Stale:
		known = r.store.isComplete(k, func() int { return r.cache.Len(k) })
		return known, known
	default:
		return false, state.Settled()
	}
}

// The observed method returns the kinds for which all objects are known. A kind is not included
// while another kind that affects its points is not settled. Points that depend on a kind that is
// not included are not emitted.
func (r *clusterReceiver) observed() demand.Observed {
	pods, podsSettled := r.kindState(kube.Pods)
	nodes, nodesSettled := r.kindState(kube.Nodes)
	devices, devicesSettled := r.kindState(kube.ResourceSlices)
	claims, _ := r.kindState(kube.ResourceClaims)
	templates, templatesSettled := r.kindState(kube.ResourceClaimTemplates)
	_, classesSettled := r.kindState(kube.DeviceClasses)
	rules, rulesSettled := r.kindState(kube.DeviceTaintRules)
	return demand.Observed{
		Pods:      pods && nodesSettled && classesSettled,
		Nodes:     nodes && classesSettled,
		Slices:    devices && rulesSettled,
		Claims:    claims && classesSettled && podsSettled && templatesSettled && devicesSettled,
		Templates: templates,
		// If the API server does not serve DeviceTaintRules, no rules exist, so the rules count as
		// known.
		TaintRules: rules || r.cache.State(kube.DeviceTaintRules).Phase == kube.Absent,
	}
}

// The emit method sends the current points. If the leadership term ends, the method does not send
// the remaining points.
func (r *clusterReceiver) emit(ctx context.Context, t *lease.Term, now time.Time) {
	started := time.Now()
	points, stats := r.store.points(now, r.observed(), make([]demand.Point, 0, r.size))
	r.size = len(points)
	elapsed := time.Since(started)
	for len(points) > 0 && ctx.Err() == nil && t.IsLeading() {
		started = time.Now()
		md, n := r.batches.build(points, now)
		elapsed += time.Since(started)
		points = points[n:]
		obs := r.obs.StartMetricsOp(ctx)
		if r.cfg.FlatAttributes {
			pdatagpu.Flatten(md)
		}
		err := r.next.ConsumeMetrics(obs, md)
		r.obs.EndMetricsOp(obs, metadata.Type.String(), n, err)
	}
	r.telemetry.ReceiverGpuClusterEmissionDuration.Record(ctx, elapsed.Seconds())
	r.telemetry.ReceiverGpuClusterAllModeRequests.Record(ctx, stats.AllModeRequests)
	r.telemetry.ReceiverGpuClusterConditionsDropped.Record(ctx, stats.ConditionsDropped+stats.ClaimConditionsDropped)
	r.telemetry.ReceiverGpuClusterIncompletePools.Record(ctx, stats.IncompletePools)
	r.telemetry.ReceiverGpuClusterUnknownDevices.Record(ctx, stats.UnknownDevices)
	if r.pools.isRepeated(now, stats.IncompletePools) {
		r.settings.Logger.Warn("Slices of a device pool are missing or contradict each other. The pool is not emitted. Its driver must publish "+
			"the number of slices that these slices declare for the pool, all of one generation.",
			zap.String("pool", stats.IncompletePool), zap.Int64("pools", stats.IncompletePools))
	}
	if r.devices.isRepeated(now, stats.UnknownDevices) {
		r.settings.Logger.Warn("Claims have devices that no complete pool advertises. They cannot be joined to telemetry. Their driver is gone "+
			"or now advertises other devices.",
			zap.String("device", stats.UnknownDevice), zap.Int64("devices", stats.UnknownDevices))
	}
	if r.conditions.isRepeated(now, stats.ConditionsDropped) {
		r.settings.Logger.Warn(fmt.Sprintf("Conditions of nodes are dropped: a node has at most %d condition series, and a type has at most %d bytes. "+
			"Make node_conditions match fewer.", maxConditions, maxValue),
			zap.String("k8s.node.name", stats.ConditionsNode), zap.Int64("conditions", stats.ConditionsDropped))
	}
	if r.claimConditions.isRepeated(now, stats.ClaimConditionsDropped) {
		r.settings.Logger.Warn(fmt.Sprintf("Conditions of claims' devices are dropped from k8s.resourceclaim.device.condition: their types have more than %d bytes.", maxValue),
			zap.String("claim", stats.ConditionsClaim), zap.Int64("conditions", stats.ClaimConditionsDropped))
	}
}

// repeatedDrop detects when two consecutive emissions drop items. A single drop is normal, because
// a pool is temporarily incomplete while its driver replaces the slices.
type repeatedDrop struct {
	componenthelper.Trouble
	droppedBefore bool // whether the last emission dropped items
}

// isRepeated records that an emission dropped n items, and reports whether to log the drop.
func (l *repeatedDrop) isRepeated(now time.Time, n int64) bool {
	repeated := n > 0 && l.droppedBefore
	l.droppedBefore = n > 0
	return repeated && l.ShouldLog(now)
}

func (r *clusterReceiver) registerCallbacks() error {
	return errors.Join(
		r.telemetry.RegisterReceiverGpuClusterAttributesDroppedCallback(componenthelper.Observed(r.store.dropped.Load)),
		r.telemetry.RegisterReceiverGpuClusterLeaderCallback(componenthelper.Observed(func() int64 { return r.term.Load().LeadingValue() })),
		r.telemetry.RegisterReceiverGpuClusterCacheStateCallback(func(_ context.Context, o metric.Int64Observer) error {
			for _, k := range kinds {
				r.cache.State(k).Observe(o, attribute.String("kind", k.String()))
			}
			return nil
		}),
	)
}

// reportStates reports to the host the kinds whose objects cannot be read, for example because the
// kinds are forbidden or stale. If the API server does not serve an API, or if a kind is still being
// read without an error, this is not an error. The cache logs errors. reportStates reports at the
// start and after each change, until ctx is done. A single goroutine reads and reports the states of
// all kinds, so that an old state is not reported after a newer one.
func (r *clusterReceiver) reportStates(ctx context.Context, changed componenthelper.Notice) {
	for {
		var errs []error
		for _, k := range kinds {
			if state := r.cache.State(k); state.Failing() {
				errs = append(errs, fmt.Errorf("%s: %s: %w", k, state.Phase, state.Err))
			}
		}
		r.status.Report("objects", errors.Join(errs...))
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// Shutdown implements component.Component. Shutdown releases the lease, so that another replica can
// take over immediately. If ctx is done before all goroutines have stopped, Shutdown returns the
// error from ctx.
func (r *clusterReceiver) Shutdown(ctx context.Context) error {
	defer r.telemetry.Shutdown()
	if r.cache == nil {
		return nil
	}
	return r.ending.Run(ctx, func() error {
		r.stopEmitting()
		r.emitting.Wait()
		r.stopElection()
		r.electing.Wait()
		for _, end := range r.unsubscribe {
			end()
		}
		r.cache.Release()
		return nil
	})
}
