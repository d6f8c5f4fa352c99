package gpuk8sprocessor

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processorhelper"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/misplaced"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/attribution"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/metadata"
)

// gpuK8s is the pdata shell around the attribution package.
type gpuK8s struct {
	cfg       *Config
	version   string
	telemetry *metadata.TelemetryBuilder
	tracker   *attribution.Tracker
	processes *attribution.ProcessLog[nodeKey]
	sources   *sources
	series    map[string]bool
	// accelerators are cAdvisor's metrics by what they are made of.
	accelerators map[string]*signal.Metric
	dropped      [numDropReasons]metric.AddOption
	order        *misplaced.Check

	shutdownOnce sync.Once
}

func newProcessor(cfg *Config, set processor.Settings) (*gpuK8s, error) {
	tb, err := metadata.NewTelemetryBuilder(set.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	p := &gpuK8s{
		cfg:       cfg,
		version:   set.BuildInfo.Version,
		telemetry: tb,
		tracker: attribution.New(attribution.Options{
			History: history,
			Grace:   cfg.grace(),
			Drivers: cfg.Sources.DRA.Drivers,
		}),
		processes:    attribution.NewProcessLog[nodeKey](history),
		series:       repeated(cfg),
		accelerators: accelerators(cfg),
		order:        misplaced.New("gpu_k8s", misplaced.BeforeWindows, set.Logger),
	}
	for r := range p.dropped {
		p.dropped[r] = metric.WithAttributeSet(attribute.NewSet(attribute.String("reason", dropReason(r).String())))
	}
	p.sources = newSources(cfg, set.TelemetrySettings, p.tracker)
	return p, nil
}

func (p *gpuK8s) start(ctx context.Context, host component.Host) error {
	if err := p.sources.start(ctx, host); err != nil {
		return err
	}
	t := p.telemetry
	return errors.Join(
		t.RegisterProcessorGpuK8sSourceStateCallback(p.sources.observeStates),
		t.RegisterProcessorGpuK8sSourceAgeCallback(p.sources.observeAges),
		t.RegisterProcessorGpuK8sConflictsCallback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(int64(p.tracker.Stats().Conflicts))
			return nil
		}),
		t.RegisterProcessorGpuK8sUnattributedCallback(func(_ context.Context, o metric.Int64Observer) error {
			for r, n := range p.tracker.Stats().Unattributed {
				if reason := attribution.Reason(r); reason != attribution.Joined {
					o.Observe(int64(n), metric.WithAttributes(attribute.String("reason", reason.String())))
				}
			}
			return nil
		}),
	)
}

func (p *gpuK8s) shutdown(context.Context) error {
	p.shutdownOnce.Do(func() {
		p.telemetry.Shutdown() // before what its callbacks read
		p.sources.shutdown()
	})
	return nil
}

// processMetrics adds the container series to the batch.
func (p *gpuK8s) processMetrics(ctx context.Context, md pmetric.Metrics) (pmetric.Metrics, error) {
	md = pdatagpu.Owned(md)
	p.order.Batch(md, time.Now())
	b := newBatch(p)
	b.read(md)
	b.decide()
	b.write(md)
	for r, n := range b.dropped {
		if n > 0 {
			p.telemetry.ProcessorGpuK8sPointsDropped.Add(ctx, n, p.dropped[r])
		}
	}
	if b.unknown > 0 {
		p.telemetry.ProcessorGpuK8sProcessPointsUnknown.Add(ctx, b.unknown)
	}
	if md.ResourceMetrics().Len() == 0 {
		return md, processorhelper.ErrSkipProcessingData
	}
	return md, nil
}
