package attribution

import (
	"cmp"
	"maps"
	"strings"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// ProcessSources selects the source of the process list for each device of a node. The nvml
// receiver and process exporters list the same processes, so only one of the lists is used.
type ProcessSources struct {
	maxAge time.Duration
	// sources are the newest lists by source and hw.id.
	sources map[string]map[string]*sourceList
}

// NVML is the name of the nvml receiver as a source of processes. It sorts before the names of
// exporters.
const NVML = ""

// sourceList describes a source's newest list for a device.
type sourceList struct {
	time, interval int64
	ListedProcesses
}

// ListedProcesses describes a list of the processes on a device.
type ListedProcesses struct {
	// Complete is true if the source counted the processes and the list contains all of them.
	Complete bool
	// Processes is the length of the list.
	Processes int
	// Containers are the containers of the processes by PID, as far as the source knows them.
	Containers map[string]ProcessContainer
}

// ProcessContainer is the container of a process.
type ProcessContainer struct {
	Holder gpudata.Holder
	// ID is container.id.
	ID string
}

// NewProcessSources returns a ProcessSources. maxAge is how long a list applies if the interval of
// its source is unknown.
func NewProcessSources(maxAge time.Duration) *ProcessSources {
	return &ProcessSources{maxAge: maxAge, sources: map[string]map[string]*sourceList{}}
}

// Add stores the lists of a source at a sample time, by hw.id. An exporter sends the lists of all
// its devices at once. The nvml receiver may send the list of each device separately.
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
		case previous.time-at > int64(s.maxAge): // a clock was set back
			previous.interval, previous.time, previous.ListedProcesses = 0, at, l
		}
	}
	maps.DeleteFunc(stored, func(id string, l *sourceList) bool {
		_, listed := lists[id]
		return at-l.time > int64(s.maxAge) || source != NVML && at > l.time && !listed
	})
}

// BestSource returns the source whose process list applies to a device at a sample time, or false
// if there is none. Complete lists are better than incomplete ones. If two lists are equally
// complete, the longer list is better.
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

// compare returns 1 if a list is better than o, -1 if it is worse, and 0 if both are equally good.
func (l *sourceList) compare(o *sourceList) int {
	switch {
	case l.Complete != o.Complete && l.Complete:
		return 1
	case l.Complete != o.Complete:
		return -1
	}
	return cmp.Compare(l.Processes, o.Processes)
}

// fresh reports whether a list applies at a sample time.
func (s *ProcessSources) fresh(l *sourceList, at int64) bool {
	return gpudata.Applies(l.time, l.interval, at, s.maxAge)
}

// Container returns the container of a process from a list of the nvml receiver that applies at a
// sample time. It returns the zero ProcessContainer if the container is unknown.
func (s *ProcessSources) Container(pid string, at int64) (c ProcessContainer) {
	for _, l := range s.sources[NVML] {
		if container, ok := l.Containers[pid]; ok && s.fresh(l, at) {
			c = container // the same on every device
		}
	}
	return c
}
