package budget

import (
	"maps"
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// account contains the memory usage of a device's containers according to one origin, such as a
// process list.
type account struct {
	used       map[*User]int64
	nonHolders []*User // nonHolders are the users that do not hold the device.
	other      int64
	processes  int
	// uncertain contains the containers whose usage is uncertain, because a process has an unknown
	// memory usage or could belong to several containers.
	uncertain []gpudata.Holder
	// If complete is true, containers that are missing from the account use no memory.
	complete   bool
	impossible bool
	// time is when the usage was measured, according to the origin's clock.
	time int64
}

// reportsUsage returns true if the account contains the usage of at least one container, or if an
// impossible value was dropped.
func (a *account) reportsUsage() bool { return len(a.used) > 0 || a.impossible }

// namesHolder reports whether the account contains the usage of at least one holder of the device.
func (a *account) namesHolder() bool {
	for u := range a.used {
		if u.Holds {
			return true
		}
	}
	return false
}

// add adds the given number of bytes to the usage of c. If it is uncertain which user c is, or if c
// is not a user and has no pod name, add adds the bytes to a.other.
func (a *account) add(d *Device, c gpudata.Holder, bytes int64) {
	if !d.Possible(bytes) {
		a.impossible = true
		return
	}
	u := d.matchUser(c, false)
	if i := slices.IndexFunc(a.nonHolders, func(e *User) bool { return e.Holder == c }); u == nil && i >= 0 {
		u = a.nonHolders[i]
	}
	switch {
	case slices.ContainsFunc(d.Users, func(o *User) bool { return o != u && o.MayBeSame(c) }):
		a.uncertain = append(a.uncertain, c)
		a.other += bytes
		return
	case u == nil && c.Pod == "":
		// The usage could belong to a job, or to a container that is known only by its name.
		nameless := slices.ContainsFunc(d.Users, func(u *User) bool {
			return u.InPod() && u.UID == "" && c.UID != "" || !u.InPod() && u.ID == "" && !c.InPod()
		})
		a.complete = a.complete && !nameless
		a.other += bytes
		return
	case u == nil:
		u = &User{Holder: c}
		a.nonHolders = append(a.nonHolders, u)
	}
	a.used[u] += bytes
}

// accountOfProcesses calculates the account of a device from a process list. The account is
// complete only if the number of processes on the device is known and all of the device's processes
// are in the list. If the number of processes is unknown, a container without a process in the list
// could still use the device.
func (d *Device) accountOfProcesses(l *gpudata.ProcessList) *account {
	a := &account{used: map[*User]int64{}, complete: true}
	for _, pr := range d.Listed {
		switch {
		case pr.Used != Unknown:
			a.processes++
			a.add(d, pr.Holder, pr.Used)
		case !pr.Holder.InPod() && pr.Holder.Job == "":
			a.complete = false // The process could belong to any container.
		default:
			a.uncertain = append(a.uncertain, pr.Holder)
		}
	}
	a.complete = a.complete && l.IsComplete()
	return a.dropUncertain()
}

// dropUncertain removes the usage of each container that could use more memory than the account
// shows.
func (a *account) dropUncertain() *account {
	maps.DeleteFunc(a.used, func(u *User, _ int64) bool { return a.isUncertain(u) })
	return a
}

// isUncertain reports whether the usage of the user u is uncertain.
func (a *account) isUncertain(u *User) bool {
	return slices.ContainsFunc(a.uncertain, func(c gpudata.Holder) bool { return u.MayBeSame(c) })
}

// accountOfStated creates an account from the usage that a container exporter reports for the
// device's containers.
func (p *Place) accountOfStated(d *Device, source statedSource) *account {
	a := &account{used: map[*User]int64{}}
	for h, bytes := range source.used {
		if p.appliesTo(source, d, h) {
			a.add(d, h, bytes)
		}
	}
	return a.dropUncertain()
}

// apply sets the usage of the device's users from the given account. The account may be nil.
func (d *Device) apply(a *account, stale bool) {
	onlyHolder := len(d.Users) == 1 && d.Users[0].Exclusive && d.Used >= 0
	if onlyHolder && (a == nil || len(a.nonHolders) == 0 && a.other == 0) {
		d.Users[0].Used, d.Users[0].Origin = d.Used, FromDevice
		return
	}
	if a == nil {
		d.Stale = stale
		return
	}
	slices.SortFunc(a.nonHolders, func(x, y *User) int { return x.Compare(y.Holder) })
	d.Users = append(d.Users, a.nonHolders...)
	d.UsedAt = a.time
	d.Other, d.Processes, d.Impossible = a.other, a.processes, d.Impossible || a.impossible
	for _, u := range d.Users {
		if bytes, ok := a.used[u]; ok {
			u.Used, u.Origin = bytes, Observed
		} else if a.complete && !a.isUncertain(u) {
			u.Origin = Unlisted
		}
	}
}
