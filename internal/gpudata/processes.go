package gpudata

import (
	"math"
	"strings"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// ProcessList contains the processes on a device at one point in time. A ProcessList is not
// modified after its creation, so frames can share it.
type ProcessList struct {
	// Time is the time of the list, in nanoseconds since the epoch. Time can differ from the time
	// of the frame.
	Time int64
	// Interval is the longer of the times between the last three lists of the device, in
	// nanoseconds. Interval is 0 if it is unknown.
	Interval int64
	// LastCounted is the time of the newest list of the device, up to this list, whose processes
	// were counted. LastCounted is 0 if there is no such list.
	LastCounted int64
	// Counted is true if the source counted the processes. If Counted is true, Count is the number
	// of processes. Count exceeds len(Processes) if some processes have no value.
	Counted   bool
	Count     int
	Processes []ListedProcess
}

// ListedProcess is a process in a ProcessList.
type ListedProcess struct {
	PID string
	// ContainerID is the container.id from the process's control group, or "" if it is unknown.
	ContainerID string
	// Holder identifies the process's container to the extent that the container is known.
	Holder Holder
	// Utilization is a ratio, and Memory is in bytes. An unknown value is NaN.
	Utilization, Memory float64
}

// NewProcessList returns the list of processes on a device in a frame. NewProcessList returns nil
// if the frame has no list for the device.
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
	if l.Counted {
		l.LastCounted = at
	}
	return l
}

// IsComplete reports whether the list is known to contain all processes on the device.
func (l *ProcessList) IsComplete() bool { return l.Counted && len(l.Processes) >= l.Count }

// AppliesAt reports whether the list is recent enough for a sample time. See [Applies].
func (l *ProcessList) AppliesAt(at int64, maxAge time.Duration) bool {
	return Applies(l.Time, l.Interval, at, maxAge)
}

// Applies reports whether data is recent enough for a sample time. The time of the data and the
// sample time must not differ by more than two intervals of the data's source, or by more than the
// maximum age. Times and intervals are in nanoseconds. An unknown interval is passed as 0.
func Applies(dataTime, interval, at int64, maxAge time.Duration) bool {
	limit := int64(maxAge)
	if interval > 0 {
		limit = min(limit, 2*interval)
	}
	return max(at-dataTime, dataTime-at) <= limit
}
