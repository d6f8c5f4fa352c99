package pdatagpu

import (
	"context"
	"errors"
	"maps"
	"slices"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Forward passes what comes to it on to several pipelines, one after the other, and hands payloads
// to those that leave them as they came. The collector's own fan-out hands over to none: it does
// not tell who stands behind it.
type Forward struct {
	component.StartFunc
	component.ShutdownFunc
	taker    Taker
	all      consumer.Metrics // the collector's fan-out
	branches []branch
}

type branch struct {
	next   consumer.Metrics
	sender *Sender
}

// NewForward returns a component that forwards to pipelines, by name; all is the fan-out to the
// same ones.
func NewForward(id component.ID, logger *zap.Logger, all consumer.Metrics, pipelines map[string]consumer.Metrics) *Forward {
	f := &Forward{taker: Taker{ID: id, Takes: TakesFrames, Reads: true}, all: all}
	for _, name := range slices.Sorted(maps.Keys(pipelines)) {
		sender := NewSender(logger.With(zap.String("pipeline", name)), zapcore.DebugLevel, true)
		sender.shared = true
		f.branches = append(f.branches, branch{pipelines[name], sender})
	}
	return f
}

// Capabilities implements consumer.Metrics.
func (f *Forward) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

// ConsumeMetrics implements consumer.Metrics. A pipeline that fails does not keep a batch from the
// others.
func (f *Forward) ConsumeMetrics(ctx context.Context, md pmetric.Metrics) error {
	payload := f.taker.take(ctx, md)
	ctx = Behind(ctx)
	if payload == nil {
		return f.all.ConsumeMetrics(ctx, md)
	}
	beside := func() pmetric.Metrics {
		own := pmetric.NewMetrics()
		md.CopyTo(own)
		return own
	}
	if !slices.ContainsFunc(f.branches, func(b branch) bool { return b.sender.hands() }) {
		whole := beside() // once for all
		payload.WriteTo(whole)
		return f.all.ConsumeMetrics(ctx, whole)
	}
	var errs []error
	for _, b := range f.branches {
		errs = append(errs, b.sender.Send(ctx, b.next, payload, beside()))
	}
	return errors.Join(errs...)
}
