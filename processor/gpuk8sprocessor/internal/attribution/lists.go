package attribution

import (
	"cmp"
	"maps"
	"strings"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// ProcessSources selects, for each device on a node, the source whose process list is used. The
// nvml receiver and process exporters list the same processes, so only one process list per device
// is used.
type ProcessSources struct {
	maxAge time.Duration
	// sources contains the newest process lists, grouped by source and then by hw.id.
	sources map[string]map[string]*sourceList
}

// NVML is the source name of the nvml receiver. The source name is empty so that it sorts before
// the names of exporters.
const NVML = ""

// sourceList describes the newest process list that a source sent for a device.
type sourceList struct {
	time, interval int64
	ListedProcesses
}

// ListedProcesses describes one process list of a device.
type ListedProcesses struct {
	// Complete is true if the source reports the number of processes and the list contains at least
	// that many processes.
	Complete bool
	// Processes is the number of processes in the list.
	Processes int
	// Containers maps the PIDs of processes to containers. Processes whose container is unknown to
	// the source are not in the map.
	Containers map[string]ProcessContainer
}

// ProcessContainer is the container of a process.
type ProcessContainer struct {
	Holder gpudata.Holder
	// ID is container.id.
	ID string
}

// NewProcessSources returns a ProcessSources. A process list applies to samples whose time differs
// from the time of the list by at most two intervals of the source, and by at most maxAge. If the
// interval is unknown, only maxAge limits the difference.
func NewProcessSources(maxAge time.Duration) *ProcessSources {
	return &ProcessSources{maxAge: maxAge, sources: map[string]map[string]*sourceList{}}
}

// Add stores the process lists that a source sent for one sample time. The keys of the lists map
// are hw.ids. An exporter sends the process lists of all its devices together. The nvml receiver
// can send the process list of each device separately. If a list arrives in several parts with the
// same time, Add stores the containers of all parts. Complete and Processes come from the first
// part, so that BestSource treats all parts alike. Otherwise, processes could be lost or doubled.
func (s *ProcessSources) Add(source string, at int64, lists map[string]ListedProcesses) {
	stored := s.sources[source]
	if stored == nil {
		stored = map[string]*sourceList{}
		s.sources[strings.Clone(source)] = stored
	}
	for id, l := range lists {
		previous := stored[id]
		switch {
		case previous == nil:
			stored[strings.Clone(id)] = &sourceList{time: at, ListedProcesses: l}
		case at > previous.time:
			previous.interval, previous.time, previous.ListedProcesses = at-previous.time, at, l
		case at == previous.time && previous.Containers == nil:
			previous.Containers = l.Containers
		case at == previous.time:
			maps.Copy(previous.Containers, l.Containers)
		case previous.time-at > int64(s.maxAge): // The source's clock was set back.
			previous.interval, previous.time, previous.ListedProcesses = 0, at, l
		}
	}
	maps.DeleteFunc(stored, func(id string, l *sourceList) bool {
		_, listed := lists[id]
		return at-l.time > int64(s.maxAge) || source != NVML && at > l.time && !listed
	})
}

// BestSource returns the source that has the best process list for a device at a sample time. If no
// source has a list that applies at the sample time, BestSource returns false. A complete list is
// better than an incomplete list. If both lists are complete or both are incomplete, the longer
// list is better.
func (s *ProcessSources) BestSource(id string, at int64) (source string, ok bool) {
	var best *sourceList
	for name, lists := range s.sources {
		l := lists[id]
		if l == nil || !s.fresh(l, at) {
			continue
		}
		if best == nil || cmp.Or(l.compare(best), cmp.Compare(source, name)) > 0 {
			best, source = l, name
		}
	}
	return source, best != nil
}

// compare returns 1 if l is a better process list than o, -1 if l is worse than o, and 0 if l and o
// are equally good.
func (l *sourceList) compare(o *sourceList) int {
	switch {
	case l.Complete != o.Complete && l.Complete:
		return 1
	case l.Complete != o.Complete:
		return -1
	}
	return cmp.Compare(l.Processes, o.Processes)
}

// fresh reports whether the given process list is recent enough to apply at the given sample time.
func (s *ProcessSources) fresh(l *sourceList, at int64) bool {
	return gpudata.Applies(l.time, l.interval, at, s.maxAge)
}

// Container looks up the container of a process in the nvml receiver's process lists that apply at
// a sample time. If the container is unknown, Container returns the zero ProcessContainer.
func (s *ProcessSources) Container(pid string, at int64) (c ProcessContainer) {
	for _, l := range s.sources[NVML] {
		if container, ok := l.Containers[pid]; ok && s.fresh(l, at) {
			c = container // A process has the same container in the lists of all devices.
		}
	}
	return c
}
