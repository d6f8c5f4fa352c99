package gpuwatchdogexporter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"
	"k8s.io/client-go/kubernetes"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuwatchdogexporter/internal/cluster"
	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuwatchdogexporter/internal/decide"
	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuwatchdogexporter/internal/metadata"
	base "github.com/otelcol-gpu/otelcol-gpu/internal/component"
	"github.com/otelcol-gpu/otelcol-gpu/internal/component/lease"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/internal/misplaced"
)

// Kubernetes Events about a decision.
const (
	eventEvicted = "GPUMemoryEviction"        // the pod is evicted
	eventDryRun  = "GPUMemoryEvictionDryRun"  // the pod would be evicted
	eventRefused = "GPUMemoryEvictionRefused" // it could not be evicted
)

// maxRecords is the most log records of one evaluation of all devices.
const maxRecords = 100

// clockTolerance is the difference between clock and stopwatch, from one
// evaluation to the next, from which on the clock was set.
const clockTolerance = 5 * time.Second

// Parts of the status.
const (
	ofLease      = "lease"
	ofEvaluation = "evaluation"
)

// watchdog collects samples, evaluates them at an interval and acts.
type watchdog struct {
	cfg       *Config
	policy    decide.Policy
	settings  exporter.Settings
	logger    *zap.Logger
	telemetry *metadata.TelemetryBuilder
	samples   *collection
	refused   base.Trouble
	order     *misplaced.Check

	// newCache is kube.Acquire, clock time.Now; tests put theirs here.
	newCache   func(kube.Options, component.TelemetrySettings) (*kube.Cache, error)
	newCluster func(kubernetes.Interface, cluster.Options) *cluster.Cluster
	clock      func() time.Time

	cache   *kube.Cache
	cluster *cluster.Cluster
	state   *base.State // nil without a storage
	term    atomic.Pointer[lease.Term]

	// Of the evaluating goroutine alone.
	memory   *memory
	stored   []byte // what was last given to the storage
	known    *lease.Term
	lastTick time.Time                       // by the clock
	lastRan  time.Duration                   // the same by the stopwatch
	begun    time.Time                       // of the stopwatch
	reasons  map[decide.Device]decide.Reason // of the evaluation before

	lastSuccess              atomic.Int64 // in milliseconds since the epoch, 0: never
	stopEvaluating, stopTerm context.CancelFunc
	evaluating, electing     sync.WaitGroup
	stop                     sync.Once
	ended                    chan struct{} // closed when everything has stopped

	status base.Status
}

func newWatchdog(set exporter.Settings, cfg *Config) (*watchdog, error) {
	telemetry, err := metadata.NewTelemetryBuilder(set.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	return &watchdog{
		cfg: cfg, policy: cfg.policy(), settings: set, logger: set.Logger, telemetry: telemetry,
		samples:  newCollection(cfg.MaxDataAge),
		order:    misplaced.New("gpu_watchdog", misplaced.BeforeWindows, set.Logger),
		newCache: kube.Acquire, newCluster: cluster.New, clock: time.Now,
		memory:  newMemory(),
		reasons: map[decide.Device]decide.Reason{},
		ended:   make(chan struct{}),
	}, nil
}

// start fails when a kubeconfig cannot be read or the storage does not exist. That
// the API server cannot be reached is no reason to fail.
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

	ctx = context.WithoutCancel(ctx) // it ends with start
	evaluating, stopEvaluating := context.WithCancel(ctx)
	electing, stopTerm := context.WithCancel(ctx)
	w.stopEvaluating, w.stopTerm = stopEvaluating, stopTerm
	if client := cache.Client(); client != nil {
		w.cluster = w.newCluster(client, cluster.Options{
			Namespaces: w.cfg.Namespaces, DryRun: w.cfg.DryRun, Delete: w.cfg.Action == actionDelete,
		})
		terms := make(chan *lease.Term)
		w.electing.Go(func() {
			if err := lease.Run(electing, w.cfg.LeaderElection, client, terms, w.leaseResult); err != nil {
				w.leaseResult(err)
			}
		})
		w.evaluating.Go(func() {
			for {
				select {
				case t := <-terms:
					w.term.Store(t)
				case <-evaluating.Done():
					return
				}
			}
		})
	}
	w.evaluating.Go(func() { w.run(evaluating) })
	w.logger.Info("The GPU watchdog is on guard.", zap.Bool("dry_run", w.cfg.DryRun), zap.Stringer("floor", w.cfg.Floor),
		zap.Int("breaches", w.cfg.Breaches), zap.Strings("namespaces", w.cfg.Namespaces))
	return nil
}

