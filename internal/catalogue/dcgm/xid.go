package dcgm

import "slices"

// The following constants identify the edition of NVIDIA's XID catalog on which the table is based.
// This edition was still current in July 2026, when the documentation for driver 610 was published.
const (
	// XIDCatalogueDate is the date of the catalog's last change.
	XIDCatalogueDate = "2025-09-30"
	// XIDCatalogueURL is the URL of the catalog.
	XIDCatalogueURL = "https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html"
)

// Action is the immediate action that NVIDIA's catalog recommends after an XID.
type Action uint8

const (
	// ActionUnstated means that the catalog names no action.
	ActionUnstated Action = iota
	// ActionNone means that no immediate action is required.
	ActionNone
	// ActionRestartApp recommends restarting the program that used the GPU.
	ActionRestartApp
	// ActionRestartVM recommends restarting the virtual machine that uses the GPU.
	ActionRestartVM
	// ActionResetGPU recommends resetting the GPU.
	ActionResetGPU
	// ActionRebootNode recommends rebooting the node.
	ActionRebootNode
	// ActionCheckConnections recommends checking that the board is seated correctly and that its
	// cables are connected.
	ActionCheckConnections
	// ActionUpdateSoftware recommends updating the driver and the firmware.
	ActionUpdateSoftware
	// ActionWorkflow recommends following an NVIDIA workflow that depends on more than the XID
	// code; see XID.Note.
	ActionWorkflow
	// ActionContactSupport recommends contacting the hardware vendor's support.
	ActionContactSupport
)

// actions maps each action to its lowercase name in the catalog and to the advice for users.
var actions = [...]struct{ name, advice string }{
	ActionUnstated:         {"unstated", "the catalogue names no action"},
	ActionNone:             {"none", "nothing"},
	ActionRestartApp:       {"restart_app", "restart the application"},
	ActionRestartVM:        {"restart_vm", "restart the virtual machine"},
	ActionResetGPU:         {"reset_gpu", "reset the GPU"},
	ActionRebootNode:       {"reboot_node", "reboot the node"},
	ActionCheckConnections: {"check_connections", "check the board's seat and cables"},
	ActionUpdateSoftware:   {"update_software", "update driver and firmware"},
	ActionWorkflow:         {"workflow", "follow NVIDIA's workflow"},
	ActionContactSupport:   {"contact_support", "contact support"},
}

// String returns the machine-readable name of the action, such as reset_gpu.
func (a Action) String() string { return actions[a].name }

// Advice returns the action in words, such as "reset the GPU".
func (a Action) Advice() string { return actions[a].advice }

// XID is the entry for one code in NVIDIA's catalog.
type XID struct {
	Code int
	// Meaning describes the error in a few words.
	Meaning string
	// Action is the immediate action that the catalog recommends.
	Action Action
	// Note explains what the action depends on, or contains additional advice. Note is usually
	// empty.
	Note string
	// Fatal is true if the error persists until the GPU is reset or the node is rebooted.
	Fatal bool
	// Undecided is true if the code alone does not determine whether the error is fatal.
	Undecided bool
}

// Advice returns the recommended action in a few words.
func (x XID) Advice() string {
	switch {
	case x.Note == "":
		return x.Action.Advice()
	case x.Action == ActionWorkflow || x.Action == ActionUnstated:
		return x.Note
	}
	return x.Action.Advice() + "; " + x.Note
}

// ShortAdvice returns a version of Advice that is short enough for a table cell.
func (x XID) ShortAdvice() string {
	switch {
	case x.Action != ActionWorkflow:
		return x.Action.Advice()
	case x.Fatal:
		return ActionResetGPU.Advice()
	}
	return "see the details"
}

// XIDByCode returns the catalog entry for a code, or false if the catalog does not list the code.
func XIDByCode(code int) (XID, bool) {
	if code < 1 || code >= len(xids) {
		return XID{}, false
	}
	return xids[code], true
}

// XIDs returns the catalog entries in ascending order of their codes.
func XIDs() []XID { return slices.Clone(xids[1:]) }

