package attribution

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// ProcessLog remembers which containers' processes were last seen on which
// devices: they are listed at other times than devices are sampled. All methods
// are safe for concurrent use.
type ProcessLog struct {
	hold time.Duration

	mu     sync.Mutex
	places map[gpudata.Place]*processLists
	swept  time.Time
}

// processLists are the newest list of a place and the one before, for devices
// whose samples are a little older.
type processLists struct {
	lists [2]*ProcessList
	seen  time.Time // when the newest one came
}

// ProcessList is who was seen on the devices of a place at one moment: all that are
// on the devices that it names, so that whom a newer list of a device does not name
// uses it no more.
type ProcessList struct {
	// Time is in nanoseconds since the epoch.
	Time int64
	// Devices are those that the list names, by hw.id.
	Devices map[string]OnDevice
}

// OnDevice is who was seen on a device.
type OnDevice struct {
	// Users are the containers and jobs with processes.
	Users []gpudata.Holder
	// Empty says that there is no process at all.
	Empty bool
}

// NewProcessLog returns an empty log in which a list serves samples that are
// up to hold younger.
func NewProcessLog(hold time.Duration) *ProcessLog {
	return &ProcessLog{hold: hold, places: map[gpudata.Place]*processLists{}}
}

// Remember takes over a list, which must not change any more. Lists of one moment
// are one list: it can come in several batches.
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
		// One that is far behind comes after a step of the clock backwards.
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

// with returns a list of both: readers may have the old one.
func (l *ProcessList) with(more *ProcessList) *ProcessList {
	devices := maps.Clone(l.Devices)
	for id, on := range more.Devices {
		devices[id] = OnDevice{slices.Concat(devices[id].Users, on.Users), on.Empty}
	}
	return &ProcessList{l.Time, devices}
}

// On returns who was last seen on a device at a time in nanoseconds, which must not be changed,
// and whether there was no process at all.
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

// sweep forgets places whose lists are too old to be used; mu is held.
func (l *ProcessLog) sweep(now time.Time) {
	if since := now.Sub(l.swept); since >= 0 && since < l.hold {
		return
	}
	l.swept = now
	maps.DeleteFunc(l.places, func(_ gpudata.Place, of *processLists) bool { return now.Sub(of.seen) > 2*l.hold })
}
