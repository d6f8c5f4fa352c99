package synth

import (
	"sync"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// lending pools the devices of frames: they are reused once nobody uses the frames. Consecutive
// nodes then reuse memory that is still in the CPU's cache. It is safe for concurrent use.
type lending struct {
	mu   sync.Mutex
	free []*gpudata.DeviceFrame
	lent map[*gpudata.Frame][]*gpudata.DeviceFrame // by the first frame of their batch
}

// take returns a device with its old content.
func (l *lending) take() *gpudata.DeviceFrame {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.free) == 0 {
		return &gpudata.DeviceFrame{}
	}
	last := len(l.free) - 1
	d := l.free[last]
	l.free = l.free[:last]
	return d
}

// lend hands the devices that a batch took over with its frames.
func (l *lending) lend(frames []*gpudata.Frame, taken []*gpudata.DeviceFrame) {
	if len(frames) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lent[frames[0]] = taken
}

// release takes the devices of frames back, and keeps at most as many as there are known devices.
func (l *lending) release(frames []*gpudata.Frame, devices int) {
	if len(frames) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free = append(l.free, l.lent[frames[0]]...)
	delete(l.lent, frames[0])
	if len(l.free) > devices {
		clear(l.free[devices:])
		l.free = l.free[:devices]
	}
}
