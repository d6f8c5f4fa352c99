package diagnose

import "github.com/otelcol-gpu/otelcol-gpu/internal/signal"

// Reason is why a signal is missing. The code of a Reason is the value of the `reason` attribute of
// gpu.signal.available. A Verdict's cause is more specific than the Verdict's Reason.
type Reason uint8

const (
	// None means that the signal is not missing.
	None Reason = iota
	// NotInCSV means that the signal requires a field that is missing from the exporter's CSV file,
	// or that the exporter is too old to support the field.
	NotInCSV
	// NoValue means that the signal requires a field for which the exporter has no value.
	NoValue
	// NoEvent means that the signal counts XID errors and no error has occurred. Exporters 4.x
	// expose the XID field only after the first error.
	NoEvent
	// NoProfiling means that the signal requires DCGM profiling, which provides no values on this
	// device.
	NoProfiling
	// Frozen means that the value is 0 although the device is busy, because the profiler has
	// stopped.
	Frozen
	// Unread means that the driver cannot read the board.
	Unread
	// Hardware means that this model, this partition, or this vendor's exporter does not support
	// the signal.
	Hardware
	// Free means that the device has no holder.
	Free
	// NoPodLabels means that no row names the pod that holds the device.
	NoPodLabels
	// UnknownScale means that the signal cannot be computed because a scale or a capacity is
	// unknown.
	UnknownScale
	// NumReasons is the number of reasons, including None.
	NumReasons
)

// reasons contains the code and the text of each reason. lasting is true if no change to the
// exporter can remove the reason.
var reasons = [NumReasons]struct {
	code, text string
	lasting    bool
}{
	NotInCSV:     {"not_in_csv", "the exporter does not list the field", false},
	NoValue:      {signal.ReasonNoValue, "the exporter has no value: not supported, or not yet", false},
	NoEvent:      {"no_event", "no XID error since the exporter started, or not in its csv", false},
	NoProfiling:  {"no_profiling", "DCGM's profiling does not work on this GPU", false},
	Frozen:       {"frozen", "0 although the GPU is busy: DCGM's profiler has stopped", false},
	Unread:       {signal.ReasonUnread, "power, temperature and clock are 0: the driver cannot read the board", false},
	Hardware:     {"hardware", "this model, partition or vendor does not support it", true},
	Free:         {"free", "the device has no holder", true},
	NoPodLabels:  {"no_pod_labels", "no row names the pod that holds the device", false},
	UnknownScale: {"unknown_scale", "its scale or its capacity is unknown", false},
}

// String returns the reason's code, or "" for None.
func (r Reason) String() string { return reasons[r].code }

// Text describes the reason. The description starts with a lowercase letter and does not end with a
// period.
func (r Reason) Text() string { return reasons[r].text }

// Lasting reports whether the hardware or its use causes the reason, so that no exporter
// configuration can remove the reason.
func (r Reason) Lasting() bool { return reasons[r].lasting }

// ParseReason returns the reason with the given code, or false if there is none.
func ParseReason(code string) (Reason, bool) {
	for r := None + 1; r < NumReasons; r++ {
		if reasons[r].code == code {
			return r, true
		}
	}
	return None, false
}
