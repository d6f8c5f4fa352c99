package synth

// DropReason is the reason why a row or a value of a known field is dropped.
type DropReason uint8

const (
	// DropNone means that the row is an observation.
	DropNone DropReason = iota
	// DropSentinel is one of DCGM's "no value" sentinels.
	DropSentinel
	// DropNoValue is a stale marker or a point without a value.
	DropNoValue
	// DropNotFinite is NaN or infinity.
	DropNotFinite
	// DropAbsurd is an impossible value.
	DropAbsurd
	// DropAmbiguous is a value whose unit cannot be determined from the scrape.
	DropAmbiguous
	// DropNoDevice is a row without a GPU UUID.
	DropNoDevice
	// DropOtherEntity is a row about a link, a switch, or a CPU.
	DropOtherEntity
	// DropDeviceLimit is a row of a new device beyond the limit.
	DropDeviceLimit
	// DropOtherVendor is a row of a GPU that is not NVIDIA's.
	DropOtherVendor
	// DropSecondSource is a row or a sample of a board for which another source is kept.
	DropSecondSource
	// DropAmbiguousDevice is a row whose device number matches no known device, or a row of one of
	// several devices that cannot be distinguished.
	DropAmbiguousDevice
	// DropFuture is a row whose sample time is more than 1 min ahead of the wall clock.
	DropFuture
	// DropImplausible is a ratio that is too far outside [0, 1] to be a rounding error, or a byte
	// rate above the capacity of the link.
	DropImplausible
	// DropFrozen is a 0 from a profiler that has stopped, although the device is busy.
	DropFrozen
	// DropUnread is a value of a board that the driver cannot read.
	DropUnread
	// DropDelta is a point of a Sum with delta temporality.
	DropDelta
	// NumDropReasons is the number of reasons.
	NumDropReasons
)

// String returns the reason as an attribute value of the self-metrics.
func (r DropReason) String() string {
	return [...]string{
		"none", "sentinel", "no_value", "not_finite", "absurd", "ambiguous_unit",
		"no_device", "other_entity", "device_limit", "other_vendor", "second_source", "ambiguous_device",
		"future", "implausible", "frozen", "unread", "delta",
	}[r]
}

// Stats contains the counts since the last call of TakeStats.
type Stats struct {
	// Dropped counts rows, and values computed from several rows, by reason.
	Dropped [NumDropReasons]int64
	// Clamped counts ratios that were clamped to [0, 1].
	Clamped int64
	// ClocksSetBack counts places whose clock was set back.
	ClocksSetBack int
	// Split is true if the fields of one device and sample time were in several batches. It is true
	// only once.
	Split bool
}
