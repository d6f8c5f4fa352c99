package budget

import (
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
)

// Unknown is an unknown number of bytes.
const Unknown = -1

// samePod reports whether two containers are of one pod.
func samePod(a, b gpudata.Holder) bool {
	a.Container, b.Container = "", ""
	return a.Fits(b)
}

// Place is the devices of one node at one moment.
type Place struct {
	gpudata.Place
	// Time is the time of the samples, in nanoseconds since the epoch.
	Time    int64
	Devices []*Device
}

// Device is a board, or a MIG instance of one.
type Device struct {
	// Of is the device in its frame.
	Of *gpudata.DeviceFrame
	// ID is hw.id.
	ID string
	// Board is the hw.id of the instance's board, empty for a board.
	Board string
	// MIGUUID is the instance's MIG-<uuid>, where it is known.
	MIGUUID string
	// Name is the operating system's, such as nvidia0; an instance has its board's.
	Name string
	// Used, Limit and Free are bytes, or Unknown.
	Used, Limit, Free int64
	// Known says that somebody can tell who holds the device.
	Known bool
	// Labeled says that the exporter's labels named the holders: there may be more.
	Labeled bool
	Users   []*User

	// UsedAt is the sample time of the users' Observed and Unlisted values.
	UsedAt int64
	// Other is what processes of no known container use, in bytes.
	Other int64
	// Processes is how many processes were listed, 0 where none were.
	Processes int
	// Stale says that what is known of the users is too old.
	Stale bool
	// Impossible says that a number above the size of the device came in and was dropped.
	Impossible bool
	// Result is what Reconcile found.
	Result
}

// user returns the one user that can be meant, nil for none or several.
func (d *Device) user(c gpudata.Holder, holds bool) *User {
	var found *User
	for _, u := range d.Users {
		if (u.Holds || !holds) && u.Fits(c) {
			if found != nil {
				return nil
			}
			found = u
		}
	}
	return found
}

// Origin tells where the number of bytes comes from that a container uses.
type Origin uint8

// The origins.
const (
	// None: no origin.
	None Origin = iota
	// Reported: it came in as the container's usage.
	Reported
	// OfDevice: the container holds the device alone.
	OfDevice
	// Observed: from a list of processes, or a frame of an exporter of containers.
	Observed
	// Unlisted: a complete list does not name it, so it uses nothing.
	Unlisted
)

// User is a container on a device.
type User struct {
	// Of is the user in its frame, nil for one that only another frame or a list of processes
	// names.
	Of *gpudata.User
	// Holder is what is known of the container, also by its pod.
	gpudata.Holder
	// Holds says that it was given the device; otherwise it was only seen there.
	Holds bool
	// Exclusive says that it was given the device for itself alone.
	Exclusive bool
	// MPS says that the device is shared by MPS.
	MPS bool

	// Used is in bytes where Origin is not None.
	Used   int64
	Origin Origin

	// Declared are the budgets of its pod, best first; Declarations says that they
	// could be asked for.
	Declared     []gpushare.Budget
	Declarations bool
	// Unasked says that the API server is not used: other sources count, but a user without a
	// budget may have one.
	Unasked bool
	// Claims are what the allocations of its claims consume of the device.
	Claims []Claim
	// Exported is a budget that an exporter states, 0 for none.
	Exported int64

	// Budget is in bytes, 0 where there is none. Unsized says that there is one of unknown size:
	// a share of a device whose size is unknown.
	Budget  int64
	Source  gpushare.BudgetSource
	Unsized bool
}

// Claim is what one allocation of a claim consumes of a device.
type Claim struct {
	// ID tells allocations apart: of one that several containers use, each has a part.
	ID    string
	Bytes int64
}
