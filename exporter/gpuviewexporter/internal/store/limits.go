package store

// Limit is a limit above which points are refused.
type Limit struct {
	// Component is the id of the component that enforces the limit.
	Component string `json:"component"`
	// Setting is the name of the setting that can raise the limit. It is empty if the limit is a
	// constant.
	Setting string `json:"setting,omitempty"`
	// Limit is the maximum number of items. Of is the kind of these items.
	Limit int    `json:"limit"`
	Of    string `json:"of"`
}

// The following constants are the indexes of a store's limits. The settings determine the limits
// for devices and holders. The other limits are constants that no healthy fleet reaches.
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
	// maxResources limits the number of Kubernetes resource names.
	maxResources = 1000
	// maxExporters limits the number of exporters whose state is stored.
	maxExporters = 10_000
	// maxCodes limits the number of XID codes per device.
	maxCodes = 64
	// maxClaims limits the number of devices that are allocated to claims.
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

// refuse records that a limit refused a point. The first refusal, and the first refusal after each
// period without refusals, is added to the limits that Reached returns.
func (b *Batch) refuse(limit int) Outcome {
	if last := b.s.refused[limit]; last == 0 || b.now-last > b.s.stale() {
		b.reached = append(b.reached, b.s.limits[limit])
	}
	b.s.refused[limit] = b.now
	return Refused
}

// Reached returns the limits that began to refuse points in this batch after a period
// without refusals.
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