func (w *watchdog) observe() error {
	return errors.Join(
		w.telemetry.RegisterExporterGpuWatchdogDevicesCallback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(w.samples.count())
			return nil
		}),
		w.telemetry.RegisterExporterGpuWatchdogLeaderCallback(func(_ context.Context, o metric.Int64Observer) error {
			leader := int64(0)
			if w.term.Load().Holds() {
				leader = 1
			}
			o.Observe(leader)
			return nil
		}),
		w.telemetry.RegisterGpuWatchdogLastSuccessCallback(func(_ context.Context, o metric.Float64Observer) error {
			if at := w.lastSuccess.Load(); at != 0 {
				o.Observe(float64(at) / 1000)
			}
			return nil
		}),
	)
}

var outcomeAttributes = func() (sets [outcomes]metric.MeasurementOption) {
	for o, name := range outcomeNames {
		sets[o] = metric.WithAttributeSet(attribute.NewSet(attribute.String("outcome", name)))
	}
	return sets
}()

// consume takes a batch in. It never fails: what cannot be used is counted.
func (w *watchdog) consume(ctx context.Context, md pmetric.Metrics) error {
	w.order.Batch(md, time.Now())
	counts := w.samples.take(md, w.clock())
	for o, n := range counts {
		if n > 0 {
			w.telemetry.ExporterGpuWatchdogPoints.Add(ctx, n, outcomeAttributes[o])
		}
	}
	if n := counts[refused]; n > 0 && w.refused.Returns(time.Now()) {
		w.logger.Warn(fmt.Sprintf("One watchdog watches %d devices with %d containers each at most: further ones are refused and not watched. "+
			"Run a watchdog in the agent of each node.", maxDevices, maxHolders), zap.Int64("refused", n))
	}
	return nil
}

