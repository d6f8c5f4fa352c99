package gpudata

// Unplaced is a process as an exporter lists it that may not name the process's device. gpu_k8s
// finds the device and moves the process there.
type Unplaced struct {
	Process
	// Exporter identifies the exporter. Two exporters of one node list the same processes.
	Exporter string
	// Named is what the exporter names of the device.
	Named NamedDevice
}

// NamedDevice is what an exporter names of a device. Empty texts are unknown; often all are.
type NamedDevice struct {
	// Board is the hw.id of the board, MIGUUID the UUID of the MIG device, and Name is the
	// operating system's name of the board.
	Board, MIGUUID, Name string
}
