package budget

// State describes how complete and consistent the containers' usage is.
type State uint8

// The states.
const (
	Valid State = iota
	Partial
	Invalid
)

// String returns the attribute value of the state.
func (s State) String() string { return [...]string{"valid", "partial", "invalid"}[s] }

// Reason is the reason for a state. Each reason belongs to one state.
type Reason uint8

// The reasons.
const (
	// AddsUp means that all holders are known and that the sum of their usage equals the device's
	// usage within the tolerance.
	AddsUp Reason = iota
	// HoldersUnknown means that no source reports the holders of the device.
	HoldersUnknown
	// DeviceUnknown means that the device's usage is unknown.
	DeviceUnknown
	// UsageMissing means that a holder's usage is unknown.
	UsageMissing
	// Unexplained means that the device's usage exceeds the sum of its users' usage by more than
	// the tolerance.
	Unexplained
	// FalseZero means that the usage of every user is 0 although the device is in use.
	FalseZero
	// AboveDevice means that a value exceeds the size of the device.
	AboveDevice
	// SumAboveDevice means that the sum of the users' usage exceeds the device's usage by more than
	// the tolerance.
	SumAboveDevice
	// DeadSlots is like SumAboveDevice, but the sum of the holders' usage alone does not exceed the
	// device's usage.
	DeadSlots
	// StaleSource means that the users' usage is too old.
	StaleSource

	NumReasons
)

var reasonNames = [NumReasons]string{
	"adds_up", "holders_unknown", "device_unknown", "usage_missing", "unexplained",
	"false_zero", "above_device", "sum_above_device", "dead_slots", "stale_source",
}

// String returns the attribute value of the reason.
func (r Reason) String() string { return reasonNames[r] }

// State returns the state to which the reason belongs.
func (r Reason) State() State {
	switch {
	case r == AddsUp:
		return Valid
	case r < FalseZero:
		return Partial
	}
	return Invalid
}

// aboveDevice is the highest allowed ratio of a value to the device's size. It allows for rounding.
const aboveDevice = 1.05

// Tolerance is the largest allowed difference between the sum of the users' usage and the device's
// usage.
type Tolerance struct {
	// Process is the part of a process's memory that its reported usage does not include, such as
	// the CUDA context, in bytes.
	Process int64 `mapstructure:"process"`
	// Ratio is the tolerance as a ratio of the device's usage.
	Ratio float64 `mapstructure:"ratio"`
}

func (t Tolerance) bytes(d *Device, processes int) float64 {
	return float64(t.Process)*float64(max(processes, 1)) + t.Ratio*float64(max(d.Used, 0))
}

// Result contains the state of a device and its sums. Each sum is in bytes or Unknown.
type Result struct {
	Reason Reason
	// Declared is the sum of the budgets.
	Declared int64
	// Unbudgeted is the usage of users without a budget.
	Unbudgeted int64
	// Headroom is the free memory.
	Headroom int64
}

// Possible reports whether the device can contain a number of bytes.
func (d *Device) Possible(bytes int64) bool {
	return bytes >= 0 && bytes <= maxBytes && (d.Limit <= 0 || float64(bytes) <= aboveDevice*float64(d.Limit))
}

// maxBytes is 1 PiB, which is more memory than any device has.
const maxBytes = 1 << 50

// Reconcile compares the sum of the users' usage with the device's usage. Call it after [Book.Fill]
// and [Place.Declare].
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
	// If the holders are unknown and no users are listed, the sums are unknown and not 0.
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
	// If the device's usage is within the tolerance, recent data is not needed.
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
	// CUDA contexts cannot explain a sum above the device's usage. The tolerance for one process
	// allows for samples that were taken at slightly different times.
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
