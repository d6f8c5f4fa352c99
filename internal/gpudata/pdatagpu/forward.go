package pdatagpu

import (
	"context"
	"errors"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Forward passes what comes to it on to several pipelines, and hands payloads to each. The
// collector's own fan-out hands over to none: it does not tell who stands behind it.
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

// NewForward returns a component that forwards to pipelines; all is the fan-out to the same ones.
func NewForward(id component.ID, logger *zap.Logger, all consumer.Metrics, pipelines []consumer.Metrics) *Forward {
	f := &Forward{taker: Taker{ID: id, Takes: TakesFrames, Reads: true}, all: all}
	for _, next := range pipelines {
		sender := NewSender(logger, zapcore.DebugLevel, true)
		sender.shared = len(pipelines) > 1
		f.branches = append(f.branches, branch{next, sender})
	}
	return f
}

// Capabilities implements consumer.Metrics.
func (f *Forward) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

// ConsumeMetrics implements consumer.Metrics. A pipeline that fails does not keep a batch from the
// others. Where all of them want metrics, nothing is taken, so that the sender makes them once.
func (f *Forward) ConsumeMetrics(ctx context.Context, md pmetric.Metrics) error {
	hands := false
	for _, b := range f.branches {
		hands = hands || b.sender.hands()
	}
	var payload Payload
	if hands {
		payload = f.taker.take(ctx, md)
	}
	ctx = behind(ctx)
	if payload == nil {
		return f.all.ConsumeMetrics(ctx, md)
	}
	var errs []error
	for _, b := range f.branches {
		beside := pmetric.NewMetrics()
		md.CopyTo(beside)
		errs = append(errs, b.sender.Send(ctx, b.next, payload, beside))
	}
	return errors.Join(errs...)
}
