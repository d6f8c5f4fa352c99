package budget

import (
	"maps"
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// account has the usage of one device's containers from one origin.
type account struct {
	used      map[*User]int64
	extra     []*User // who does not hold the device
	other     int64
	processes int
	// silent are containers of processes whose memory is unknown, or which may belong to one of
	// several containers.
	silent []gpudata.Holder
	// complete says that who is not named uses nothing.
	complete   bool
	impossible bool
	// time is the timestamp that the origin gave, by its own clock.
	time int64
}

// speaks reports whether the origin names somebody, or a number that cannot be.
func (a *account) speaks() bool { return len(a.used) > 0 || a.impossible }

// ofHolder reports whether the origin names somebody who holds the device.
func (a *account) ofHolder() bool {
	for u := range a.used {
		if u.Holds {
			return true
		}
	}
	return false
}

// add books bytes on a container, or on nobody.
func (a *account) add(d *Device, c gpudata.Holder, bytes int64) {
	if !d.Possible(bytes) {
		a.impossible = true
		return
	}
	u := d.user(c, false)
	if i := slices.IndexFunc(a.extra, func(e *User) bool { return e.Holder == c }); u == nil && i >= 0 {
		u = a.extra[i]
	}
	switch {
	case slices.ContainsFunc(d.Users, func(o *User) bool { return o != u && o.Fits(c) }):
		a.silent = append(a.silent, c)
		a.other += bytes
		return
	case u == nil && c.Pod == "":
		// It may be somebody's who is known by name alone, or a job's.
		nameless := slices.ContainsFunc(d.Users, func(u *User) bool {
			return u.InPod() && u.UID == "" && c.UID != "" || !u.InPod() && u.ID == "" && !c.InPod()
		})
		a.complete = a.complete && !nameless
		a.other += bytes
		return
	case u == nil:
		u = &User{Holder: c}
		a.extra = append(a.extra, u)
	}
	a.used[u] += bytes
}

// ofProcesses returns the account of a device from a list of processes. The list is complete for
// devices whose number of processes is known and equals the number of listed processes. Without that
// number a container without a process in the list may still use the device.
func (d *Device) ofProcesses(l *list) *account {
	a := &account{used: map[*User]int64{}, complete: true}
	n := 0
	for _, pr := range l.processes {
		n++
		switch {
		case pr.Used != Unknown:
			a.processes++
			a.add(d, pr.Holder, pr.Used)
		case !pr.Holder.InPod() && pr.Holder.Job == "":
			a.complete = false // it may be anybody's
		default:
			a.silent = append(a.silent, pr.Holder)
		}
	}
	a.complete = a.complete && l.counted && n >= l.count
	return a.settled()
}

// settled leaves out entries that are a part of a container's usage.
func (a *account) settled() *account {
	maps.DeleteFunc(a.used, func(u *User, _ int64) bool { return a.uncertain(u) })
	return a
}

// uncertain reports whether a process that may belong to the user's container has an unknown usage.
func (a *account) uncertain(u *User) bool {
	return slices.ContainsFunc(a.silent, func(c gpudata.Holder) bool { return u.Fits(c) })
}

// ofStated returns the account of a device from what an exporter states about its containers.
func (p *Place) ofStated(d *Device, of ofDevice) *account {
	a := &account{used: map[*User]int64{}}
	for h, bytes := range of.used {
		if p.isFor(of, d, h) {
			a.add(d, h, bytes)
		}
	}
	return a.settled()
}

// apply takes over an account, nil for none.
func (d *Device) apply(a *account, stale bool) {
	sole := len(d.Users) == 1 && d.Users[0].Exclusive && d.Used >= 0
	if sole && (a == nil || len(a.extra) == 0 && a.other == 0) {
		d.Users[0].Used, d.Users[0].Origin = d.Used, OfDevice
		return
	}
	if a == nil {
		d.Stale = stale
		return
	}
	slices.SortFunc(a.extra, func(x, y *User) int { return x.Compare(y.Holder) })
	d.Users = append(d.Users, a.extra...)
	d.UsedAt = a.time
	d.Other, d.Processes, d.Impossible = a.other, a.processes, d.Impossible || a.impossible
	for _, u := range d.Users {
		if bytes, ok := a.used[u]; ok {
			u.Used, u.Origin = bytes, Observed
		} else if a.complete && !a.uncertain(u) {
			u.Origin = Unlisted
		}
	}
}
