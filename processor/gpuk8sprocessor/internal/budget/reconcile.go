package budget

// State describes whether the usage of a device's containers is complete and consistent.
type State uint8

// The states.
const (
	Valid State = iota
	Partial
	Invalid
)

// String returns the state as an attribute value.
func (s State) String() string { return [...]string{"valid", "partial", "invalid"}[s] }

// Reason is the reason for a state. Each reason leads to exactly one state.
type Reason uint8

// The reasons.
const (
	// AddsUp means that all holders are known, and that the sum of the users' usage equals the
	// device's usage within the tolerance.
	AddsUp Reason = iota
	// HoldersUnknown means that no source reports the holders of the device.
	HoldersUnknown
	// DeviceUnknown means that the device's usage is unknown.
	DeviceUnknown
	// UsageMissing means that all holders are known, but the usage of a user is unknown.
	UsageMissing
	// Unexplained means that the device's usage exceeds the sum of its users' usage by more than
	// the tolerance.
	Unexplained
	// FalseZero means that the usage of every user is 0 even though the device is in use.
	FalseZero
	// AboveDevice means that a value exceeds the size of the device.
	AboveDevice
	// SumAboveDevice means that the sum of the users' usage exceeds the device's size, or exceeds
	// the device's usage by more than the tolerance.
	SumAboveDevice
	// DeadSlots means that the sum of the users' usage is too high, as in SumAboveDevice, but that
	// all holders are known, and the sum of the holders' usage alone is not too high.
	DeadSlots
	// StaleSource means that the usage of the users is too old to be used.
	StaleSource

	NumReasons
)

var reasonNames = [NumReasons]string{
	"adds_up", "holders_unknown", "device_unknown", "usage_missing", "unexplained",
	"false_zero", "above_device", "sum_above_device", "dead_slots", "stale_source",
}

// String returns the reason as an attribute value.
func (r Reason) String() string { return reasonNames[r] }

// State returns the state that the reason leads to.
func (r Reason) State() State {
	switch {
	case r == AddsUp:
		return Valid
	case r < FalseZero:
		return Partial
	}
	return Invalid
}

// aboveDevice is the maximum ratio of a value to the device's size. The ratio is greater than 1 to
// allow for rounding.
const aboveDevice = 1.05

// Tolerance is the maximum allowed difference between the sum of the users' usage and the device's
// usage.
type Tolerance struct {
	// Process is the amount of unreported memory, in bytes, that each process can use, for example
	// for the CUDA context.
	Process int64 `mapstructure:"process"`
	// Ratio is an additional tolerance, as a fraction of the device's usage.
	Ratio float64 `mapstructure:"ratio"`
}

func (t Tolerance) bytes(d *Device, processes int) float64 {
	return float64(t.Process)*float64(max(processes, 1)) + t.Ratio*float64(max(d.Used, 0))
}

// Result contains the result of [Device.Reconcile] for a device. Each amount is in bytes, or
// Unknown.
type Result struct {
	Reason Reason
	// Declared is the sum of all users' budgets.
	Declared int64
	// Unbudgeted is the total usage of users that have no budget.
	Unbudgeted int64
	// Headroom is the amount of free memory.
	Headroom int64
}

// Possible reports whether the device could hold the given number of bytes.
func (d *Device) Possible(bytes int64) bool {
	return bytes >= 0 && bytes <= maxBytes && (d.Limit <= 0 || float64(bytes) <= aboveDevice*float64(d.Limit))
}

// maxBytes is 1 PiB, which is more memory than any device has.
const maxBytes = 1 << 50

// Reconcile compares the sum of the users' usage with the device's usage, and sets the Result of
// the device. Call Reconcile after [Book.Fill] and [Place.Declare].
func (d *Device) Reconcile(t Tolerance) {
	d.Reason = d.reason(t)
	d.Headroom = Unknown
	switch {
	case d.Free >= 0:
		d.Headroom = d.Free
	case d.Used >= 0 && d.Limit >= 0:
		d.Headroom = max(d.Limit-d.Used, 0)
	}
	d.Declared, d.Unbudgeted = 0, 0
	for _, u := range d.Users {
		switch {
		case u.Budget > 0:
			d.Declared += u.Budget
		case !u.DeclarationsKnown || u.APIServerUnused || u.Unsized:
			d.Declared, d.Unbudgeted = Unknown, Unknown
			return
		case u.Origin == None || u.Origin == Unlisted && d.Reason.State() != Valid:
			d.Unbudgeted = Unknown
		case d.Unbudgeted != Unknown:
			d.Unbudgeted += u.Used
		}
	}
	// If the holders are unknown and there are no users, the sums are unknown rather than 0.
	if !d.HoldersKnown && len(d.Users) == 0 {
		d.Declared, d.Unbudgeted = Unknown, Unknown
	}
	if state := d.Reason.State(); state == Invalid || state == Partial && d.HoldersFromLabels {
		d.Unbudgeted = Unknown
	}
}

func (d *Device) reason(t Tolerance) Reason {
	if d.Impossible || d.Used >= 0 && !d.Possible(d.Used) {
		return AboveDevice
	}
	// Stale usage matters only if the device's usage is unknown or exceeds the tolerance.
	if d.Stale && (d.Used < 0 || float64(d.Used) > t.bytes(d, len(d.Users))) {
		return StaleSource
	}
	var sum, holders int64
	processes, reported, missing := 0, 0, 0
	for _, u := range d.Users {
		switch u.Origin {
		case None:
			missing++
			continue
		case Reported, Observed, FromDevice:
			reported++
		}
		sum += u.Used
		if u.Holds {
			holders += u.Used
		}
		if u.Used > 0 {
			processes++
		}
	}
	sum += d.Other
	processes = max(processes, d.Processes)
	limit := float64(maxBytes)
	if d.Limit > 0 {
		limit = aboveDevice * float64(d.Limit)
	}
	if d.Used < 0 {
		if float64(sum) > limit {
			return SumAboveDevice
		}
		return DeviceUnknown
	}
	// The tolerance for CUDA contexts does not apply here, because CUDA contexts cannot make the
	// sum larger than the device's usage. The tolerance for one process is used instead, because
	// samples can be taken at slightly different times.
	if maxSum := min(float64(d.Used)+t.bytes(d, 1), limit); float64(sum) > maxSum {
		if sum > holders && float64(holders) <= maxSum && d.HoldersKnown {
			return DeadSlots
		}
		return SumAboveDevice
	}
	gap := float64(d.Used - sum)
	if reported > 0 && sum == 0 && missing == 0 && gap > t.bytes(d, 1) {
		return FalseZero
	}
	switch {
	case !d.HoldersKnown:
		return HoldersUnknown
	case missing > 0:
		return UsageMissing
	case gap > t.bytes(d, processes):
		return Unexplained
	}
	return AddsUp
}
