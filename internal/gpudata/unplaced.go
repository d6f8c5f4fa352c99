package gpudata

// Unplaced is a process from an exporter that may not identify the process's device. The gpu_k8s
// processor finds the device and moves the process to the device.
type Unplaced struct {
	Process
	// Exporter identifies the exporter. Two exporters on a node may list the same processes.
	Exporter string
	// Named contains what the exporter exposes about the device.
	Named NamedDevice
}

// NamedDevice contains what an exporter exposes about a device. If a value is unknown, its field is
// empty. Often, all fields are empty.
type NamedDevice struct {
	// Board is the board's hw.id, MIGUUID is the MIG device's UUID, and Name is the board's name in
	// the operating system.
	Board, MIGUUID, Name string
}
