// Package inprocess runs components of the Collector in a program that is not a collector.
package inprocess

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	trace "go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/zap"
)

// Pipeline is a chain of components. The caller must add the components in reverse order, from the
// exporter to the receiver. If adding a component fails, Start returns the error.
type Pipeline struct {
	log        *zap.Logger
	meters     metric.MeterProvider
	components []component.Component
	next       consumer.Metrics
	err        error
}

// New returns a pipeline whose components log to the given logger.
func New(log *zap.Logger) *Pipeline { return &Pipeline{log: log, meters: noop.NewMeterProvider()} }

// Meter sets the meter provider for the self-metrics of the components that are added later.
func (p *Pipeline) Meter(meters metric.MeterProvider) { p.meters = meters }

// Into sets the consumer that receives the output of the component that is added next.
func (p *Pipeline) Into(next consumer.Metrics) { p.next = next }

// Exporter adds an exporter at the end of the pipeline. The settings parameter contains the same
// settings as a configuration file.
func (p *Pipeline) Exporter(ctx context.Context, f exporter.Factory, settings map[string]any) {
	p.add(f.Type(), f.CreateDefaultConfig(), settings, func(id component.ID, t component.TelemetrySettings, cfg component.Config) (component.Component, error) {
		e, err := f.CreateMetrics(ctx, exporter.Settings{ID: id, TelemetrySettings: t}, cfg)
		p.next = e
		return e, err
	})
}

// Receiver adds a receiver at the beginning of the pipeline.
func (p *Pipeline) Receiver(ctx context.Context, f receiver.Factory, settings map[string]any) {
	p.add(f.Type(), f.CreateDefaultConfig(), settings, func(id component.ID, t component.TelemetrySettings, cfg component.Config) (component.Component, error) {
		return f.CreateMetrics(ctx, receiver.Settings{ID: id, TelemetrySettings: t}, cfg, p.next)
	})
}

func (p *Pipeline) add(kind component.Type, cfg component.Config, settings map[string]any, create func(component.ID, component.TelemetrySettings, component.Config) (component.Component, error)) {
	if p.err != nil {
		return
	}
	err := confmap.NewFromStringMap(settings).Unmarshal(cfg)
	if err == nil {
		err = confmap.Validate(cfg)
	}
	var c component.Component
	if err == nil {
		c, err = create(component.NewID(kind), component.TelemetrySettings{
			Logger: p.log, TracerProvider: trace.NewTracerProvider(), MeterProvider: p.meters, Resource: pcommon.NewResource(),
		}, cfg)
	}
	if err != nil {
		p.err = fmt.Errorf("%s: %w", kind, err)
		return
	}
	p.components = append(p.components, c)
}

// Start starts the components from the end of the pipeline to its beginning. If a component fails
// to start, Start shuts down the components that have already started.
func (p *Pipeline) Start(ctx context.Context) (stop func(context.Context) error, err error) {
	if p.err != nil {
		return nil, p.err
	}
	for i, c := range p.components {
		if err := c.Start(ctx, host{}); err != nil {
			return nil, errors.Join(err, shutdown(ctx, p.components[:i]))
		}
	}
	return func(ctx context.Context) error { return shutdown(ctx, p.components) }, nil
}

// shutdown shuts down components in the direction of the data flow.
func shutdown(ctx context.Context, started []component.Component) error {
	var errs error
	for _, c := range slices.Backward(started) {
		errs = errors.Join(errs, c.Shutdown(ctx))
	}
	return errs
}

// host has no extensions.
type host struct{}

func (host) GetExtensions() map[component.ID]component.Component { return nil }
