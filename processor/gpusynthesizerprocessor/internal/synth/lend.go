package synth

import "github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"

// lending is the memory of the devices of frames, which is used again once nobody uses the
// frames. The devices of the next node take what a cache still holds from the node before.
type lending struct {
	free []*gpudata.DeviceFrame
	used []*gpudata.DeviceFrame                    // by the batch at hand
	lent map[*gpudata.Frame][]*gpudata.DeviceFrame // by the first frame of their batch
}

// take returns a device of the batch at hand, with what was in it.
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

// lend gives the devices of the batch at hand away with its frames.
func (l *lending) lend(frames []*gpudata.Frame) {
	if len(frames) > 0 {
		l.lent[frames[0]], l.used = l.used, make([]*gpudata.DeviceFrame, 0, len(l.used))
	}
}

// release takes the devices of frames back, and keeps as many as are known.
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
