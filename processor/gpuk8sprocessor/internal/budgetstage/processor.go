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

// noRoom is why a process or a value of a container is not kept, in addition to the reasons why a point
// is no observation.
const (
	noRoom = pdatagpu.Drops + iota
	numDrops
)

// drop is why something is not kept.
type drop pdatagpu.Drop

// String returns the reason as the self-metric spells it.
func (d drop) String() string {
	if of := pdatagpu.Drop(d); of < pdatagpu.Drops {
		return of.String()
	}
	return "no_room"
}

// gpuBudget is the pdata shell around the budget package.
type gpuBudget struct {
	cfg       *Config
	set       component.TelemetrySettings
	telemetry *metadata.TelemetryBuilder
	acquire   func() (*kube.Cache, error)
	scope     gpudata.Scope
	disabled  map[*signal.Metric]bool

	mu      sync.Mutex
	writer  pdatagpu.Writer
	book    *budget.Book
	pods    *pods
	dropped [numDrops]int64          // of this batch
	found   [budget.NumReasons]int64 // likewise
	clamped int64                    // likewise
	swept   time.Time
	more    []*gpudata.Frame // of this batch: values whose time differs from that of its frames
	limit   base.Limit
	unread  base.Trouble // pods with annotations that cannot be read
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

// unreadable counts a pod whose annotations cannot be read, and says the first one in the log.
func (p *gpuBudget) unreadable(pod *corev1.Pod, err error) {
	p.telemetry.ProcessorGpuBudgetDeclarationsUnreadable.Add(context.Background(), 1)
	if p.unread.Returns(time.Now()) {
		p.set.Logger.Warn("The annotations of a pod cannot be read: the GPU memory that they declare is ignored. Further pods are only counted.",
			zap.String(signal.K8sNamespaceName, pod.Namespace), zap.String(signal.K8sPodName, pod.Name), zap.Error(err))
	}
}

// start fails when a kubeconfig cannot be used. That the API
// server does not answer is no failure: it may do so later.
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
	p.telemetry.Shutdown() // before what its callbacks read
	p.pods.stop()
	return nil
}

// sweepEvery is the shortest time between two searches for state that can be forgotten.
const sweepEvery = time.Minute

// process adds budgets, usage and states to the batch, and changes nothing in it.
func (p *gpuBudget) process(ctx context.Context, a *pdatagpu.Arrival) ([]*gpudata.Frame, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.pods.refresh()
	batch := a.Read(func(m *signal.Metric) bool {
		return used[m] || m == signal.K8sContainerGPUMemoryBudget
	})
	copy(p.dropped[:], batch.Dropped[:])
	p.clamped = batch.Clamped
	for _, f := range batch.Frames {
		p.lists(f, now)
	}
	for _, f := range batch.Frames {
		p.frame(f, now)
	}
	batch.Add(p.scope, p.disabled)
	frames := p.addMore(a)
	if since := now.Sub(p.swept); since >= sweepEvery || since < 0 {
		p.swept = now
		p.book.Sweep(now)
	}
	p.limit.Refused(p.set.Logger, now, p.dropped[noRoom])
	p.report(ctx)
	return frames, nil
}

// addMore adds the values of other times to the batch, as frames or metrics like the input.
func (p *gpuBudget) addMore(a *pdatagpu.Arrival) []*gpudata.Frame {
	more := p.more
	p.more = nil
	for _, f := range more {
		f.Settle(p.scope, p.disabled)
		f.Sort()
	}
	if a.Frames == nil {
		p.writer.Write(more, a.Metrics)
		return nil
	}
	frames := append(slices.Clone(a.Frames), more...)
	slices.SortStableFunc(frames, (*gpudata.Frame).Compare)
	return frames
}

// report counts what became of the batch.
func (p *gpuBudget) report(ctx context.Context) {
	base.CountBy[drop](ctx, p.telemetry.ProcessorGpuBudgetPointsDropped, "reason", p.dropped[:])
	base.CountBy[budget.Reason](ctx, p.telemetry.ProcessorGpuBudgetDevices, "reason", p.found[:])
	if p.clamped > 0 {
		p.telemetry.ProcessorGpuBudgetPointsClamped.Add(ctx, p.clamped)
	}
	p.dropped, p.found, p.clamped = [numDrops]int64{}, [budget.NumReasons]int64{}, 0
}
