package store

// Limit is a bound on what the store keeps.
type Limit uint8

// The limits. Devices and holders are bounded by settings, the others by constants
// that no healthy fleet comes near.
const (
	DeviceLimit Limit = iota
	HolderLimit
	ResourceLimit
	ExporterLimit
	CodeLimit
	// NumLimits is the number of limits.
	NumLimits
)

const (
	// maxResources bounds the Kubernetes resource names.
	maxResources = 1000
	// maxExporters bounds the exporters whose state is known.
	maxExporters = 10_000
	// maxCodes bounds the XID codes of one device.
	maxCodes = 64
)

var limits = [NumLimits]struct{ setting, of string }{
	DeviceLimit:   {"max_devices", "boards and MIG instances"},
	HolderLimit:   {"max_holders", "containers on devices"},
	ResourceLimit: {"", "Kubernetes resource names"},
	ExporterLimit: {"", "exporters"},
	CodeLimit:     {"", "XID codes of one device"},
}

// Setting returns the name of the setting that raises the limit, "" where there is
// none.
func (l Limit) Setting() string { return limits[l].setting }

// Of says what the limit bounds.
func (l Limit) Of() string { return limits[l].of }

// Limit returns how many are kept.
func (s *Store) Limit(l Limit) int {
	return [NumLimits]int{
		DeviceLimit: s.settings.MaxDevices, HolderLimit: s.settings.MaxHolders,
		ResourceLimit: maxResources, ExporterLimit: maxExporters, CodeLimit: maxCodes,
	}[l]
}

// refuse notes that a limit refused a point. The first refusal after a while without one is
// reported.
func (b *Batch) refuse(l Limit) Outcome {
	if last := b.s.refused[l]; last == 0 || b.now-last > b.s.stale() {
		b.reached = append(b.reached, l)
	}
	b.s.refused[l] = b.now
	return Refused
}

// Reached returns the limits that began to refuse points in this batch: those that
// had not refused any for a while.
func (b *Batch) Reached() []Limit { return b.reached }

// Refusing returns the limits that refused points recently.
func (v *View) Refusing() []Limit {
	var out []Limit
	for l, at := range v.s.refused {
		if at != 0 && v.Now-at <= v.s.stale() {
			out = append(out, Limit(l))
		}
	}
	return out
}

// Limit returns how many are kept.
func (v *View) Limit(l Limit) int { return v.s.Limit(l) }
