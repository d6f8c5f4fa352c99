package receiverstages

import (
	"context"
	"fmt"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/connector"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/connector/gpueventsconnector"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/stages"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor"
)

// Outputs are the pipelines that a receiver sends to; nil if it is not in one of that kind.
type Outputs struct {
	Metrics consumer.Metrics
	Logs    consumer.Logs
}

func (o *Outputs) add(other Outputs) {
	if other.Metrics != nil {
		o.Metrics = other.Metrics
	}
	if other.Logs != nil {
		o.Logs = other.Logs
	}
}

// MetricsOrDiscard returns the metrics pipeline, or a consumer that drops everything if there
// is none.
func (o *Outputs) MetricsOrDiscard() consumer.Metrics {
	if o.Metrics == nil {
		return discard{}
	}
	return o.Metrics
}

// New builds the stages of a receiver. It returns an error if gpu_events has no logs pipeline.
func New(ctx context.Context, cfg *Config, owner *stages.Owner, out *Outputs) (*pdatagpu.Stages, error) {
	if cfg.Events.HasValue() && out.Logs == nil {
		return nil, fmt.Errorf("stages::gpu_events sends log records, but %s is not in a logs pipeline: add it to the receivers of a logs pipeline", owner.ID)
	}
	b := stages.NewBuilder(owner, out.MetricsOrDiscard())
	if err := b.Add(ctx, gpusynthesizerprocessor.NewFactory(), cfg.Synthesizer.GetOrInsertDefault()); err != nil {
		return nil, err
	}
	if err := b.AddHolders(ctx, &cfg.Config); err != nil {
		return nil, err
	}
	if err := addEvents(b, cfg, owner, out.Logs); err != nil {
		return nil, err
	}
	if err := b.AddWindows(ctx, &cfg.Config); err != nil {
		return nil, err
	}
	return b.Stages(), nil
}

// addEvents adds gpu_events, which reads the samples that windows are made of.
func addEvents(b *stages.Builder, cfg *Config, owner *stages.Owner, next consumer.Logs) error {
	if !cfg.Events.HasValue() {
		return nil
	}
	of := gpueventsconnector.NewFactory().Type()
	set := owner.Settings(of)
	stage, err := gpueventsconnector.NewStage(
		connector.Settings{ID: set.ID, TelemetrySettings: set.TelemetrySettings, BuildInfo: set.BuildInfo}, cfg.Events.Get(), next)
	if err != nil {
		return fmt.Errorf("stages::%s: %w", of, err)
	}
	b.AddStage(of.String(), stage)
	return nil
}

// discard is the next component of a receiver that is in no metrics pipeline.
type discard struct{}

func (discard) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

func (discard) ConsumeMetrics(context.Context, pmetric.Metrics) error { return nil }

// Receiver is a receiver that sends to pipelines of several kinds.
type Receiver interface {
	component.Component
	// Outputs returns the pipelines that the receiver sends to. The caller fills them in before
	// Start.
	Outputs() *Outputs
}

// Shared is a receiver that is in several pipelines. The Collector creates and starts a
// receiver once for each kind of pipeline; the wrapped receiver exists and runs once.
type Shared[R Receiver] struct {
	Receiver R

	forget      func()
	start, stop sync.Once
	startErr    error
	stopErr     error
}

// Start implements component.Component.
func (s *Shared[R]) Start(ctx context.Context, host component.Host) error {
	s.start.Do(func() { s.startErr = s.Receiver.Start(ctx, host) })
	return s.startErr
}

// Shutdown implements component.Component.
func (s *Shared[R]) Shutdown(ctx context.Context) error {
	s.stop.Do(func() {
		s.forget()
		s.stopErr = s.Receiver.Shutdown(ctx)
	})
	return s.stopErr
}

// Sharing holds the receivers of one factory by their configuration. The Collector passes the same
// pointer for each pipeline of a receiver.
type Sharing[R Receiver] struct {
	mu    sync.Mutex
	known map[component.Config]*Shared[R]
}

// Get returns the receiver of a configuration, which create makes the first time, and adds the
// pipelines that out names.
func (s *Sharing[R]) Get(cfg component.Config, out Outputs, create func() (R, error)) (*Shared[R], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if shared, ok := s.known[cfg]; ok {
		shared.Receiver.Outputs().add(out)
		return shared, nil
	}
	made, err := create()
	if err != nil {
		return nil, err
	}
	made.Outputs().add(out)
	shared := &Shared[R]{Receiver: made, forget: func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.known, cfg)
	}}
	if s.known == nil {
		s.known = map[component.Config]*Shared[R]{}
	}
	s.known[cfg] = shared
	return shared, nil
}
