package store

// Limit is a limit that refuses something.
type Limit struct {
	// Component is the id of the component that has it.
	Component string `json:"component"`
	// Setting raises it; empty where nothing does.
	Setting string `json:"setting,omitempty"`
	// Limit is how many items are kept, Of is their kind.
	Limit int    `json:"limit"`
	Of    string `json:"of"`
}

// The limits of a store by position. Devices and holders are bounded by settings, the others by constants
// that no healthy fleet comes near.
const (
	deviceLimit = iota
	holderLimit
	resourceLimit
	exporterLimit
	codeLimit
	numLimits
)

const (
	// maxResources bounds the Kubernetes resource names.
	maxResources = 1000
	// maxExporters bounds the exporters whose state is known.
	maxExporters = 10_000
	// maxCodes bounds the XID codes of one device.
	maxCodes = 64
)

func limits(s Settings) [numLimits]Limit {
	return [numLimits]Limit{
		deviceLimit:   {"gpu_view", "max_devices", s.MaxDevices, "boards and MIG instances"},
		holderLimit:   {"gpu_view", "max_holders", s.MaxHolders, "containers on devices"},
		resourceLimit: {"gpu_view", "", maxResources, "Kubernetes resource names"},
		exporterLimit: {"gpu_view", "", maxExporters, "exporters"},
		codeLimit:     {"gpu_view", "", maxCodes, "XID codes of one device"},
	}
}

// refuse notes that a limit refused a point. The first refusal after a while without one is
// reported.
func (b *Batch) refuse(limit int) Outcome {
	if last := b.s.refused[limit]; last == 0 || b.now-last > b.s.stale() {
		b.reached = append(b.reached, b.s.limits[limit])
	}
	b.s.refused[limit] = b.now
	return Refused
}

// Reached returns the limits that began to refuse points in this batch: those that
// had not refused any for a while.
func (b *Batch) Reached() []Limit { return b.reached }

// Refusing returns the limits that refused points recently.
func (v *View) Refusing() []Limit {
	out := []Limit{}
	for i, at := range v.s.refused {
		if at != 0 && v.Now-at <= v.s.stale() {
			out = append(out, v.s.limits[i])
		}
	}
	return out
}
