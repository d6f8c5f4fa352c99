package synth

// DropReason says why a row of a known field became no observation.
type DropReason uint8

const (
	// DropNone is an observation.
	DropNone DropReason = iota
	// DropSentinel is one of DCGM's "no value" sentinels.
	DropSentinel
	// DropNoValue is a stale marker, or a point without a value.
	DropNoValue
	// DropNotFinite is NaN or an infinity.
	DropNotFinite
	// DropAbsurd is a value that cannot be true.
	DropAbsurd
	// DropAmbiguous is a value whose unit nothing in the scrape settles.
	DropAmbiguous
	// DropNoDevice is a row without a GPU's UUID.
	DropNoDevice
	// DropOtherEntity is a row about a link, a switch or a CPU.
	DropOtherEntity
	// DropDeviceLimit is a row of a new device beyond the limit.
	DropDeviceLimit
	// DropOtherVendor is a row of a GPU that is not NVIDIA's.
	DropOtherVendor
	// DropSecondSource is a row or a sample of a board that another source gives.
	DropSecondSource
	// DropAmbiguousDevice is a row that numbers its device in a way that nothing in the
	// scrape brings together with the device's own number, or one of several devices that
	// nothing tells apart.
	DropAmbiguousDevice
	// DropFuture is a row more than a minute ahead of the wall clock.
	DropFuture
	// DropImplausible is a ratio too far outside of [0, 1] to be rounding, or a byte rate above
	// what the link can carry.
	DropImplausible
	// DropFrozen is a 0 of a profiler that has stopped: the device is busy.
	DropFrozen
	// DropUnread is a value of a board that the driver cannot read.
	DropUnread
	// NumDropReasons is one more than the highest reason.
	NumDropReasons
)

// String names the reason as self-metrics do.
func (r DropReason) String() string {
	return [...]string{
		"none", "sentinel", "no_value", "not_finite", "absurd", "ambiguous_unit",
		"no_device", "other_entity", "device_limit", "other_vendor", "second_source", "ambiguous_device",
		"future", "implausible", "frozen", "unread",
	}[r]
}

// Stats counts what became of the rows since the last call of TakeStats.
type Stats struct {
	// Dropped counts rows, and values made of several rows, by reason.
	Dropped [NumDropReasons]int64
	// Clamped counts ratios that had to be brought into [0, 1].
	Clamped int64
	// ClocksSetBack counts places whose time started again.
	ClocksSetBack int
	// Split says that the fields of a device and time came in several batches. It is set
	// once.
	Split bool
}
