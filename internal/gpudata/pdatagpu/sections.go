package pdatagpu

import (
	"context"
	"errors"
	"slices"

	"go.opentelemetry.io/collector/component"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/internal/stage"
)

// Section is a part of a component that adds data to frames, such as the power section of gpu_k8s.
type Section struct {
	Start    component.StartFunc
	Shutdown component.ShutdownFunc
	// Process adds samples, holders, and frames to a batch. Process must then call
	// [stage.Batch.Settle]. Process may be called concurrently. Process must not use the batch
	// after it has returned. Process is nil if the section only starts and stops something for
	// other sections.
	Process func(context.Context, *stage.Batch)
	// Wants selects the metrics that Process uses. Frames may contain other metrics as well.
	Wants func(*signal.Metric) bool
}

// Sections returns the functions of a component that consists of sections. The component reads each
// arrival once, runs the sections in order, and writes the results once. As in a pipeline, the
// sections start in reverse order. If a section fails to start, the sections that have started are
// shut down.
func Sections(list ...Section) Functions {
	shutdown := func(ctx context.Context, of []Section) (err error) {
		for _, s := range of {
			if s.Shutdown != nil {
				err = errors.Join(err, s.Shutdown(ctx))
			}
		}
		return err
	}
	wants := func(m *signal.Metric) bool {
		return slices.ContainsFunc(list, func(s Section) bool { return s.Wants != nil && s.Wants(m) })
	}
	return Functions{
		Start: func(ctx context.Context, host component.Host) error {
			for i, s := range slices.Backward(list) {
				if s.Start == nil {
					continue
				}
				if err := s.Start(ctx, host); err != nil {
					return errors.Join(err, shutdown(ctx, list[i+1:]))
				}
			}
			return nil
		},
		Shutdown: func(ctx context.Context) error { return shutdown(ctx, list) },
		Process: func(ctx context.Context, a *Arrival) ([]*gpudata.Frame, error) {
			b := a.join(Read(a.Own(), wants))
			for _, s := range list {
				if s.Process != nil {
					s.Process(ctx, &b.Batch)
					b.Sort()
				}
			}
			return b.write(a), nil
		},
	}
}

// The write method writes the data that the sections added to the frames. The result contains the
// frames for the next stage. Callers must not use the batch afterward.
func (b *Batch) write(a *Arrival) []*gpudata.Frame {
	if len(b.read) > 0 && b.read[0].Attribution != nil {
		b.writeHoldings(b.read[0].Attribution)
	} else {
		b.writeAdded()
	}
	if a.Frames == nil {
		(&Writer{}).Write(b.Appended(), a.Metrics)
		return nil
	}
	frames := append(slices.Clone(a.Frames), b.Appended()...)
	slices.SortStableFunc(frames, (*gpudata.Frame).Compare)
	return frames
}
