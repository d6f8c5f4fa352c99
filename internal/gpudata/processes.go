package gpudata

import (
	"math"
	"strings"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// ProcessList contains the processes on a device at one time. It is not modified after its creation,
// so frames can share it.
type ProcessList struct {
	// Time is the time of the list, in nanoseconds since the epoch. It can differ from the time of
	// the frame.
	Time int64
	// Interval is the time since the previous list of the device, in nanoseconds. 0 means unknown.
	Interval int64
	// Counted is true if the source counted the processes. Count is then their number. It exceeds
	// len(Processes) if some processes have no value.
	Counted   bool
	Count     int
	Processes []ListedProcess
}

// ListedProcess is a process in a ProcessList.
type ListedProcess struct {
	PID string
	// ContainerID is container.id as in control groups, or empty if it is unknown.
	ContainerID string
	// Holder identifies the process's container as far as it is known.
	Holder Holder
	// Utilization is a ratio and Memory is in bytes. NaN means unknown.
	Utilization, Memory float64
}

// NewProcessList returns the processes of a device in a frame. It returns nil if the frame has no
// list for the device.
func (d *DeviceFrame) NewProcessList(at int64) *ProcessList {
	l := &ProcessList{Time: at, Counted: d.Listed, Count: d.Count}
	value := func(p *Process, m *signal.Metric) float64 {
		if v, ok := p.Samples.Get(m, ""); ok {
			return v
		}
		return math.NaN()
	}
	for _, p := range d.Processes {
		if p.IsListed() {
			l.Processes = append(l.Processes, ListedProcess{
				PID: strings.Clone(p.PID), ContainerID: strings.Clone(p.ContainerID), Holder: p.Holder.Clone(),
				Utilization: value(p, signal.ProcessGPUUtilization), Memory: value(p, signal.ProcessGPUMemoryUsage),
			})
		}
	}
	if !l.Counted && len(l.Processes) == 0 {
		return nil
	}
	return l
}

// IsComplete reports whether the list is known to contain all processes on the device.
func (l *ProcessList) IsComplete() bool { return l.Counted && len(l.Processes) >= l.Count }

// AppliesAt reports whether the list is recent enough for a sample time. See [Applies].
func (l *ProcessList) AppliesAt(at int64, maxAge time.Duration) bool {
	return Applies(l.Time, l.Interval, at, maxAge)
}

// Applies reports whether data is recent enough for a sample time: it must not be older or newer
// than two intervals of its source, and never by more than maxAge. All times are in nanoseconds.
// interval is 0 if it is unknown.
func Applies(dataTime, interval, at int64, maxAge time.Duration) bool {
	limit := int64(maxAge)
	if interval > 0 {
		limit = min(limit, 2*interval)
	}
	return max(at-dataTime, dataTime-at) <= limit
}
