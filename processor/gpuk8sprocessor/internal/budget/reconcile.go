package budget

// State tells how far the containers' usage can be believed.
type State uint8

// The states.
const (
	Valid State = iota
	Partial
	Invalid
)

// String returns the state as the attribute spells it.
func (s State) String() string { return [...]string{"valid", "partial", "invalid"}[s] }

// Reason says why a state holds. Each reason belongs to one state.
type Reason uint8

// The reasons.
const (
	// AddsUp: all holders are known and their sum is the device's, within tolerance.
	AddsUp Reason = iota
	// HoldersUnknown: nobody tells who holds the device.
	HoldersUnknown
	// DeviceUnknown: the device does not tell what is used of it.
	DeviceUnknown
	// UsageMissing: a holder's usage is not known.
	UsageMissing
	// Unexplained: the device uses more than its users do, beyond tolerance.
	Unexplained
	// FalseZero: every user seems to use nothing, and the device is in use.
	FalseZero
	// AboveDevice: a number above the size of the device.
	AboveDevice
	// SumAboveDevice: the users' sum is above the device's, beyond tolerance.
	SumAboveDevice
	// DeadSlots: as before, and it adds up without those who do not hold the device.
	DeadSlots
	// StaleSource: what was known of the users is too old.
	StaleSource

	NumReasons
)

var reasonNames = [NumReasons]string{
	"adds_up", "holders_unknown", "device_unknown", "usage_missing", "unexplained",
	"false_zero", "above_device", "sum_above_device", "dead_slots", "stale_source",
}

// String returns the reason as the attribute spells it.
func (r Reason) String() string { return reasonNames[r] }

// State returns the state that the reason belongs to.
func (r Reason) State() State {
	switch {
	case r == AddsUp:
		return Valid
	case r < FalseZero:
		return Partial
	}
	return Invalid
}

// aboveDevice is how far above a device's size a number may be for rounding.
const aboveDevice = 1.05

// Tolerance is how far the sum of the users may be from the device's usage.
type Tolerance struct {
	// Process is the memory of each process beyond its own number, for its CUDA context, in
	// bytes.
	Process int64 `mapstructure:"process"`
	// Ratio is a share of the device's usage.
	Ratio float64 `mapstructure:"ratio"`
}

func (t Tolerance) of(d *Device, processes int) float64 {
	return float64(t.Process)*float64(max(processes, 1)) + t.Ratio*float64(max(d.Used, 0))
}

// Result is the verdict on a device, with its sums in bytes, Unknown where they are unknown.
type Result struct {
	Reason Reason
	// Declared is the sum of the budgets.
	Declared int64
	// Unbudgeted is what users without a budget use.
	Unbudgeted int64
	// Headroom is what is free.
	Headroom int64
}

// Possible reports whether a number of bytes can be on the device.
func (d *Device) Possible(bytes int64) bool {
	return bytes >= 0 && bytes <= maxBytes && (d.Limit <= 0 || float64(bytes) <= aboveDevice*float64(d.Limit))
}

// maxBytes is more than any device has: a pebibyte.
const maxBytes = 1 << 50

// Reconcile compares the users' sum with the device. Users and budgets must be
// filled in.
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
		case !u.Declarations || u.Unasked || u.Unsized:
			d.Declared, d.Unbudgeted = Unknown, Unknown
			return
		case u.Origin == None || u.Origin == Unlisted && d.Reason.State() != Valid:
			d.Unbudgeted = Unknown
		case d.Unbudgeted != Unknown:
			d.Unbudgeted += u.Used
		}
	}
	// Nobody knows what is not there.
	if !d.Known && len(d.Users) == 0 {
		d.Declared, d.Unbudgeted = Unknown, Unknown
	}
	if state := d.Reason.State(); state == Invalid || state == Partial && d.Labeled {
		d.Unbudgeted = Unknown
	}
}

func (d *Device) reason(t Tolerance) Reason {
	if d.Impossible || d.Used >= 0 && !d.Possible(d.Used) {
		return AboveDevice
	}
	// A device without usage beyond tolerance needs no recent data.
	if d.Stale && (d.Used < 0 || float64(d.Used) > t.of(d, len(d.Users))) {
		return StaleSource
	}
	var sum, holders int64
	processes, told, missing := 0, 0, 0
	for _, u := range d.Users {
		switch u.Origin {
		case None:
			missing++
			continue
		case Reported, Observed, OfDevice:
			told++
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
	// Above, contexts explain nothing; one process' worth is for samples that are
	// not quite of the same time.
	if most := min(float64(d.Used)+t.of(d, 1), limit); float64(sum) > most {
		if sum > holders && float64(holders) <= most && d.Known {
			return DeadSlots
		}
		return SumAboveDevice
	}
	gap := float64(d.Used - sum)
	if told > 0 && sum == 0 && missing == 0 && gap > t.of(d, 1) {
		return FalseZero
	}
	switch {
	case !d.Known:
		return HoldersUnknown
	case missing > 0:
		return UsageMissing
	case gap > t.of(d, processes):
		return Unexplained
	}
	return AddsUp
}
