package attribution

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestTheMostCompleteListOfADeviceApplies(t *testing.T) {
	type list struct {
		source string
		at     int64 // in seconds
		ListedProcesses
	}
	complete, two, three := ListedProcesses{Complete: true, Processes: 1}, ListedProcesses{Processes: 2}, ListedProcesses{Processes: 3}
	for name, tc := range map[string]struct {
		lists []list
		at    int64
		want  string
		none  bool
	}{
		"a complete list":                         {[]list{{NVML, 10, complete}, {"x", 12, three}}, 12, NVML, false},
		"a complete list, in any order":           {[]list{{"x", 12, three}, {NVML, 10, complete}}, 12, NVML, false},
		"the longer list":                         {[]list{{NVML, 10, two}, {"x", 12, three}}, 12, "x", false},
		"the nvml receiver's of two equal lists":  {[]list{{"x", 10, two}, {NVML, 12, two}}, 12, NVML, false},
		"the first exporter by name of two equal": {[]list{{"y", 10, two}, {"x", 12, two}}, 12, "x", false},
		"the newest list of a source":             {[]list{{"x", 10, three}, {"x", 12, ListedProcesses{Processes: 1}}, {"y", 12, two}}, 12, "y", false},
		"a list of two intervals ago":             {[]list{{NVML, 0, complete}, {NVML, 10, complete}, {"x", 30, two}}, 30, NVML, false},
		"a list of more than two intervals ago":   {[]list{{NVML, 0, complete}, {NVML, 10, complete}, {"x", 31, two}}, 31, "x", false},
		"the only list of a source":               {[]list{{NVML, 10, complete}, {"x", 70, two}}, 70, NVML, false},
		"the only list of a source, too old":      {[]list{{NVML, 10, complete}, {"x", 71, two}}, 71, "x", false},
		"none":                                    {[]list{{NVML, 10, complete}}, 71, "", true},
		"a clock that was set back":               {[]list{{"x", 1000, three}, {"x", 10, two}}, 10, "x", false},
		"a late list is ignored":                  {[]list{{"x", 20, two}, {"x", 10, three}, {"y", 20, three}}, 20, "y", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewProcessSources(time.Minute)
			for _, l := range tc.lists {
				s.Add(l.source, l.at*int64(time.Second), map[string]ListedProcesses{"GPU-1": l.ListedProcesses})
			}
			best, ok := s.BestSource("GPU-1", tc.at*int64(time.Second))
			assert.Equal(t, !tc.none, ok)
			assert.Equal(t, tc.want, best)
			_, ok = s.BestSource("GPU-2", tc.at*int64(time.Second))
			assert.False(t, ok, "the list is for another device")
		})
	}
}

// If an exporter exports no processes for a device, the exporter has no process list for the
// device. A frame from the nvml receiver can contain only one of the node's devices.
func TestTheNextListsOfAnExporterEndTheListsOfMissingDevices(t *testing.T) {
	for _, source := range []string{NVML, "x"} {
		s := NewProcessSources(time.Minute)
		s.Add(source, 10e9, map[string]ListedProcesses{"GPU-1": {Processes: 1}})
		s.Add(source, 20e9, map[string]ListedProcesses{"GPU-2": {Processes: 1}})
		_, ok := s.BestSource("GPU-1", 20e9)
		assert.Equal(t, source == NVML, ok, source)
	}
}

// The batch processor can split a list. The exporter lists the same processes without containers.
func TestAListThatArrivesInSeveralBatchesNamesTheContainersOfAllProcesses(t *testing.T) {
	s := NewProcessSources(time.Minute)
	a, b := ProcessContainer{podHolder("a", "uid-a", ""), "c1"}, ProcessContainer{podHolder("b", "uid-b", ""), "c2"}
	part := func(containers map[string]ProcessContainer) map[string]ListedProcesses {
		return map[string]ListedProcesses{"GPU-1": {Processes: 1, Containers: containers}}
	}
	best := func() string {
		source, _ := s.BestSource("GPU-1", 10e9)
		return source
	}
	s.Add("x", 9e9, map[string]ListedProcesses{"GPU-1": {Processes: 3}})
	s.Add(NVML, 10e9, part(nil))
	assert.Equal(t, "x", best())
	for pid, container := range map[string]ProcessContainer{"7": a, "8": b} {
		s.Add(NVML, 10e9, part(map[string]ProcessContainer{pid: container}))
		assert.Equal(t, "x", best(), "if the parts of a list came from different sources, processes would be lost or doubled")
	}
	assert.Equal(t, a, s.Container("7", 10e9))
	assert.Equal(t, b, s.Container("8", 10e9))

	s.Add(NVML, 20e9, part(map[string]ProcessContainer{"8": b}))
	assert.Zero(t, s.Container("7", 20e9), "the next list replaces all parts")
}

func TestTheNVMLReceiverNamesTheContainerOfAProcess(t *testing.T) {
	s := NewProcessSources(time.Minute)
	h := podHolder("a", "uid-a", "")
	assert.Zero(t, s.Container("7", 10e9))
	s.Add(NVML, 10e9, map[string]ListedProcesses{
		"GPU-1": {Processes: 1, Containers: map[string]ProcessContainer{"7": {h, "c1"}}},
	})
	assert.Equal(t, ProcessContainer{h, "c1"}, s.Container("7", 70e9))
	assert.Zero(t, s.Container("7", 71e9), "the operating system reuses PIDs")
	assert.Zero(t, s.Container("8", 10e9))
}
