package attribution

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// ProcessLog keeps the last process lists of each place, because processes are listed at other
// times than devices are sampled. All methods are safe for concurrent use.
type ProcessLog struct {
	hold time.Duration

	mu     sync.Mutex
	places map[gpudata.Place]*processLists
	swept  time.Time
}

// processLists are the newest list of a place and the previous one, which is for devices with
// slightly older samples.
type processLists struct {
	lists [2]*ProcessList
	seen  time.Time // when the newest list arrived
}

// ProcessList has all users of each device that it lists, at one time. A user that is missing in a
// newer list of the device has stopped using it.
type ProcessList struct {
	// Time is in nanoseconds since the epoch.
	Time int64
	// Devices are the listed devices by hw.id.
	Devices map[string]OnDevice
}

// OnDevice has the users of a device.
type OnDevice struct {
	// Users are the containers and jobs with processes.
	Users []gpudata.Holder
	// Empty is true if the device has no process at all.
	Empty bool
}

// NewProcessLog returns an empty log. A list applies to samples taken at most hold after it.
func NewProcessLog(hold time.Duration) *ProcessLog {
	return &ProcessLog{hold: hold, places: map[gpudata.Place]*processLists{}}
}

// Remember stores a list, which must not change afterwards. Lists with the same time are merged,
// because one list can arrive in several batches.
func (l *ProcessLog) Remember(now time.Time, place gpudata.Place, list *ProcessList) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweep(now)
	known := l.places[place]
	if known == nil {
		known = &processLists{}
		l.places[place] = known
	}
	known.seen = now
	for i, old := range known.lists {
		switch {
		// If the new list is much older, the clock was set back.
		case old == nil || old.Time < list.Time || old.Time-list.Time > int64(l.hold):
			copy(known.lists[i+1:], known.lists[i:])
			known.lists[i] = list
			return
		case old.Time == list.Time:
			known.lists[i] = old.with(list)
			return
		}
	}
}

// with returns a merged list. It does not modify l, because readers may have it.
func (l *ProcessList) with(more *ProcessList) *ProcessList {
	devices := maps.Clone(l.Devices)
	for id, on := range more.Devices {
		devices[id] = OnDevice{slices.Concat(devices[id].Users, on.Users), on.Empty}
	}
	return &ProcessList{l.Time, devices}
}

// On returns the last known users of a device at a time in nanoseconds, and whether the device had
// no process at all. The users must not be modified.
func (l *ProcessLog) On(place gpudata.Place, id string, at int64) (users []gpudata.Holder, empty bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.places[place]
	if known == nil {
		return nil, false
	}
	for _, list := range known.lists {
		if list != nil && list.Time <= at && at-list.Time <= int64(l.hold) {
			if on, listed := list.Devices[id]; listed {
				return on.Users, len(on.Users) == 0 && on.Empty
			}
		}
	}
	return nil, false
}

// sweep removes places whose lists are too old to be used. The caller holds mu.
func (l *ProcessLog) sweep(now time.Time) {
	if since := now.Sub(l.swept); since >= 0 && since < l.hold {
		return
	}
	l.swept = now
	maps.DeleteFunc(l.places, func(_ gpudata.Place, of *processLists) bool { return now.Sub(of.seen) > 2*l.hold })
}