// xidRows contains NVIDIA's catalog. Codes that have the same entry share a row.
var xidRows = []struct {
	action        Action
	codes         []int
	meaning, note string
}{
	{ActionRestartApp, []int{8}, "GPU stopped processing", ""},
	{ActionRestartApp, []int{11, 25, 32}, "invalid or corrupted push buffer stream", ""},
	{ActionRestartApp, []int{13}, "graphics engine exception", "the usual cause is an illegal access or instruction in the program"},
	{ActionRestartApp, []int{31}, "GPU memory page fault", "the usual cause is an illegal address in the program"},
	{ActionRestartApp, []int{39, 40, 41, 70, 71, 72, 75, 76, 77, 85, 126, 127, 128, 129, 130, 131, 132, 133, 134, 135}, "copy engine error", ""},
	{ActionRestartApp, []int{60}, "video processor exception", ""},
	{ActionRestartApp, []int{68, 83, 84, 88, 89, 96, 97, 98}, "video decoder error", ""},
	{ActionRestartApp, []int{69}, "graphics engine class error", ""},
	{ActionRestartApp, []int{80}, "corrupted data sent to the GPU", ""},
	{ActionRestartApp, []int{82, 99, 100, 101, 102, 103, 104, 105}, "JPEG decoder error", ""},
	{ActionRestartApp, []int{86, 139}, "optical flow accelerator error", ""},
	{ActionRestartApp, []int{94}, "contained memory error", "other programs on the GPU continue"},
	{ActionRestartVM, []int{151}, "key rotation error", ""},

	{ActionResetGPU, []int{46}, "GPU stopped processing", ""},
	{ActionResetGPU, []int{62}, "internal microcontroller halt", ""},
	{ActionResetGPU, []int{64}, "GPU memory remapping failed", "if the error occurs again, contact support"},
	{ActionResetGPU, []int{95}, "uncontained memory error", "all programs on the GPU are affected"},
	{ActionResetGPU, []int{109}, "context switch timeout", ""},
	{ActionResetGPU, []int{110}, "security fault", ""},
	{ActionResetGPU, []int{119}, "timeout of a call to the GPU system processor", ""},
	{ActionResetGPU, []int{120}, "GPU system processor error", ""},
	{ActionResetGPU, []int{136}, "link training failed", ""},
	{ActionResetGPU, []int{140}, "unrecovered ECC error", "if the error occurs again, contact support"},
	{ActionResetGPU, []int{143}, "GPU initialization error", ""},
	{ActionResetGPU, []int{155}, "NVLink error defined by software, such as a link that was taken down", ""},
	{ActionResetGPU, []int{156}, "resource retired", ""},
	{ActionResetGPU, []int{158}, "fatal timeout of the GPU", ""},
	{ActionRebootNode, []int{79}, "GPU has fallen off the bus", "if the error occurs again, contact support"},

	{ActionWorkflow, []int{45}, "channel removed after earlier errors", "follow the other XIDs; if there are none, restart the fabric manager"},
	{ActionWorkflow, []int{48}, "double-bit ECC error", "reset the GPU (with XID 63 or 64, drain it first); if SRAM errors exceed the threshold, replace it"},
	{ActionWorkflow, []int{74}, "NVLink error", "reset the GPU or reboot the node, depending on the registers in the message; if the error occurs again, contact support"},
	{ActionWorkflow, []int{144, 146, 149}, "NVLink 5 error", "the message decides: nothing, or reset the GPU"},
	{ActionWorkflow, []int{145}, "NVLink 5 error", "the message decides: nothing, restart the application, or reset the GPU"},
	{ActionWorkflow, []int{147, 148}, "NVLink 5 error", "nothing, regardless of the message"},
	{ActionWorkflow, []int{150}, "NVLink 5 firmware error", "always reset the GPU, regardless of the message"},
	{ActionWorkflow, []int{154}, "recovery action changed", "the message names the action, which covers the adjacent XIDs"},
	{ActionWorkflow, []int{159}, "CHI non-data error", "reset the GPU if it uses unified memory or vGPU, otherwise nothing"},

	{ActionNone, []int{14}, "injected error", ""},
	{ActionNone, []int{37, 38}, "driver firmware error", ""},
	{ActionNone, []int{43}, "GPU stopped processing for a program", "the program ended because of its own fault, and the GPU is healthy"},
	{ActionNone, []int{44}, "graphics engine fault during a context switch", ""},
	{ActionNone, []int{63}, "GPU memory remapped", "it takes effect at the next reset"},
	{ActionNone, []int{66, 67}, "illegal access by the driver", ""},
	{ActionNone, []int{92}, "many single-bit ECC errors", ""},
	{ActionNone, []int{93}, "wear limit of the InfoROM exceeded", ""},
	{ActionNone, []int{106, 107}, "SMBPBI test message", ""},
	{ActionNone, []int{108}, "NVLink remote translation error", ""},
	{ActionNone, []int{121}, "corrected C2C error", "a later reset retrains the link"},
	{ActionNone, []int{137}, "NVLink privilege error", "the usual cause is an illegal peer access in the program"},
	{ActionNone, []int{141}, "CUDA fast path error", ""},
	{ActionNone, []int{152, 153}, "deep learning accelerator error", ""},
	{ActionNone, []int{157}, "retirement of a resource failed", "work continues, and the XID may occur again"},
	{ActionNone, []int{160}, "memory channel retired", ""},
	{ActionNone, []int{161}, "retirement of a memory channel failed", ""},

	{ActionCheckConnections, []int{54}, "auxiliary power is not connected", ""},
	{ActionUpdateSoftware, []int{78}, "vGPU start error", ""},
	{ActionContactSupport, []int{142}, "video encoder error", ""},
	{ActionContactSupport, []int{
		1, 2, 3, 4, 5, 6, 7, 9, 10, 12, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 26, 27, 28, 29, 30, 33, 34, 35, 36, 42, 47, 49, 50,
		51, 52, 53, 55, 56, 57, 58, 59, 61, 65, 73, 81, 87, 90, 91, 111, 112, 113, 114, 115, 116, 117, 118, 122, 123, 124, 125, 138,
	}, "not used by Ampere and newer GPUs", ""},

	{ActionUnstated, []int{162}, "power smoothing is on again", ""},
	{ActionUnstated, []int{163}, "power smoothing is off", "no reset is needed; heat or a timeout turned it off"},
	{ActionUnstated, []int{164}, "power smoothing is near the end of its life", "if power smoothing is needed, replace the GPU"},
	{ActionUnstated, []int{165}, "power smoothing is at the end of its life", "if power smoothing is needed, replace the GPU"},
	{ActionUnstated, []int{166, 170}, "NVLink error in confidential computing", ""},
	{ActionUnstated, []int{167}, "fatal PCIe timeout", ""},
	{ActionUnstated, []int{168}, "error in write-protected memory", "enable ECC"},
	{ActionUnstated, []int{169}, "internal microcontroller halt", ""},
	{ActionUnstated, []int{171}, "uncorrectable DRAM error", "see XID 48, whose action depends on this XID"},
	{ActionUnstated, []int{172}, "uncorrectable SRAM error", "see XID 48, whose action depends on this XID"},
}

// lastXID is the highest code in the catalog.
const lastXID = 172

var (
	// fatalWorkflows are the codes whose workflow always ends in a reset or a reboot.
	fatalWorkflows = []int{48, 74, 150}
	// undecided contains the codes for which the message or the use of the GPU determines whether a
	// reset is needed. The list also contains the codes of two failures for which the catalog names
	// no action.
	undecided = []int{144, 145, 146, 149, 154, 159, 167, 169}
)

// xids contains the catalog entries indexed by code. No XID has the code 0.
var xids = func() (table [lastXID + 1]XID) {
	for _, r := range xidRows {
		for _, code := range r.codes {
			table[code] = XID{
				Code: code, Meaning: r.meaning, Action: r.action, Note: r.note,
				Fatal:     r.action == ActionResetGPU || r.action == ActionRebootNode || slices.Contains(fatalWorkflows, code),
				Undecided: slices.Contains(undecided, code),
			}
		}
	}
	return table
}()
