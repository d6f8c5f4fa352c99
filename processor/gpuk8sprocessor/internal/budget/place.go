package budget

import (
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
)

// Unknown is an unknown number of bytes.
const Unknown = -1

// samePod reports whether two containers belong to the same pod.
func samePod(a, b gpudata.Holder) bool {
	a.Container, b.Container = "", ""
	return a.MayBeSame(b)
}

// Place contains the devices of one node at one time.
type Place struct {
	gpudata.Place
	// Time is the time of the samples, in nanoseconds since the epoch.
	Time    int64
	Devices []*Device
}

// Device is a board or a MIG instance.
type Device struct {
	// Frame is the device's entry in the frame.
	Frame *gpudata.DeviceFrame
	// ID is the device's hw.id.
	ID string
	// Board is the hw.id of an instance's board. It is empty for a board.
	Board string
	// MIGUUID is the instance's MIG-<uuid>, if it is known.
	MIGUUID string
	// Name is the name that the operating system uses, such as nvidia0. An instance has the name of
	// its board.
	Name string
	// Used, Limit, and Free are in bytes, or Unknown.
	Used, Limit, Free int64
	// HoldersKnown is true if a source reports the device's holders.
	HoldersKnown bool
	// HoldersFromLabels is true if the holders come from the exporter's labels. The device may have
	// more holders.
	HoldersFromLabels bool
	Users             []*User
	// Listed contains the processes of the frame's ProcessList, with their containers.
	Listed []Process

	// UsedAt is the sample time of the users' Observed and Unlisted usage.
	UsedAt int64
	// Other is the usage of processes in unknown containers, in bytes.
	Other int64
	// Processes is the number of listed processes.
	Processes int
	// Stale is true if the users' usage is too old.
	Stale bool
	// Impossible is true if a number above the device's size was dropped.
	Impossible bool
	// Result contains the result of Reconcile.
	Result
}

// Process is a process on a device.
type Process struct {
	// Holder is the process's container, as far as it is known. It is zero for a process of the
	// host.
	Holder gpudata.Holder
	// Used is the process's memory in bytes, or Unknown.
	Used int64
}

// matchUser returns the only user that matches the container. It returns nil if no user or several
// users match.
func (d *Device) matchUser(c gpudata.Holder, holds bool) *User {
	var found *User
	for _, u := range d.Users {
		if (u.Holds || !holds) && u.MayBeSame(c) {
			if found != nil {
				return nil
			}
			found = u
		}
	}
	return found
}

// Origin is the origin of a container's usage.
type Origin uint8

// The origins.
const (
	// None means that the usage is unknown.
	None Origin = iota
	// Reported usage is a sample of the container in the device's frame.
	Reported
	// FromDevice usage is the device's usage. The container is the only holder.
	FromDevice
	// Observed usage comes from a list of processes, or from a separate frame of a container exporter.
	Observed
	// Unlisted usage is 0, because the container is missing from a complete list.
	Unlisted
)

// User is a container on a device.
type User struct {
	// FrameUser is the user in the device's frame. It is nil if the user is only in another frame
	// or in a list of processes.
	FrameUser *gpudata.User
	// Holder is the container, as far as it is known from the frame and the pod.
	gpudata.Holder
	// Holds is true if the device is allocated to the container. It is false if the container was
	// only observed on the device.
	Holds bool
	// Exclusive is true if the device is allocated only to this container.
	Exclusive bool
	// MPS is true if the device is shared through MPS.
	MPS bool

	// Used is in bytes, if Origin is not None.
	Used   int64
	Origin Origin

	// Declared contains the budgets that the pod declares, best first. DeclarationsKnown is false
	// if the pod could not be read.
	Declared          []gpushare.Budget
	DeclarationsKnown bool
	// APIServerUnused is true if the API server is not used. Other sources of budgets still apply.
	// If they provide no budget, the pod may still declare one.
	APIServerUnused bool
	// Claims are the amounts of memory that the allocations of the container's claims consume on
	// the device.
	Claims []Claim
	// Exported is the budget that an exporter states, or 0 if it states none.
	Exported int64

	// Budget is in bytes. 0 means no budget. Unsized is true if the budget is a share of a device
	// with an unknown size.
	Budget  int64
	Source  gpushare.BudgetSource
	Unsized bool
}

// Claim is the amount of memory that one allocation of a claim consumes on a device.
type Claim struct {
	// ID identifies the allocation. Containers that share an allocation get equal parts of the
	// amount.
	ID    string
	Bytes int64
}