func (w *watchdog) run(ctx context.Context) {
	tick := time.NewTicker(w.cfg.Interval)
	defer tick.Stop()
	w.begun, w.lastTick = time.Now(), w.clock().Round(0)
	for {
		select {
		case <-tick.C:
			w.evaluate(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// evaluate judges every device once, and moves the heartbeat if it was able to.
func (w *watchdog) evaluate(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, max(w.cfg.Interval, cluster.CallTimeout))
	defer cancel()
	now, ran := w.clock().Round(0), time.Since(w.begun) // what is remembered has no stopwatch
	step := now.Sub(w.lastTick) - (ran - w.lastRan)
	w.lastTick, w.lastRan = now, ran
	reason, err := w.evaluateAll(ctx, step, now)
	if reason != "" {
		w.count(ctx, reason)
	}
	err = errors.Join(err, w.save(ctx))
	if !errors.Is(ctx.Err(), context.Canceled) { // shutdown
		w.report(ofEvaluation, err)
	}
}

// evaluateAll returns a reason where no device was evaluated, and what is wrong.
func (w *watchdog) evaluateAll(ctx context.Context, step time.Duration, now time.Time) (decide.Reason, error) {
	if step.Abs() >= clockTolerance {
		w.logger.Warn("The clock was set. Breaches are counted anew.", zap.Duration("by", step))
		w.samples.clear()
		w.memory.actions = decide.Shift(w.memory.actions, step)
		clear(w.memory.breaches)
		return decide.ClockStep, nil
	}
	if w.cluster == nil {
		return decide.APIUnavailable, fmt.Errorf("the API server is not used: %w", w.cache.State(kube.Pods).Err)
	}
	term := w.term.Load()
	if !term.Holds() {
		return decide.NotLeader, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(term.Context(), cancel)() //nolint:contextcheck // the lease ends a term, not the caller
	if term != w.known {
		if err := w.inherit(ctx, term); err != nil {
			return decide.APIUnavailable, fmt.Errorf("actions of earlier leaders: %w", err)
		}
		w.known = term
	}
	missing, err := w.cluster.Missing(ctx)
	if err != nil {
		return decide.APIUnavailable, fmt.Errorf("permissions: %w", err)
	}
	if missing != "" {
		return decide.NoPermission, fmt.Errorf("permission is missing: %s", missing)
	}
	all := w.samples.samples(now)
	if len(all) == 0 {
		return decide.NoTelemetry, errors.New("no device is known: gpu.memory.headroom and gpu.memory.attribution.state do not arrive")
	}

	whole, records := true, 0
	var problems []error
	for i := range all {
		d, err := w.evaluateDevice(ctx, term, &all[i], now)
		whole = whole && d.Reason.Complete()
		w.count(ctx, d.Reason)
		if w.worthARecord(&d) {
			if records++; records <= maxRecords {
				w.log(&d, all[i].reason, err)
			}
		}
		if err != nil && !d.Reason.Complete() {
			problems = append(problems, err)
		}
		w.reasons[d.Device] = d.Reason
	}
	if records > maxRecords {
		w.logger.Warn("Many devices were judged worth a record; further ones are left out.", zap.Int("left_out", records-maxRecords))
	}
	w.forget(all)
	if whole && term.Holds() {
		w.memory.lastSuccess = now
		w.lastSuccess.Store(now.UnixMilli())
	}
	return "", errors.Join(problems...)
}

// inherit takes over what an earlier leader did.
func (w *watchdog) inherit(ctx context.Context, term *lease.Term) error {
	ctx, cancel := context.WithTimeout(ctx, cluster.CallTimeout)
	defer cancel()
	note, err := term.Note(ctx, noteKey)
	if err != nil || note == "" {
		return err
	}
	var actions []decide.Action
	if err := json.Unmarshal([]byte(note), &actions); err != nil {
		w.logger.Warn("The actions on the lease cannot be read. Those of earlier leaders do not count.", zap.Error(err))
		return nil
	}
	w.memory.actions = decide.Merge(w.memory.actions, actions)
	return nil
}

// evaluateDevice judges one device and does what was decided. The error says why
// it could not be.
func (w *watchdog) evaluateDevice(ctx context.Context, term *lease.Term, o *observed, now time.Time) (decide.Decision, error) {
	before := decide.State{Breach: w.memory.breaches[o.device], Actions: w.memory.actions}
	in := decide.Input{Device: o.device, Sample: o.sample, Pods: map[string]decide.Pod{}}
	for {
		after, d := decide.Evaluate(before, in, w.policy, now)
		if d.Reason == decide.PodUnknown && ctx.Err() == nil {
			pod, err := w.cluster.Pod(ctx, d.Victim.Namespace, d.Victim.Pod)
			if err == nil {
				in.Pods[d.Victim.UID] = pod
				continue
			}
			w.remember(o.device, after)
			return d, fmt.Errorf("pod %s/%s: %w", d.Victim.Namespace, d.Victim.Pod, err)
		}
		w.remember(o.device, after)
		if d.Action == nil {
			return d, nil
		}
		return w.act(ctx, term, after, d, now)
	}
}

func (w *watchdog) remember(device decide.Device, s decide.State) {
	w.memory.breaches[device], w.memory.actions = s.Breach, s.Actions
}

// act writes the action down, in the storage and on the lease, and does it then. So
// a crash in between leaves a cool-down without an eviction, never the reverse.
func (w *watchdog) act(
	ctx context.Context, term *lease.Term, s decide.State, d decide.Decision, now time.Time,
) (decide.Decision, error) {
	end := func(reason decide.Reason, outcome decide.Outcome, err error) (decide.Decision, error) {
		d.Reason = reason
		w.remember(d.Device, decide.Settle(s, *d.Action, outcome))
		w.tell(ctx, &d, err, now)
		if err != nil {
			err = fmt.Errorf("pod %s/%s: %w", d.Victim.Namespace, d.Victim.Pod, err)
		}
		return d, err
	}
	if err := w.save(ctx); err != nil {
		return end(decide.StateUnsaved, decide.NotDone, err)
	}
	err := w.note(ctx, term)
	switch {
	case errors.Is(err, lease.ErrLost), err == nil && !term.Holds():
		return end(decide.NotLeader, decide.NotDone, err)
	case err != nil:
		return end(decide.StateUnsaved, decide.NotDone, err)
	case w.cfg.DryRun:
		return end(decide.WouldEvict, decide.Done, nil)
	}
	reason, outcome, err := w.cluster.Act(ctx, d.Action)
	decided, err := end(reason, outcome, err)
	if outcome == decide.NotDone {
		// The note tells of an action that was not. The next one writes it anew; until
		// then only another leader would be held back by it.
		if noteErr := w.note(ctx, term); noteErr != nil {
			w.logger.Warn("The lease still tells of an action that was not done.", zap.Error(noteErr))
		}
	}
	return decided, err
}

// note writes the actions on the lease, if this replica still holds it.
func (w *watchdog) note(ctx context.Context, term *lease.Term) error {
	ctx, cancel := context.WithTimeout(ctx, cluster.CallTimeout)
	defer cancel()
	actions, err := json.Marshal(w.memory.actions)
	if err != nil {
		return err
	}
	if err := term.SetNote(ctx, noteKey, string(actions)); err != nil {
		return fmt.Errorf("lease %s: %w", &w.cfg.LeaderElection, err)
	}
	return nil
}

// tell writes a Kubernetes Event, once while the reason stays the same.
func (w *watchdog) tell(ctx context.Context, d *decide.Decision, cause error, now time.Time) {
	var name, message string
	numbers := fmt.Sprintf("uses %s of GPU memory, declared are %s, and device %s has %s free, the floor is %s",
		kube.Bytes(d.Victim.Usage), kube.Bytes(d.Victim.Budget), d.Device.ID, kube.Bytes(d.Headroom), w.cfg.Floor)
	switch d.Reason {
	case decide.Evicted:
		name, message = eventEvicted, "The pod is evicted: it "+numbers
	case decide.WouldEvict:
		name, message = eventDryRun, "The pod would be evicted, were this not a dry run: it "+numbers
	case decide.Refused, decide.Forbidden, decide.ActionFailed:
		if w.reasons[d.Device] == d.Reason {
			return
		}
		name, message = eventRefused, fmt.Sprintf("The pod is to be evicted: it %s. That failed: %v", numbers, cause)
	default:
		return
	}
	if err := w.cluster.Event(ctx, d.Victim, d.Device.Node, name, message, now); err != nil {
		w.telemetry.ExporterGpuWatchdogEventsFailed.Add(ctx, 1)
		w.logger.Warn("The Kubernetes Event could not be written.", zap.Error(err))
	}
}

func (w *watchdog) count(ctx context.Context, reason decide.Reason) {
	w.telemetry.GpuWatchdogEvaluations.Add(ctx, 1,
		metric.WithAttributeSet(attribute.NewSet(attribute.String("reason", string(reason)))))
}

// worthARecord holds for each decision below the floor, and for others when the
// reason changed.
func (w *watchdog) worthARecord(d *decide.Decision) bool {
	before, known := w.reasons[d.Device]
	if !known {
		before = decide.AboveFloor // which is what nobody needs to be told
	}
	return d.Breaches > 0 || d.Action != nil || before != d.Reason
}

// log writes the record of a decision with its numbers, in bytes.
func (w *watchdog) log(d *decide.Decision, attribution string, err error) {
	fields := []zap.Field{
		zap.String("reason", string(d.Reason)), zap.Bool("dry_run", w.cfg.DryRun),
		zap.String("node", d.Device.Node), zap.String("device", d.Device.ID),
		zap.Int64("headroom", d.Headroom), zap.Int64("floor", int64(w.cfg.Floor)), zap.Int64("used", d.Usage), zap.Int64("limit", d.Limit),
		zap.Int("breaches", d.Breaches), zap.Int64("unbudgeted", d.Unbudgeted),
	}
	if attribution != "" {
		fields = append(fields, zap.String("attribution", attribution))
	}
	if v := d.Victim; v != nil {
		fields = append(fields, zap.String("namespace", v.Namespace), zap.String("pod", v.Pod), zap.String("pod_uid", v.UID),
			zap.Int64("pod_used", v.Usage), zap.Int64("pod_budget", v.Budget), zap.Int64("pod_overshoot", v.Overshoot))
	}
	if err != nil {
		fields = append(fields, zap.Error(err))
	}
	level := zap.InfoLevel
	if d.Action != nil || !d.Reason.Complete() {
		level = zap.WarnLevel
	}
	w.logger.Log(level, "GPU memory was judged.", fields...)
}

// forget drops what is remembered of devices that are gone.
func (w *watchdog) forget(all []observed) {
	present := map[decide.Device]bool{}
	for i := range all {
		present[all[i].device] = true
	}
	gone := func(device decide.Device) bool { return !present[device] }
	maps.DeleteFunc(w.reasons, func(device decide.Device, _ decide.Reason) bool { return gone(device) })
	// A device may not have come back yet after a restart.
	longest := w.cfg.Interval + w.cfg.MaxDataAge
	maps.DeleteFunc(w.memory.breaches, func(device decide.Device, b decide.Breach) bool {
		return gone(device) && w.lastTick.Sub(b.LastAt) > longest
	})
}

// restore takes up what is stored.
func (w *watchdog) restore(ctx context.Context, host component.Host) error {
	var err error
	w.state, err = base.OpenState(ctx, host, w.cfg.Storage, component.KindExporter, w.settings.ID, base.StateOptions{
		Version:  memoryVersion,
		Key:      stateKey,
		Unusable: "The stored state cannot be used. Breaches and cool-downs start anew.",
		Failure:  base.Failure{Logger: w.logger}, // the status says what cannot be stored
		Count: func(ctx context.Context, operation string) {
			w.telemetry.ExporterGpuWatchdogStorageErrors.Add(ctx, 1,
				metric.WithAttributeSet(attribute.NewSet(attribute.String("operation", operation))))
		},
	})
	base.Restore(ctx, w.state, func(_ string, stored *storedMemory) error {
		w.memory = stored.memory()
		w.stored = w.memory.encode()
		if !w.memory.lastSuccess.IsZero() {
			w.lastSuccess.Store(w.memory.lastSuccess.UnixMilli())
		}
		return nil
	})
	return err
}

// save stores what is remembered if it changed. Without a storage it does nothing.
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

func (w *watchdog) leaseResult(err error) { w.report(ofLease, err) }

// report tells the host and the log what is wrong, once each time that it changes.
func (w *watchdog) report(part string, err error) {
	switch news, well := w.status.Report(part, err); {
	case !news:
	case well:
		w.logger.Info("The GPU watchdog is able to act again.")
	case err != nil: // what else is wrong was said before
		w.logger.Warn("The GPU watchdog is not able to act.", zap.Error(err))
	}
}

// shutdown ends the evaluation under way, stores what is remembered and gives the
// lease back, so that another replica takes over at once. When ctx ends before, it
// returns the error of ctx.
func (w *watchdog) shutdown(ctx context.Context) error {
	defer w.telemetry.Shutdown()
	if w.cache == nil {
		return nil
	}
	var err error
	w.stop.Do(func() {
		go func() {
			defer close(w.ended)
			w.stopEvaluating()
			w.evaluating.Wait()
			w.stopTerm()
			w.electing.Wait()
			w.cache.Release()
			err = errors.Join(w.save(context.WithoutCancel(ctx)), w.state.Close(context.WithoutCancel(ctx)))
		}()
	})
	select {
	case <-w.ended:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
