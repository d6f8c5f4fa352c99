package gpubudgetprocessor

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"

	base "github.com/otelcol-gpu/otelcol-gpu/internal/component"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/internal/misplaced"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpubudgetprocessor/internal/budget"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpubudgetprocessor/internal/metadata"
)

// gpuBudget is the pdata shell around the budget, presets and drift packages.
type gpuBudget struct {
	cfg       *Config
	id        component.ID
	set       component.TelemetrySettings
	telemetry *metadata.TelemetryBuilder
	reasons   [numDropReasons]metric.AddOption
	states    [budget.NumReasons]metric.AddOption
	foreign   map[string]ranked
	tolerance budget.Tolerance
	acquire   func() (*kube.Cache, error)

	mu        sync.Mutex
	book      *budget.Book
	pods      *pods
	write     writer
	frames    map[frameKey]*frame // of this batch
	lastFrame *frame
	dropped   [numDropReasons]int64
	found     [budget.NumReasons]int64
	swept     time.Time
	limit     base.Limit
	unread    base.Trouble // pods with annotations that cannot be read
	order     *misplaced.Check

	drift driftReport

	state *base.State // nil without a storage
	saved time.Time
}

func newProcessor(cfg *Config, set processor.Settings) (*gpuBudget, error) {
	tb, err := metadata.NewTelemetryBuilder(set.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	p := &gpuBudget{
		cfg: cfg, id: set.ID, set: set.TelemetrySettings, telemetry: tb,
		foreign:   cfg.foreign(),
		tolerance: budget.Tolerance{Process: cfg.Tolerance.Process, Ratio: cfg.Tolerance.Ratio},
		book:      budget.NewBook(cfg.MaxAge, cfg.MaxSeries),
		write:     writer{disabled: map[*signal.Metric]bool{}, version: set.BuildInfo.Version},
		drift:     newDriftReport(cfg),
		limit:     base.Limit{Component: set.ID.String(), Setting: "max_series", Value: cfg.MaxSeries, What: "containers, processes or rows of other exporters"},
		order:     misplaced.New("gpu_budget", misplaced.BeforeWindows, set.Logger),
	}
	p.acquire = func() (*kube.Cache, error) {
		return kube.Acquire(kube.Options{Config: cfg.Kubernetes, NodeName: cfg.NodeName}, p.set)
	}
	p.pods = newPods(cfg, p.unreadable)
	for _, m := range cfg.Metrics.Disabled(emitted) {
		p.write.disabled[m] = true
	}
	for r := range p.reasons {
		p.reasons[r] = with("reason", dropReason(r).String())
	}
	for r := range p.states {
		p.states[r] = with("reason", budget.Reason(r).String())
	}
	return p, nil
}

// unreadable counts a pod whose annotations cannot be read, and says the first one in the log.
func (p *gpuBudget) unreadable(pod *corev1.Pod, err error) {
	p.telemetry.ProcessorGpuBudgetDeclarationsUnreadable.Add(context.Background(), 1)
	if p.unread.Returns(time.Now()) {
		p.set.Logger.Warn("The annotations of a pod cannot be read: what they say of GPU memory is left out. Further pods are counted only.",
			zap.String(signal.K8sNamespaceName, pod.Namespace), zap.String(signal.K8sPodName, pod.Name), zap.Error(err))
	}
}

func with(key, value string) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attribute.String(key, value)))
}

// start fails when a kubeconfig or the storage cannot be used. That the API
// server does not answer is no failure: it may do so later.
func (p *gpuBudget) start(ctx context.Context, host component.Host) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.open(ctx, host); err != nil {
		return err
	}
	if p.cfg.Kubernetes.AuthType == kube.AuthNone {
		return nil
	}
	cache, err := p.acquire()
	if err != nil {
		return err
	}
	p.pods.start(cache) //nolint:contextcheck // the informers outlive the start
	return p.telemetry.RegisterProcessorGpuBudgetSourceStateCallback(func(_ context.Context, o metric.Int64Observer) error {
		for _, k := range p.pods.kinds {
			state := cache.State(k)
			for _, phase := range kube.Phases() {
				v := int64(0)
				if phase == state.Phase {
					v = 1
				}
				o.Observe(v, metric.WithAttributeSet(attribute.NewSet(
					attribute.String("source", k.String()), attribute.String("state", phase.String()))))
			}
		}
		return nil
	})
}

func (p *gpuBudget) shutdown(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit.Forget()
	p.telemetry.Shutdown() // before what its callbacks read
	p.pods.stop()
	p.save(ctx)
	return p.state.Close(ctx)
}

// sweepEvery is the least time between two looks for what is to be forgotten,
// and between two writes to the storage.
const sweepEvery = time.Minute

// processMetrics adds budgets, usage and states to the batch. What is in it
// stays as it is.
func (p *gpuBudget) processMetrics(ctx context.Context, md pmetric.Metrics) (pmetric.Metrics, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.order.Batch(md, now)
	p.pods.refresh()
	frames := p.read(md, now)
	p.write.begin(md)
	for _, f := range frames {
		p.frame(f, now)
	}
	if since := now.Sub(p.swept); since >= sweepEvery || since < 0 {
		p.swept = now
		p.book.Sweep(now)
		p.drift.sweep(now, p.state)
	}
	if since := now.Sub(p.saved); since >= sweepEvery || since < 0 {
		p.saved = now
		p.save(ctx)
	}
	p.limit.Refused(p.set.Logger, now, p.drift.refused+p.dropped[dropNoRoom])
	p.report(ctx)
	return md, nil
}

