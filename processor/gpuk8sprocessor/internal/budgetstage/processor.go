package budgetstage

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"

	base "github.com/otelcol-gpu/otelcol-gpu/internal/component"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/budget"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/metadata"
)

// dropMaxSeries is the reason for dropping a process or a container's value because max_series is
// reached. It is in addition to the reasons for dropping points.
const (
	dropMaxSeries = pdatagpu.Drops + iota
	numDropReasons
)

// dropReason is the reason for dropping a point, process, or value.
type dropReason pdatagpu.Drop

// String returns the reason as the self-metric spells it.
func (d dropReason) String() string {
	if of := pdatagpu.Drop(d); of < pdatagpu.Drops {
		return of.String()
	}
	return "no_room"
}

// gpuBudget evaluates the frames of batches with the package budget.
type gpuBudget struct {
	cfg       *Config
	set       component.TelemetrySettings
	telemetry *metadata.TelemetryBuilder
	acquire   func() (*kube.Cache, error)
	scope     gpudata.Scope
	disabled  map[*signal.Metric]bool

	mu             sync.Mutex
	writer         pdatagpu.Writer
	book           *budget.Book
	pods           *podDeclarations
	dropped        [numDropReasons]int64    // of this batch
	evaluated      [budget.NumReasons]int64 // of this batch
	clamped        int64                    // of this batch
	lastSweep      time.Time
	otherFrames    []*gpudata.Frame // of this batch: values whose time differs from that of its frames
	limit          base.Limit
	unreadablePods base.Trouble // pods with annotations that cannot be read
}

// New returns the functions of the section.
func New(cfg *Config, set processor.Settings) (pdatagpu.Functions, error) {
	p, err := newProcessor(cfg, set)
	if err != nil {
		return pdatagpu.Functions{}, err
	}
	return pdatagpu.Functions{Start: p.start, Shutdown: p.shutdown, Process: p.process}, nil
}

func newProcessor(cfg *Config, set processor.Settings) (*gpuBudget, error) {
	tb, err := metadata.NewTelemetryBuilder(set.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	p := &gpuBudget{
		cfg: cfg, set: set.TelemetrySettings, telemetry: tb,
		book:     budget.NewBook(cfg.MaxAge, cfg.MaxSeries),
		writer:   pdatagpu.Writer{Scope: gpudata.NewScope(metadata.ScopeName, set.BuildInfo.Version)},
		scope:    gpudata.NewScope(metadata.ScopeName, set.BuildInfo.Version),
		disabled: cfg.Metrics.Disabled(Emitted),
		limit:    base.Limit{Component: set.ID.String(), Setting: "budget::max_series", Value: cfg.MaxSeries, What: "processes or values of containers"},
	}
	p.acquire = func() (*kube.Cache, error) {
		return kube.Acquire(kube.Options{Config: cfg.Kubernetes, NodeName: cfg.NodeName}, p.set)
	}
	p.pods = newPods(cfg, p.unreadable)
	return p, nil
}

// unreadable counts a pod whose annotations cannot be read, and logs the first one.
func (p *gpuBudget) unreadable(pod *corev1.Pod, err error) {
	p.telemetry.ProcessorGpuBudgetDeclarationsUnreadable.Add(context.Background(), 1)
	if p.unreadablePods.Returns(time.Now()) {
		p.set.Logger.Warn("The annotations of a pod cannot be read: the GPU memory that they declare is ignored. Further pods are only counted.",
			zap.String(signal.K8sNamespaceName, pod.Namespace), zap.String(signal.K8sPodName, pod.Name), zap.Error(err))
	}
}

// start fails if the kubeconfig is invalid. It does not fail if the API server does not respond, which
// may be temporary.
func (p *gpuBudget) start(context.Context, component.Host) error {
	p.mu.Lock()
	defer p.mu.Unlock()
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
			cache.State(k).Observe(o, attribute.String("source", k.String()))
		}
		return nil
	})
}

func (p *gpuBudget) shutdown(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit.Forget()
	p.telemetry.Shutdown() // before the cache that its callbacks read
	p.pods.stop()
	return nil
}

// sweepEvery is the shortest time between two searches for expired state.
const sweepEvery = time.Minute

// process adds budgets, usage, and states to the batch. It does not change existing points.
func (p *gpuBudget) process(ctx context.Context, a *pdatagpu.Arrival) ([]*gpudata.Frame, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.pods.refresh()
	batch := a.Read(func(m *signal.Metric) bool {
		return memoryMetrics[m] || m == signal.K8sContainerGPUMemoryBudget
	})
	copy(p.dropped[:], batch.Dropped[:])
	p.clamped = batch.Clamped
	for _, f := range batch.Frames {
		p.storeProcessLists(f, now)
	}
	for _, f := range batch.Frames {
		p.evaluateFrame(f, now)
	}
	batch.Add(p.scope, p.disabled)
	frames := p.addOtherFrames(a)
	if since := now.Sub(p.lastSweep); since >= sweepEvery || since < 0 {
		p.lastSweep = now
		p.book.Sweep(now)
	}
	p.limit.Refused(p.set.Logger, now, p.dropped[dropMaxSeries])
	p.countResults(ctx)
	return frames, nil
}

// addOtherFrames adds the values of other times to the batch, as frames if the input has frames,
// else as metrics.
func (p *gpuBudget) addOtherFrames(a *pdatagpu.Arrival) []*gpudata.Frame {
	others := p.otherFrames
	p.otherFrames = nil
	for _, f := range others {
		f.Settle(p.scope, p.disabled)
		f.Sort()
	}
	if a.Frames == nil {
		p.writer.Write(others, a.Metrics)
		return nil
	}
	frames := append(slices.Clone(a.Frames), others...)
	slices.SortStableFunc(frames, (*gpudata.Frame).Compare)
	return frames
}

// countResults records the results of the batch in the self-metrics.
func (p *gpuBudget) countResults(ctx context.Context) {
	base.CountBy[dropReason](ctx, p.telemetry.ProcessorGpuBudgetPointsDropped, "reason", p.dropped[:])
	base.CountBy[budget.Reason](ctx, p.telemetry.ProcessorGpuBudgetDevices, "reason", p.evaluated[:])
	if p.clamped > 0 {
		p.telemetry.ProcessorGpuBudgetPointsClamped.Add(ctx, p.clamped)
	}
	p.dropped, p.evaluated, p.clamped = [numDropReasons]int64{}, [budget.NumReasons]int64{}, 0
}
