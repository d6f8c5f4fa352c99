package synth

import "github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"

// lending pools the devices of frames: they are reused once nobody uses the frames. Consecutive
// nodes then reuse memory that is still in the CPU's cache.
type lending struct {
	free []*gpudata.DeviceFrame
	used []*gpudata.DeviceFrame                    // by the current batch
	lent map[*gpudata.Frame][]*gpudata.DeviceFrame // by the first frame of their batch
}

// take returns a device for the current batch, with its old content.
func (l *lending) take() *gpudata.DeviceFrame {
	if len(l.free) == 0 {
		l.free = append(l.free, &gpudata.DeviceFrame{})
	}
	last := len(l.free) - 1
	d := l.free[last]
	l.free = l.free[:last]
	l.used = append(l.used, d)
	return d
}

// lend hands the devices of the current batch over with its frames.
func (l *lending) lend(frames []*gpudata.Frame) {
	if len(frames) > 0 {
		l.lent[frames[0]], l.used = l.used, make([]*gpudata.DeviceFrame, 0, len(l.used))
	}
}

// release takes the devices of frames back, and keeps at most as many as there are known devices.
func (l *lending) release(frames []*gpudata.Frame, devices int) {
	if len(frames) == 0 {
		return
	}
	l.free = append(l.free, l.lent[frames[0]]...)
	delete(l.lent, frames[0])
	if len(l.free) > devices {
		clear(l.free[devices:])
		l.free = l.free[:devices]
	}
}
