package decide

import (
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
)

// Device identifies a board or a MIG instance on a node.
type Device struct {
	Node string `json:"node"`
	ID   string `json:"id"` // hw.id
}

// Reading is a number of bytes and its sample time. The zero value means that nothing was observed.
type Reading struct {
	Bytes int64
	At    time.Time
}

// Holder is a container on the device, according to telemetry.
type Holder struct {
	gpudata.Holder
	Usage, Budget Reading
	Source        gpushare.BudgetSource // source of the budget
}

// Attribution reports whether the containers' memory adds up to the device's memory.
type Attribution uint8

// The states of gpu.memory.attribution.state.
const (
	Invalid Attribution = iota
	Partial
	Valid
)

// Sample is the state of a device at one time, according to telemetry.
type Sample struct {
	At                     time.Time
	Headroom, Usage, Limit int64 // free, used and total memory, in bytes
	Attribution            Attribution
	Conflict               bool // a series had two different values at one time
	Holders                []Holder
	// Moved is the time at which the board's energy counter last changed, or zero if there is no
	// counter. The readings may be as old as this time.
	Moved time.Time
	// Spare maps the UID of a pod to the unused part of the budgets that the pod shares. It counts
	// only the pod's other devices, and other pods with the same claim.
	Spare map[string]int64
	// Processes maps the UID of a pod to the number of the pod's processes on the device. A pod
	// that is not in any process list has no entry.
	Processes map[string]int
	// Annotated maps the UID of a pod to the sum of the pod's budgets on all devices, as declared
	// in the user's annotation.
	Annotated map[string]int64
}

// Pod is the current state of a pod in the API server.
type Pod struct {
	Found       bool // a pod with that name exists
	UID, Node   string
	Running     bool // phase Running
	Started     time.Time
	Terminating bool // has a deletion timestamp
	Mirror      bool // is a static pod
	Protected   bool // has the label that prevents evictions
	Priority    int32
	Owner       string // namespace/kind/name of its controller, or empty
	OwnerKind   string // the kind in Owner
	// Budgets are the budgets that the pod declares now.
	Budgets []gpushare.Budget
}

// Policy contains the rules. Sizes are in bytes.
type Policy struct {
	DryRun            bool
	Interval          time.Duration // time between evaluations
	Floor, ClearFloor int64         // free memory at which a breach starts (below) and ends (at or above)
	Breaches          int           // consecutive breaching evaluations before an action
	DeviceCooldown    time.Duration
	OwnerCooldown     time.Duration
	MaxActionsPerHour int
	MinPodAge         time.Duration
	Namespaces        []string // namespaces whose pods may be evicted
	Denied            []string // the Namespaces in which a permission is missing
	OwnerKinds        []string // kinds of controllers that restart an evicted pod
	MaxPriority       int32    // highest priority of a pod that may be evicted
	MaxDataAge        time.Duration
	MinOvershoot      int64                   // minimum overshoot per process of the pod
	MinOvershootRatio float64                 // minimum overshoot as a fraction of the budget
	BudgetSources     []gpushare.BudgetSource // the budget sources for which pods may be evicted
	Annotation        bool                    // Pod.Budgets includes the budgets from the user's annotation
}

// Breach is the stored state of a device.
type Breach struct {
	Count  int            `json:"count"`            // consecutive breaching evaluations, up to Policy.Breaches
	LastAt time.Time      `json:"last_at,omitzero"` // time of the last evaluated readings
	Over   map[string]int `json:"over,omitempty"`   // number of these evaluations in which a pod was over its budget, by pod UID
	Doubt  Reason         `json:"doubt,omitempty"`  // why the last sample suspended the decision, or empty
	Floor  int64          `json:"floor,omitempty"`  // the Policy.Floor during the count
	// ClearSince is the time of the first sample at or above the clear floor since the last sample
	// below the floor. It is zero if the last sample was below the floor or was not usable.
	ClearSince time.Time `json:"clear_since,omitzero"`
}

// Action is an eviction. In a dry run, it is an eviction that was not carried out.
type Action struct {
	// ID identifies the action. It stays the same if At is adjusted because the clock was set.
	// Actions of earlier versions have no ID.
	ID        string    `json:"id,omitempty"`
	At        time.Time `json:"at"`
	Device    Device    `json:"device"`
	Namespace string    `json:"namespace"`
	Pod       string    `json:"pod"`
	UID       string    `json:"uid"`
	Owner     string    `json:"owner"`
	DryRun    bool      `json:"dry_run,omitempty"`
	// Ended is true if the shortage is over. This means that the device's free memory stayed at or
	// above the clear floor for the owner's cool-down after the action.
	Ended bool `json:"ended,omitempty"`
}

// State is passed from one evaluation to the next. It contains the breach of the device, the
// watchdog's own actions on all devices, and the actions that all watchdogs in the cluster
// recorded. It is never modified in place.
type State struct {
	Breach   Breach
	Actions  []Action
	Recorded []Action
}

// Input is the data for an evaluation of a device.
type Input struct {
	Device Device
	Sample *Sample        // nil if there is no sample
	Pods   map[string]Pod // pods that were read from the API server, by the UID in telemetry
}

// Victim is a pod that is over its budget. Its numbers are sums over its containers that are on the
// device and have a budget. The unused part of the same budget on other devices and in other pods
// is subtracted.
type Victim struct {
	Namespace, Pod, UID      string
	Usage, Budget, Overshoot int64
	Processes                int // number on the device; at least one for each container that uses memory
}

// Decision is the outcome of an evaluation, with its numbers.
type Decision struct {
	Device                 Device
	Reason                 Reason
	Headroom, Usage, Limit int64   // bytes, or 0 without a usable sample
	Breaches               int     // consecutive breaching evaluations so far
	Unbudgeted             int64   // bytes used by containers without a budget
	Victim                 *Victim // the pod that Reason refers to, or nil
	Action                 *Action // the action to carry out, which the new state already contains, or nil
}
