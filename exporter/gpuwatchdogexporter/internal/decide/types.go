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

// Reading is a number of bytes with the timestamp of its sample. The zero value means that nothing
// was observed.
type Reading struct {
	Bytes int64
	At    time.Time
}

// Holder is a container that, according to telemetry, uses the device.
type Holder struct {
	gpudata.Holder
	Usage, Budget Reading
	Source        gpushare.BudgetSource // source of the budget
}

// Attribution indicates whether the memory usage of the containers adds up to the memory usage of
// the device.
type Attribution uint8

// The states of gpu.memory.attribution.state.
const (
	Invalid Attribution = iota
	Partial
	Valid
)

// Sample is the state of a device at a point in time, according to telemetry.
type Sample struct {
	At                     time.Time
	Headroom, Usage, Limit int64 // free, used and total memory, in bytes
	Attribution            Attribution
	Conflict               bool // two different values of a series had the same timestamp
	Holders                []Holder
	// Moved is the time at which the board's energy counter last changed, or zero if there is no
	// counter. If the exporter repeats old values, the readings may be as old as Moved.
	Moved time.Time
	// Spare maps the UID of a pod to the unused part of the pod's shared budgets. Spare includes
	// the unused part on the pod's other devices and in other pods that use the same claim. The
	// pod's own share on this device is not included.
	Spare map[string]int64
	// Processes maps the UID of a pod to the number of the pod's processes on the device. A pod
	// that is not in any process list has no entry.
	Processes map[string]int
	// Annotated maps the UID of a pod to the sum of the pod's budgets on all devices, as declared
	// in the user's annotation.
	Annotated map[string]int64
}

// Pod is the current state of a pod, as read from the API server.
type Pod struct {
	Found       bool // a pod with the requested name exists
	UID, Node   string
	Running     bool // phase Running
	Started     time.Time
	Terminating bool // The pod has a deletion timestamp.
	Mirror      bool // The pod is a static pod.
	Protected   bool // The pod has the label that protects pods from eviction.
	Priority    int32
	Owner       string // The controller in the form namespace/kind/name, or empty.
	OwnerKind   string // The kind of the controller.
	// Budgets contains the budgets that the pod currently declares.
	Budgets []gpushare.Budget
}

// Policy contains the rules for decisions. Sizes are in bytes.
type Policy struct {
	DryRun            bool
	Interval          time.Duration // The time between evaluations.
	Floor, ClearFloor int64         // A breach starts if the free memory is less than Floor, and ends if the free memory is at least ClearFloor.
	Breaches          int           // The number of consecutive breaches that are required before an action.
	DeviceCooldown    time.Duration
	OwnerCooldown     time.Duration
	MaxActionsPerHour int
	MinPodAge         time.Duration
	Namespaces        []string // The namespaces whose pods may be evicted.
	Denied            []string // The elements of Namespaces in which a permission is missing.
	OwnerKinds        []string // The kinds of controllers whose pods may be evicted.
	MaxPriority       int32    // The highest priority that a pod may have to be eligible for eviction.
	MaxDataAge        time.Duration
	MinOvershoot      int64                   // The minimum overshoot for each process of the pod.
	MinOvershootRatio float64                 // The minimum overshoot as a fraction of the budget.
	BudgetSources     []gpushare.BudgetSource // The sources of the budgets that are enforced by evicting pods.
	Annotation        bool                    // Whether Pod.Budgets includes the budgets from the user's annotation.
}

// Breach is the state of a device that is kept between evaluations.
type Breach struct {
	Count  int            `json:"count"`            // The number of consecutive breaches, capped at Policy.Breaches.
	LastAt time.Time      `json:"last_at,omitzero"` // The timestamp of the last evaluated sample.
	Over   map[string]int `json:"over,omitempty"`   // The number of consecutive breaches in which a pod was over its budget, keyed by pod UID.
	Doubt  Reason         `json:"doubt,omitempty"`  // The reason why no decision was made from the last sample, or empty.
	Floor  int64          `json:"floor,omitempty"`  // The value of Policy.Floor when the breaches were counted.
	// ClearSince is the time of the first sample at or above the clear floor since the last sample
	// below the floor. If the free memory has not reached the clear floor, or if the last sample
	// was below the floor or unusable, ClearSince is zero.
	ClearSince time.Time `json:"clear_since,omitzero"`
}

// Action is an eviction. In a dry run, the eviction was only reported.
type Action struct {
	// ID identifies the action. The ID stays the same if At is adjusted because the clock was set.
	// Actions that an earlier version recorded have no ID.
	ID        string    `json:"id,omitempty"`
	At        time.Time `json:"at"`
	Device    Device    `json:"device"`
	Namespace string    `json:"namespace"`
	Pod       string    `json:"pod"`
	UID       string    `json:"uid"`
	Owner     string    `json:"owner"`
	DryRun    bool      `json:"dry_run,omitempty"`
	// Ended is true if the shortage ended after the action. A shortage ends if the device's free
	// memory reaches the clear floor and then does not fall below the floor for the length of the
	// owner's cool-down.
	Ended bool `json:"ended,omitempty"`
}

// A State is passed from one evaluation to the next. State contains the breach of one device, the
// watchdog's own actions on all devices, and the actions that all watchdogs in the cluster
// recorded. A State is never modified in place.
type State struct {
	Breach   Breach
	Actions  []Action
	Recorded []Action
}

// Input contains the data from which a device is evaluated.
type Input struct {
	Device Device
	Sample *Sample        // The sample is nil if no complete sample is available.
	Pods   map[string]Pod // The pods that were read from the API server, keyed by the UID in telemetry.
}

// Victim is a pod that is over its budget. Usage and Budget are sums over the pod's containers that
// use the device and have a budget. Overshoot is Usage minus Budget, minus the unused part of
// shared budgets on other devices and in other pods.
type Victim struct {
	Namespace, Pod, UID      string
	Usage, Budget, Overshoot int64
	Processes                int // the number of processes on the device, at least one for each container that uses memory
}

// Decision is the outcome of an evaluation, together with the numbers that explain the outcome.
type Decision struct {
	Device                 Device
	Reason                 Reason
	Headroom, Usage, Limit int64   // Sizes in bytes, or 0 if there is no usable sample.
	Breaches               int     // The number of consecutive breaches so far.
	Unbudgeted             int64   // The number of bytes that containers without a budget use.
	Victim                 *Victim // The pod that Reason refers to, or nil.
	Action                 *Action // The action to carry out, or nil. The new state already contains the action.
}
