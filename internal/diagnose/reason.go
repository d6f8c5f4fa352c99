package diagnose

// Reason says why a signal is missing.
type Reason uint8

const (
	// None is the reason of a signal that the exporter gives.
	None Reason = iota
	// NotInCSV fields are nowhere in the scrape.
	NotInCSV
	// NoValue fields are listed, but the exporter has no value: DCGM's sentinel,
	// NaN, a number that cannot be true, or HELP and TYPE without a row.
	NoValue
	// NoEvent is an XID row that has not come; exporters of 4.x show it only
	// after the first error.
	NoEvent
	// NoProfiling means that profiling fields are listed and none has a value.
	NoProfiling
	// MIG signals are not measured while the board is cut into instances, or not
	// on this instance.
	MIG
	// VGPU signals are not measured in the guest of a virtual GPU.
	VGPU
	// Driver means that the driver does not give the field on MIG instances.
	Driver
	// OldExporter means that the exporter is too old.
	OldExporter
	// OthersOnly means that only devices of another model or kind show the field.
	OthersOnly
	// Sensor means that the board lacks the sensor.
	Sensor
	// Link means that the model lacks the link.
	Link
	// NoCounter means that NVLinks of the model's generation do not count that.
	NoCounter
	// Capacity means that the capacity of the link, or of the memory, is unknown.
	Capacity
	// Unit means that nothing in the scrape tells a ratio from a percentage.
	Unit
	// Free devices have no holder.
	Free
	// NoPodLabels means that no row names a pod.
	NoPodLabels
	// Copied means that rows name holders of several devices, and none shows which one holds this one.
	Copied
	// Reserved means that rows name a reservation pod, whose group holds the device in its place.
	Reserved
	// NoProcessRows means that no pod has rows of its own beside the device's.
	NoProcessRows
	// Unprofiled means that DCGM does not profile the model.
	Unprofiled
	// Bridge means that the model has NVLink only over a bridge, which nothing shows.
	Bridge
	// NotExposed signals are of fields that another exporter than dcgm-exporter does not show.
	NotExposed
	// Vendor means that this exporter gives the signal of no device, as others do.
	Vendor
	// Frozen fields are 0 because the profiler has stopped: the device is busy.
	Frozen
	// NumReasons is one more than the highest reason.
	NumReasons
)

// reasons has the reasons' codes, what they say to a person, and which are lasting.
var reasons = [...]struct {
	code, text string
	lasting    bool
}{
	None:          {"", "", false},
	NotInCSV:      {"not_in_csv", "not in the exporter's csv", false},
	NoValue:       {"no_value", "the exporter has no value: not supported, or not yet", false},
	NoEvent:       {"no_event", "no XID error since the exporter started, or not in its csv", false},
	NoProfiling:   {"no_profiling", "DCGM's profiling does not work on this GPU", false},
	MIG:           {"mig", "not measured under MIG", true},
	VGPU:          {"vgpu", "not measured in a vGPU guest", true},
	Driver:        {"driver", "driver 535 does not give it on MIG instances", false},
	OldExporter:   {"exporter", "the exporter is too old: 4.x has the field", false},
	OthersOnly:    {"others_only", "not supported by this model; others of the exporter show it", true},
	Sensor:        {"sensor", "reads 0: there is no such sensor", true},
	Link:          {"link", "the model has no NVLink", true},
	NoCounter:     {"no_counter", "NVLinks of this generation do not count that", true},
	Capacity:      {"capacity", "the capacity is unknown", false},
	Unit:          {"unit", "0 to 1 or 0 to 100? nothing in the scrape tells", false},
	Free:          {"free", "nobody holds the device", true},
	NoPodLabels:   {"no_pod_labels", "no pod uses a GPU, or pods are not mapped", false},
	Copied:        {"copied", "rows repeat the holders of several devices, so the holder of this device is ambiguous", true},
	Reserved:      {"reserved", "rows name a reservation pod instead of the pods that share the device", true},
	NoProcessRows: {"no_process_rows", "no rows per process", false},
	Unprofiled:    {"unprofiled", "DCGM does not profile this model", true},
	Bridge:        {"bridge", "the model has NVLink only over a bridge, and no row shows one", true},
	Vendor:        {"vendor", "this vendor's exporter gives it of no device", true},
	Frozen:        {"frozen", "0 although the GPU is busy: DCGM's profiler has stopped", false},
	NotExposed:    {"not_exposed", "the exporter does not show it: switched off in its configuration, or not supported by the model", false},
}

// String returns the reason's code, empty for None.
func (r Reason) String() string { return reasons[r].code }

// Text says the reason to a person, without a capital and a full stop.
func (r Reason) Text() string { return reasons[r].text }

// ParseReason returns the reason with that code; false when there is none.
func ParseReason(code string) (Reason, bool) {
	for r := None + 1; r < NumReasons; r++ {
		if reasons[r].code == code {
			return r, true
		}
	}
	return None, false
}

// Lasting reasons lie in the hardware or in how it is used: nothing about the
// exporter changes them.
func (r Reason) Lasting() bool { return reasons[r].lasting }
