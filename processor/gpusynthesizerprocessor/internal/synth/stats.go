package synth

// DropReason is the reason why a row or a value of a known field was dropped.
type DropReason uint8

const (
	// DropNone means that the row was not dropped.
	DropNone DropReason = iota
	// DropSentinel means that the value is one of the exporter's "no value" sentinels.
	DropSentinel
	// DropNoValue means that the point is a stale marker or has no value.
	DropNoValue
	// DropNotFinite means that the value is NaN or infinite.
	DropNotFinite
	// DropAbsurd means that the value is impossible.
	DropAbsurd
	// DropAmbiguous means that the unit of the value cannot be determined from the scrape.
	DropAmbiguous
	// DropNoDevice means that the row does not identify a device.
	DropNoDevice
	// DropOtherEntity means that the row describes something other than a device, such as a link, a
	// switch, or a CPU.
	DropOtherEntity
	// DropDeviceLimit means that the device is new and the device limit is reached.
	DropDeviceLimit
	// DropOtherVendor means that the row describes a GPU of another vendor.
	DropOtherVendor
	// DropSecondSource means that the samples of the board are taken from another source.
	DropSecondSource
	// DropAmbiguousDevice means that the device number in the row matches no known device, or that
	// the row belongs to one of several devices that cannot be distinguished.
	DropAmbiguousDevice
	// DropFuture means that the sample time is more than 1 minute ahead of the wall clock.
	DropFuture
	// DropImplausible means that a ratio is too far outside [0, 1] to be a rounding error, or that
	// a byte rate exceeds the capacity of the link.
	DropImplausible
	// DropFrozen means that the value is 0 although the device is busy, because the profiler has
	// stopped.
	DropFrozen
	// DropUnread means that the driver cannot read the board.
	DropUnread
	// DropDelta means that the point belongs to a Sum with delta temporality.
	DropDelta
	// NumDropReasons is the number of drop reasons.
	NumDropReasons
)

// String returns the attribute value for the reason in self-metrics.
func (r DropReason) String() string {
	return [...]string{
		"none", "sentinel", "no_value", "not_finite", "absurd", "ambiguous_unit",
		"no_device", "other_entity", "device_limit", "other_vendor", "second_source", "ambiguous_device",
		"future", "implausible", "frozen", "unread", "delta",
	}[r]
}

// Stats contains the counts since the previous call to TakeStats.
type Stats struct {
	// Dropped is the number of dropped rows, and of dropped values that were computed from several
	// rows, by reason.
	Dropped [NumDropReasons]int64
	// Clamped is the number of ratios that were clamped to [0, 1].
	Clamped int64
	// ClocksSetBack is the number of times that the clock of a place was set back.
	ClocksSetBack int
	// Split is true if fields with the same device and sample time arrived in several batches. Only
	// the first split is reported.
	Split bool
}
