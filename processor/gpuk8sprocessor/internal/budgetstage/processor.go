package budgetstage

import (
	"context"
	"math"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/internal/stage"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/budget"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/declared"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/metadata"
)

// dropMaxSeries is the reason for dropping a container's value if the max_series limit is reached.
const (
	dropMaxSeries = stage.Drops + iota
	numDropReasons
)

// dropReason is the reason why a point, a process, or a value is dropped.
type dropReason stage.Drop

// String returns the reason as an attribute value of the self-metric.
func (d dropReason) String() string {
	if of := stage.Drop(d); of < stage.Drops {
		return of.String()
	}
	return "no_room"
}

// gpuBudget evaluates the frames in each batch with the budget package.
type gpuBudget struct {
	cfg       *Config
	set       component.TelemetrySettings
	telemetry *metadata.TelemetryBuilder
	scope     gpudata.Scope
	disabled  map[*signal.Metric]bool

	books *stage.Nodes[budget.Book]
	pods  *declared.Reader
	phase func() kube.Phase // of pods
	limit componenthelper.Limit
}

// New returns the section.
func New(cfg *Config, set processor.Settings, pods *declared.Reader) (pdatagpu.Section, error) {
	p, err := newProcessor(cfg, set, pods)
	if err != nil {
		return pdatagpu.Section{}, err
	}
	return p.section(), nil
}

func (p *gpuBudget) section() pdatagpu.Section {
	return pdatagpu.Section{Start: p.start, Shutdown: p.shutdown, Wants: wants, Process: p.process}
}

// wants reports whether the section uses the metric m.
func wants(m *signal.Metric) bool { return memoryMetrics[m] || m == signal.K8sContainerGPUMemoryBudget }

func newProcessor(cfg *Config, set processor.Settings, pods *declared.Reader) (*gpuBudget, error) {
	tb, err := metadata.NewTelemetryBuilder(set.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	limits := budget.NewLimits(cfg.MaxSeries)
	return &gpuBudget{
		cfg: cfg, set: set.TelemetrySettings, telemetry: tb, pods: pods,
		phase:    func() kube.Phase { return pods.State(kube.Pods).Phase },
		books:    stage.NewNodes(math.MaxInt, func(string) *budget.Book { return budget.NewBook(cfg.MaxAge, limits) }),
		scope:    gpudata.NewScope(metadata.ScopeName, set.BuildInfo.Version),
		disabled: cfg.Metrics.Disabled(Emitted),
		limit:    componenthelper.Limit{Component: set.ID.String(), Setting: "budget::max_series", Value: cfg.MaxSeries, What: "values of containers"},
	}, nil
}

func (p *gpuBudget) start(context.Context, component.Host) error {
	if p.cfg.Kubernetes.AuthType == kube.AuthNone {
		return nil
	}
	return p.telemetry.RegisterProcessorGpuBudgetSourceStateCallback(func(_ context.Context, o metric.Int64Observer) error {
		for _, k := range p.pods.Kinds() {
			p.pods.State(k).Observe(o, attribute.String("source", k.String()))
		}
		return nil
	})
}

func (p *gpuBudget) shutdown(context.Context) error {
	p.limit.Forget()
	p.telemetry.Shutdown()
	return nil
}

// sweepEvery is the minimum time between two deletions of expired state.
const sweepEvery = time.Minute

// process adds budgets, usage, and states to the batch. The process method does not change existing
// points.
func (p *gpuBudget) process(ctx context.Context, batch *stage.Batch) {
	now := time.Now()
	counts := batch.Counts(wants)
	of := &budgetBatch{gpuBudget: p, clamped: counts.Clamped}
	copy(of.dropped[:], counts.Dropped[:])
	for _, f := range batch.Frames {
		of.withBook(f, now, of.storeFrame)
	}
	for _, f := range batch.Frames {
		of.withBook(f, now, of.evaluateFrame)
	}
	for _, f := range of.otherFrames {
		batch.Append(f)
	}
	batch.Settle(p.scope, p.disabled)
	p.books.Sweep(now, sweepEvery, func(_ string, b *budget.Book, _ time.Time) (gone bool) {
		b.Sweep(now)
		return b.IsEmpty()
	})
	p.limit.Refused(p.set.Logger, now, of.dropped[dropMaxSeries])
	of.countResults(ctx)
}

// budgetBatch contains the state that is needed to process one batch, including the batch's counts
// and the Book of the current frame's node. The node is locked while the Book is in use.
type budgetBatch struct {
	*gpuBudget
	book        *budget.Book
	dropped     [numDropReasons]int64
	evaluated   [budget.NumReasons]int64
	clamped     int64
	otherFrames []*gpudata.Frame // otherFrames contains frames for values that do not belong to the time of a frame in the batch.
}

func (p *budgetBatch) withBook(f *gpudata.Frame, now time.Time, do func(*gpudata.Frame, time.Time)) {
	p.books.With(f.Place, now, func(b *budget.Book) {
		p.book = b
		do(f, now)
	})
}

// countResults adds the counts of the batch to the self-metrics.
func (p *budgetBatch) countResults(ctx context.Context) {
	componenthelper.CountBy[dropReason](ctx, p.telemetry.ProcessorGpuBudgetPointsDropped, "reason", p.dropped[:])
	componenthelper.CountBy[budget.Reason](ctx, p.telemetry.ProcessorGpuBudgetDevices, "reason", p.evaluated[:])
	if p.clamped > 0 {
		p.telemetry.ProcessorGpuBudgetPointsClamped.Add(ctx, p.clamped)
	}
}
