package budget

import (
	"maps"
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// account contains the usage of a device's containers from one origin.
type account struct {
	used       map[*User]int64
	nonHolders []*User // users that do not hold the device
	other      int64
	processes  int
	// uncertain contains the containers of processes with unknown memory, and of processes that may
	// belong to one of several containers.
	uncertain []gpudata.Holder
	// complete is true if a container that is missing from the account uses no memory.
	complete   bool
	impossible bool
	// time is the timestamp of the origin, by the origin's clock.
	time int64
}

// reportsUsage reports whether the account contains the usage of a container, or an impossible
// value.
func (a *account) reportsUsage() bool { return len(a.used) > 0 || a.impossible }

// namesHolder reports whether the account contains the usage of a holder of the device.
func (a *account) namesHolder() bool {
	for u := range a.used {
		if u.Holds {
			return true
		}
	}
	return false
}

// add adds bytes to the usage of a container, or to other if the container is unknown.
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
		// The usage may belong to a container that is known only by name, or to a job.
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

// accountOfProcesses returns the account of a device from a list of processes. The list is complete
// for devices whose number of processes is known and equals the number of listed processes. Without
// that number, a container without a listed process may still use the device.
func (d *Device) accountOfProcesses(l *gpudata.ProcessList) *account {
	a := &account{used: map[*User]int64{}, complete: true}
	for _, pr := range d.Listed {
		switch {
		case pr.Used != Unknown:
			a.processes++
			a.add(d, pr.Holder, pr.Used)
		case !pr.Holder.InPod() && pr.Holder.Job == "":
			a.complete = false // the process may belong to any container
		default:
			a.uncertain = append(a.uncertain, pr.Holder)
		}
	}
	a.complete = a.complete && l.IsComplete()
	return a.dropUncertain()
}

// dropUncertain removes the usage of containers that may use more memory.
func (a *account) dropUncertain() *account {
	maps.DeleteFunc(a.used, func(u *User, _ int64) bool { return a.isUncertain(u) })
	return a
}

// isUncertain reports whether a process that may belong to the user's container has an unknown usage.
func (a *account) isUncertain(u *User) bool {
	return slices.ContainsFunc(a.uncertain, func(c gpudata.Holder) bool { return u.MayBeSame(c) })
}

// accountOfStated creates a device's account from the values that an exporter states for the
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

// apply sets the users' usage from an account, which may be nil.
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
