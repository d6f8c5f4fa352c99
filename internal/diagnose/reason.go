package diagnose

import "github.com/otelcol-gpu/otelcol-gpu/internal/signal"

// Reason is why a signal is missing. Its code is the value of the `reason` attribute of
// gpu.signal.available. A Verdict's text is more detailed.
type Reason uint8

const (
	// None is the reason for signals that are not missing.
	None Reason = iota
	// NotInCSV signals need fields that are not in the exporter's CSV file, or that the exporter is
	// too old to support.
	NotInCSV
	// NoValue signals need fields for which the exporter has no value.
	NoValue
	// NoEvent signals count XID errors, and there was no error. Exporters 4.x expose the field only
	// after the first error.
	NoEvent
	// NoProfiling signals need DCGM's profiling, which does not provide any value.
	NoProfiling
	// Frozen signals are 0 although the device is busy, because the profiler has stopped.
	Frozen
	// Unread signals belong to a board that the driver cannot read.
	Unread
	// Hardware signals do not exist for this model, this partition, or this vendor's exporter.
	Hardware
	// Free means that the device has no holder.
	Free
	// NoPodLabels signals need rows that name the pod that holds the device.
	NoPodLabels
	// UnknownScale signals need a scale or a capacity that is unknown.
	UnknownScale
	// NumReasons is one more than the highest reason.
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

// Text describes the reason. It starts with a lowercase letter and has no final period.
func (r Reason) Text() string { return reasons[r].text }

// Lasting reports whether no change to the exporter can remove the reason, because the cause is the
// hardware or the way in which it is used.
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
