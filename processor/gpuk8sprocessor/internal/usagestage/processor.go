package usagestage

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/processor"
	"go.uber.org/zap"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/internal/stage"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/declared"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/price"
)

// skipReason is the reason why the time of a board in a frame is not counted.
type skipReason int

const (
	late skipReason = iota
	early
	future
	clockSetBack
	countedBefore
	numSkips
)

// String returns the reason as an attribute value of the self-metric.
func (s skipReason) String() string {
	return [...]string{"late", "early", "future", "clock_set_back", "counted_before"}[s]
}

// gpuUsage applies the usage and price packages to the frames in each batch.
type gpuUsage struct {
	cfg       *Config
	set       component.TelemetrySettings
	id        component.ID
	telemetry *metadata.TelemetryBuilder
	scope     gpudata.Scope
	disabled  map[*signal.Metric]bool

	nodes  *stage.Nodes[nodeState]
	series *componenthelper.Series // boards and accounts

	countedBeforeTrouble componenthelper.Trouble
	futureTrouble        componenthelper.Trouble
	clockTrouble         componenthelper.Trouble

	pods       *declared.Reader
	reading    sync.Mutex  // The reading mutex is locked while the price list is read.
	prices     *price.File // prices is nil if no price list is configured.
	priced     time.Time   // The priced field is when the price list was last read.
	priceError componenthelper.Failure

	state *componenthelper.State // state is nil if no storage is configured.
}

// New returns the section.
func New(cfg *Config, set processor.Settings, pods *declared.Reader) (pdatagpu.Section, error) {
	p, err := newProcessor(cfg, set, pods)
	if err != nil {
		return pdatagpu.Section{}, err
	}
	return p.section(), nil
}

func (p *gpuUsage) section() pdatagpu.Section {
	return pdatagpu.Section{Start: p.start, Shutdown: p.shutdown, Wants: wants, Process: p.process}
}

// wants reports whether the section uses the metric m.
func wants(m *signal.Metric) bool { return usageMetrics[m] }

func newProcessor(cfg *Config, set processor.Settings, pods *declared.Reader) (*gpuUsage, error) {
	tb, err := metadata.NewTelemetryBuilder(set.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	p := &gpuUsage{
		cfg: cfg, set: set.TelemetrySettings, id: set.ID, telemetry: tb, pods: pods,
		scope:    gpudata.NewScope(metadata.ScopeName, set.BuildInfo.Version),
		disabled: cfg.Metrics.Disabled(Emitted),
		nodes:    stage.NewNodes(cfg.MaxSeries, newNode),
		series:   componenthelper.NewSeries(set.ID.String(), "usage::max_series", cfg.MaxSeries, "boards or containers on devices"),
		priceError: componenthelper.Failure{
			Logger: set.Logger, Fails: "The price list cannot be used. The last valid list is used instead.", Works: "The price list can be used again.",
		},
	}
	if cfg.Prices.File != "" {
		p.prices = &price.File{Path: cfg.Prices.File}
	}
	return p, nil
}

// process adds the usage of boards and containers to the batch. The process method does not change
// existing samples.
func (p *gpuUsage) process(ctx context.Context, batch *stage.Batch) {
	now := time.Now()
	of := &usageBatch{gpuUsage: p}
	for _, f := range batch.Frames {
		of.countFrame(f, now)
	}
	batch.Settle(p.scope, p.disabled)
	p.readPrices(ctx, now) // Read the prices last, so that a new price applies only from the next interval.
	p.sweep(now)
	of.report(ctx, batch.Counts(wants), now)
}

// usageBatch contains the state that is needed to process one batch, including the batch's counts
// and the state of the current frame's node. The node is locked while nodeState is set.
type usageBatch struct {
	*gpuUsage
	*nodeState
	skipped [numSkips]int64
}

// priceInterval is the minimum time between two checks of the price list for changes.
const priceInterval = 10 * time.Second

// readPrices reads the price list if at least priceInterval has passed since the last check.
func (p *gpuUsage) readPrices(ctx context.Context, now time.Time) {
	if p.prices == nil || !p.reading.TryLock() {
		return
	}
	defer p.reading.Unlock()
	if now.Sub(p.priced) < priceInterval && now.After(p.priced) {
		return
	}
	p.priced = now
	err := p.prices.Read()
	if err != nil {
		p.telemetry.ProcessorGpuUsagePriceErrors.Add(ctx, 1)
	}
	p.priceError.Result(err)
}

// report adds the counts of the batch to the self-metrics.
func (p *usageBatch) report(ctx context.Context, counts stage.ReadCounts, now time.Time) {
	componenthelper.CountBy[stage.Drop](ctx, p.telemetry.ProcessorGpuUsagePointsDropped, "reason", counts.Dropped[:])
	componenthelper.CountBy[skipReason](ctx, p.telemetry.ProcessorGpuUsageBoardsSkipped, "reason", p.skipped[:])
	if p.skipped[countedBefore] > 0 && p.countedBeforeTrouble.ShouldLog(now) {
		p.set.Logger.Error("The section usage of another gpu_k8s has already counted these GPUs. Their time is not counted again. " +
			"Remove one of the two sections from this pipeline, or from one of the collectors that the samples pass through.")
	}
	if p.skipped[future] > 0 && p.futureTrouble.ShouldLog(now) {
		p.set.Logger.Warn("Samples are more than a minute ahead of this collector's clock. They are dropped. Check the clocks of the nodes and of this collector.")
	}
	if p.skipped[clockSetBack] > 0 && p.clockTrouble.ShouldLog(now) {
		p.set.Logger.Warn("For longer than max_gap, all samples of some boards were older than the newest sample: a clock was set back. "+
			"The counters of these boards start again from zero.", zap.Duration("max_gap", p.cfg.MaxGap))
	}
	if counts.Clamped > 0 {
		p.telemetry.ProcessorGpuUsagePointsClamped.Add(ctx, counts.Clamped)
	}
	p.series.Report(ctx, p.set.Logger, now, p.telemetry.ProcessorGpuUsageSeries, p.telemetry.ProcessorGpuUsageSeriesRefused)
}
