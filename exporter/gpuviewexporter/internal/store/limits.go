package store

// Limit is a limit on the number of items of one kind. If the limit is reached, points of
// additional items are refused.
type Limit struct {
	// Component is the ID of the component that enforces the limit.
	Component string `json:"component"`
	// Setting is the name of the setting that configures the limit. If the limit is a constant,
	// Setting is empty.
	Setting string `json:"setting,omitempty"`
	// Limit is the maximum number of items. Of describes the items that are counted.
	Limit int    `json:"limit"`
	Of    string `json:"of"`
}

// The following constants are indexes into the limits of a store. The limits on devices and holders
// are configurable. The other limits are constants that no healthy fleet reaches.
const (
	deviceLimit = iota
	holderLimit
	resourceLimit
	exporterLimit
	codeLimit
	claimLimit
	numLimits
)

const (
	// maxResources is the maximum number of Kubernetes resource names, and of DeviceClasses.
	maxResources = 1000
	// maxExporters is the maximum number of exporters whose state is stored.
	maxExporters = 10_000
	// maxCodes is the maximum number of XID codes per device.
	maxCodes = 64
	// maxClaims is the maximum number of combinations of a claim, a device and a pod.
	maxClaims = 50_000
)

func limits(s Settings) [numLimits]Limit {
	return [numLimits]Limit{
		deviceLimit:   {"gpu_view", "max_devices", s.MaxDevices, "boards and MIG instances"},
		holderLimit:   {"gpu_view", "max_holders", s.MaxHolders, "containers on devices"},
		resourceLimit: {"gpu_view", "", maxResources, "Kubernetes resource names"},
		exporterLimit: {"gpu_view", "", maxExporters, "exporters"},
		codeLimit:     {"gpu_view", "", maxCodes, "XID codes of one device"},
		claimLimit:    {"gpu_view", "", maxClaims, "devices of claims"},
	}
}

// The refuse method records that a point was refused because of a limit. If no point was recently
// refused because of the same limit, the refuse method also adds the limit to the result of
// Reached.
func (b *Batch) refuse(limit int) Outcome {
	if last := b.s.refused[limit]; last == 0 || b.now-last > b.s.stale() {
		b.reached = append(b.reached, b.s.limits[limit])
	}
	b.s.refused[limit] = b.now
	return Refused
}

// Reached returns the limits that caused points in the batch to be refused after a period without
// refusals.
func (b *Batch) Reached() []Limit { return b.reached }

// Refusing returns the limits that have recently caused points to be refused.
func (v *View) Refusing() []Limit {
	out := []Limit{}
	for i, at := range v.s.refused {
		if at != 0 && v.Now-at <= v.s.stale() {
			out = append(out, v.s.limits[i])
		}
	}
	return out
}