// frame evaluates the devices of a place at one moment.
func (p *gpuBudget) frame(f *frame, now time.Time) {
	cut := map[string]bool{} // boards that are cut into instances
	for _, d := range f.devices {
		if d.Board != "" {
			cut[d.Board] = true
		}
	}
	place := &budget.Place{Name: f.place, Cluster: f.cluster, Time: f.time}
	var devices []*device
	users := map[*budget.User]*user{}
	for _, id := range slices.Sorted(maps.Keys(f.devices)) {
		d := f.devices[id]
		if cut[id] {
			continue
		}
		p.prepare(d, users)
		devices = append(devices, d)
		place.Devices = append(place.Devices, &d.Device)
	}
	p.drift.refused += int64(p.book.Fill(place, now))
	for _, d := range devices {
		for _, u := range d.Users {
			p.declare(u, users[u])
		}
	}
	place.Declare(budget.MPSBudget{Limit: p.cfg.Sources.MPS.Limit, Replicas: p.cfg.Sources.MPS.Replicas})
	for _, d := range devices {
		d.Reconcile(p.tolerance)
		p.found[d.Reason]++
		p.emit(f, d, users, now)
	}
}

// prepare fills the pure device from what was read.
func (p *gpuBudget) prepare(d *device, users map[*budget.User]*user) {
	if d.Used > 0 && d.utilization > 0 && d.utilization <= 1 {
		// The sample's used / (used + free): FB_FREE without what the driver reserves.
		d.Free = int64(math.Round(float64(d.Used)/d.utilization)) - d.Used
	}
	for _, u := range d.users {
		d.Users = append(d.Users, &u.User)
		users[&u.User] = u
		if u.Origin == budget.Reported && !d.Possible(u.Used) {
			u.Used, u.Origin = 0, budget.None
			d.Impossible = true
		}
	}
	slices.SortFunc(d.Users, func(a, b *budget.User) int { return a.Compare(&b.Container) })
	if len(d.Users) > 1 {
		for _, u := range d.Users {
			u.Exclusive = false
		}
	}
}

// declare fills in what a user may use; of is nil for one that only the book
// knows.
func (p *gpuBudget) declare(u *budget.User, of *user) {
	p.pods.declare(u)
	if of != nil && of.allocation.claim != "" {
		u.Claims = p.pods.consumed(&u.Container, of.allocation)
	}
}

// emit writes what was found of a device.
func (p *gpuBudget) emit(f *frame, d *device, users map[*budget.User]*user, now time.Time) {
	for _, u := range d.Users {
		to := p.write.target(d, u, users[u])
		if u.Budget > 0 {
			p.write.bytes(to, signal.K8sContainerGPUMemoryBudget, f.time, u.Budget, u.Source)
		}
		state := d.Reason.State()
		known := u.Origin != budget.None && (u.Origin != budget.Unlisted || state == budget.Valid)
		if state == budget.Invalid || !known {
			continue
		}
		if u.Origin != budget.Reported {
			p.write.bytes(to, signal.K8sContainerGPUMemoryUsage, f.time, u.Used, budget.NoSource)
		}
		if u.Budget > 0 {
			p.write.ratio(to, signal.K8sContainerGPUMemoryBudgetUtilization, f.time, float64(u.Used)/float64(u.Budget), u.Source)
			if mostly, ok := p.drift.add(f.frameKey, d.ID, u, now); ok {
				p.write.ratio(to, signal.K8sContainerGPUMemoryBudgetDriftRatio, f.time, mostly/float64(u.Budget), u.Source)
			}
		}
	}
	if !d.seen {
		return
	}
	to := target{d.resource, d.attrs, false}
	for _, m := range []struct {
		metric *signal.Metric
		bytes  int64
	}{
		{signal.GPUMemoryBudgetDeclared, d.Declared},
		{signal.GPUMemoryHeadroom, d.Headroom},
		{signal.GPUMemoryUsageUnbudgeted, d.Unbudgeted},
	} {
		if m.bytes != budget.Unknown {
			p.write.bytes(to, m.metric, f.time, m.bytes, budget.NoSource)
		}
	}
	p.write.state(to, f.time, d.Reason)
}

// report counts what became of the batch.
func (p *gpuBudget) report(ctx context.Context) {
	for r, n := range p.dropped {
		if n > 0 {
			p.telemetry.ProcessorGpuBudgetPointsDropped.Add(ctx, n, p.reasons[r])
		}
	}
	for r, n := range p.found {
		if n > 0 {
			p.telemetry.ProcessorGpuBudgetDevices.Add(ctx, n, p.states[r])
		}
	}
	if p.drift.refused > 0 {
		p.telemetry.ProcessorGpuBudgetSeriesRefused.Add(ctx, p.drift.refused)
	}
	p.telemetry.ProcessorGpuBudgetSeries.Record(ctx, int64(p.drift.series))
	p.dropped, p.found, p.drift.refused = [numDropReasons]int64{}, [budget.NumReasons]int64{}, 0
}
