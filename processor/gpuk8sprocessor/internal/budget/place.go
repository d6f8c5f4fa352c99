package budget

import (
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
)

// Unknown represents an unknown number of bytes.
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
	// For a MIG instance, Board is the hw.id of the instance's board. For a board, Board is empty.
	Board string
	// MIGUUID is the MIG-<uuid> of the instance, if the UUID is known.
	MIGUUID string
	// Name is the operating system's name for the device, such as nvidia0. The Name of an instance
	// is the name of its board.
	Name string
	// Used, Limit, and Free are in bytes. Each of Used, Limit, and Free can be Unknown.
	Used, Limit, Free int64
	// UsedStored is true if Used and Free come from an earlier frame.
	UsedStored bool
	// HoldersKnown is true if a source reports the device's holders.
	HoldersKnown bool
	// HoldersFromLabels is true if the holders come from the exporter's labels. Labels do not
	// always identify all holders of a device.
	HoldersFromLabels bool
	Users             []*User
	// Listed contains the processes in the frame's ProcessList, each with its container.
	Listed []Process

	// UsedAt is when the usage of users whose Origin is Observed or Unlisted was sampled.
	UsedAt int64
	// Other is the total usage that cannot be assigned to a container, in bytes.
	Other int64
	// Processes is the number of listed processes whose memory usage is known.
	Processes int
	// Stale is true if the usage of the users is too old to be used.
	Stale bool
	// Impossible is true if a value was dropped because the value exceeds the size of the device.
	Impossible bool
	// Result contains the result of Reconcile.
	Result
}

// Process is a process on a device.
type Process struct {
	// Holder contains what is known about the process's container. For a process that does not run
	// in a container, Holder is the zero value.
	Holder gpudata.Holder
	// Used is the memory that the process uses, in bytes, or Unknown.
	Used int64
}

// matchUser returns the user that matches the container c. If several users match, or no user
// matches, matchUser returns nil. If holds is true, matchUser considers only users that hold the
// device.
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

// Origin describes where the usage of a container comes from.
type Origin uint8

// The origins.
const (
	// None means that the usage is unknown.
	None Origin = iota
	// Reported means that the usage comes from a sample of the container in the device's frame.
	Reported
	// FromDevice means that the usage equals the device's usage, because the container is the only
	// holder.
	FromDevice
	// Observed means that the usage comes from a process list, or from a separate frame of a
	// container exporter.
	Observed
	// Unlisted means that the usage is 0, because the container does not appear in a complete
	// process list.
	Unlisted
)

// User is a container on a device.
type User struct {
	// FrameUser is the same user in the device's frame. FrameUser is nil if the user appears only
	// in another frame or in a process list.
	FrameUser *gpudata.User
	// Holder identifies the container as precisely as the frame and the pod allow.
	gpudata.Holder
	// Holds is true if the device is allocated to the container. If the container only uses the
	// device without an allocation, Holds is false.
	Holds bool
	// Exclusive is true if the device is allocated only to this container.
	Exclusive bool
	// MPS is true if the device is shared through MPS.
	MPS bool

	// Used is the usage in bytes. Used is meaningful only if Origin is not None.
	Used   int64
	Origin Origin

	// Declared contains the budgets that the pod declares, in order of precedence.
	// DeclarationsKnown is false if the pod could not be read.
	Declared          []gpushare.Budget
	DeclarationsKnown bool
	// APIServerUnused is true if the API server is not used. Without the API server, the pod's
	// declarations are unknown, but other sources can still provide a budget.
	APIServerUnused bool
	// Claims contains the amount of the device's memory that each of the container's claims
	// consumes.
	Claims []Claim
	// Exported is the budget that an exporter reports, or 0 if no exporter reports a budget.
	Exported int64

	// Budget is the budget in bytes, or 0 if there is no budget. Unsized is true if the budget
	// depends on the device's size and the size is unknown.
	Budget  int64
	Source  gpushare.BudgetSource
	Unsized bool
}

// Claim is the amount of a device's memory that one allocation of a claim consumes.
type Claim struct {
	// ID identifies the allocation. If several containers share an allocation, each container gets
	// an equal part of the memory.
	ID    string
	Bytes int64
}
