package pdatagpu

import (
	"context"
	"errors"
	"slices"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
)

// Stages runs processors one after another within one component. Each stage gets the frames that
// the previous stage returned. Frames are converted to metrics only after the last stage.
type Stages struct {
	list   []*Processor
	names  []string
	next   consumer.Metrics
	status componenthelper.Status
}

// NewStages returns an empty list of stages that sends its results to next.
func NewStages(next consumer.Metrics) *Stages { return &Stages{next: next} }

// NewStage returns a stage. A stage cannot be used as a processor in a Collector pipeline.
func NewStage(f Functions) *Processor {
	return &Processor{
		StartFunc: f.Start, ShutdownFunc: f.Shutdown, process: f.Process, takesRows: f.TakesRows,
	}
}

// Append adds a stage. If the stage fails to start, the error from Start contains the given name.
func (s *Stages) Append(name string, stage *Processor) {
	s.names = append(s.names, name)
	s.list = append(s.list, stage)
}

// Start starts the stages in reverse order, because a stage can send data as soon as it runs. If a
// stage fails to start, the stages that have started are shut down.
func (s *Stages) Start(ctx context.Context, host component.Host) error {
	s.status.Host = host
	for i, stage := range slices.Backward(s.list) {
		if err := stage.Start(ctx, s.status.Part(s.names[i])); err != nil {
			err = &StageError{s.names[i], err}
			for _, started := range s.list[i+1:] {
				err = errors.Join(err, started.Shutdown(ctx))
			}
			return err
		}
	}
	return nil
}

// StageError is an error of one stage.
type StageError struct {
	Stage string
	Err   error
}

// Error implements error.
func (e *StageError) Error() string { return "stages::" + e.Stage + ": " + e.Err.Error() }

// Unwrap returns the stage's error without the stage's name.
func (e *StageError) Unwrap() error { return e.Err }

// Shutdown shuts the stages down in order, so that the data that a stage sends during shutdown
// reaches the later stages.
func (s *Stages) Shutdown(ctx context.Context) (err error) {
	for _, stage := range s.list {
		err = errors.Join(err, stage.Shutdown(ctx))
	}
	return err
}

// Capabilities implements consumer.Metrics. Stages copy shared metrics before changing them.
func (*Stages) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

// ConsumeMetrics implements consumer.Metrics.
func (s *Stages) ConsumeMetrics(ctx context.Context, md pmetric.Metrics) error {
	return s.Consume(ctx, nil, md)
}

// Consume runs the stages on metrics and on the rows of a scrape. The rows argument may be nil. If
// the first stage does not read rows, Consume first converts the rows to metrics. Callers must not
// use md afterward. The item counters of the first stage count the input and output of the entire
// list of stages.
func (s *Stages) Consume(ctx context.Context, rows *Rows, md pmetric.Metrics) error {
	a := &Arrival{Metrics: md, Rows: rows}
	first := s.list[0]
	received := md.DataPointCount()
	if rows != nil {
		received += rows.Points()
	}
	first.incoming.Add(ctx, int64(received), first.self)
	if rows != nil && !first.takesRows {
		rows.WriteTo(a.Own())
		a.Rows = nil
	}
	for _, stage := range s.list {
		frames, err := stage.process(ctx, a)
		if err != nil {
			return err
		}
		a.Rows, a.Frames = nil, frames
	}
	s.list[len(s.list)-1].write(a.Frames, a)
	if a.Metrics.ResourceMetrics().Len() == 0 {
		return nil
	}
	first.outgoing.Add(ctx, int64(a.Metrics.DataPointCount()), first.self)
	return s.next.ConsumeMetrics(ctx, a.Metrics)
}
