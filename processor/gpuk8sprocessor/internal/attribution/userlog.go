package attribution

import (
	"maps"
	"slices"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// UserLog keeps the users that the last two process lists of a node show, because processes and
// devices are sampled at different times. The users are evidence for the holders of devices. The
// processlists package keeps the processes themselves, after their holders have been decided.
type UserLog struct {
	maxAge time.Duration
	// lists contains the newest list and the previous list. The previous list is used for samples
	// that are older than the newest list, and for devices that are not in the newest list.
	lists [2]*UserList
}

// UserList contains all users of the devices in a process list at one time. If a user of a device
// does not appear in the next list for that device, the user has stopped using the device.
type UserList struct {
	// Time is the time of the list, in nanoseconds since the epoch.
	Time int64
	// Devices maps the hw.id of each listed device to the device's users.
	Devices map[string]DeviceUsers
}

// DeviceUsers contains the users of a device.
type DeviceUsers struct {
	// Users are the containers and jobs that have a process on the device.
	Users []gpudata.Holder
	// Empty is true if the device has no processes.
	Empty bool
}

// NewUserLog returns an empty UserLog. A list applies only to samples that were taken at most
// maxAge after the list.
func NewUserLog(maxAge time.Duration) *UserLog {
	return &UserLog{maxAge: maxAge}
}

// Store stores a list. The caller must not modify the list afterward. Lists with the same timestamp
// are merged, because one list can arrive in several batches.
func (l *UserLog) Store(list *UserList) {
	for i, old := range l.lists {
		switch {
		// If the new list is more than maxAge older than the stored list, the clock was set back.
		case old == nil || old.Time < list.Time || old.Time-list.Time > int64(l.maxAge):
			copy(l.lists[i+1:], l.lists[i:])
			l.lists[i] = list
			return
		case old.Time == list.Time:
			l.lists[i] = old.with(list)
			return
		}
	}
}

// The with method returns a new list that contains the users from both lists. The method does not
// modify l.
func (l *UserList) with(more *UserList) *UserList {
	devices := maps.Clone(l.Devices)
	for id, on := range more.Devices {
		devices[id] = DeviceUsers{slices.Concat(devices[id].Users, on.Users), on.Empty}
	}
	return &UserList{l.Time, devices}
}

// Users returns the last known users of a device at a sample time. The empty result is true if the
// device had no processes. The at parameter is the sample time, in nanoseconds since the epoch. The
// caller must not modify the returned users.
func (l *UserLog) Users(id string, at int64) (users []gpudata.Holder, empty bool) {
	for _, list := range l.lists {
		if list != nil && list.Time <= at && at-list.Time <= int64(l.maxAge) {
			if on, listed := list.Devices[id]; listed {
				return on.Users, len(on.Users) == 0 && on.Empty
			}
		}
	}
	return nil, false
}
