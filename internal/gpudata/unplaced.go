package gpudata

// Unplaced is a process from an exporter that may not name the process's device. gpu_k8s finds the
// device and moves the process there.
type Unplaced struct {
	Process
	// Exporter identifies the exporter, because two exporters of one node may list the same
	// processes.
	Exporter string
	// Named describes the device as far as the exporter names it.
	Named NamedDevice
}

// NamedDevice describes a device as an exporter names it. Unknown texts are empty; often all are.
type NamedDevice struct {
	// Board is the hw.id of the board, MIGUUID is the UUID of the MIG device, and Name is the
	// operating system's name for the board.
	Board, MIGUUID, Name string
}
