package pdatagpu

import (
	"context"
	"errors"
	"slices"

	"go.opentelemetry.io/collector/component"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Section is a part of a component that adds to frames, such as the section power of gpu_k8s.
type Section struct {
	Start    component.StartFunc
	Shutdown component.ShutdownFunc
	// Process adds samples, holders and frames to a batch. It must then call [Batch.Settle].
	// Process may be called concurrently. It must not use the batch after returning. A section that
	// only starts and stops something for other sections has no Process.
	Process func(context.Context, *Batch)
	// Wants selects the metrics that Process uses. Frames may contain other metrics as well.
	Wants func(*signal.Metric) bool
}

// Sections returns the functions of a component that consists of sections. The component reads each
// arrival once, runs the sections in order, and writes the results once. As in a pipeline, the
// sections start in reverse order. If one fails to start, the ones that were started are shut down.
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
					s.Process(ctx, b)
					b.sort()
				}
			}
			return b.write(a), nil
		},
	}
}

// Append adds a frame to the batch.
func (b *Batch) Append(f *gpudata.Frame) {
	b.appended = append(b.appended, f)
	b.Frames = append(b.Frames, f)
}

// Settle sets the scope of everything that was added since the last call, and removes samples of
// disabled metrics from it.
func (b *Batch) Settle(scope gpudata.Scope, disabled map[*signal.Metric]bool) {
	for _, f := range b.Frames {
		f.Settle(scope, disabled)
	}
}

// sort restores the order of the batch, so that the next section does not depend on the order in
// which this one added frames, devices, users and processes.
func (b *Batch) sort() {
	for _, f := range b.Frames {
		f.Sort()
	}
	slices.SortStableFunc(b.Frames, (*gpudata.Frame).Compare)
}

// write writes what sections added to frames that were read from metrics to the metrics. It returns
// the frames for the next stage. The batch must not be used afterwards.
func (b *Batch) write(a *Arrival) []*gpudata.Frame {
	if len(b.read) > 0 && b.read[0].Attribution != nil {
		b.writeHoldings(b.read[0].Attribution)
	} else {
		b.writeAdded()
	}
	if a.Frames == nil {
		(&Writer{}).Write(b.appended, a.Metrics)
		return nil
	}
	frames := append(slices.Clone(a.Frames), b.appended...)
	slices.SortStableFunc(frames, (*gpudata.Frame).Compare)
	return frames
}
