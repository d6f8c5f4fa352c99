package decide

// Reason is the outcome of an evaluation.
type Reason string

// These are the reasons of evaluations that require no action.
const (
	AboveFloor    Reason = "above_floor"    // enough memory is free
	BetweenFloors Reason = "between_floors" // the device was below the floor and has not reached the clear floor yet
	NoNewSample   Reason = "no_new_sample"  // the sample was already evaluated, or is too close to the last evaluated one
)

// These are the reasons why no pod is evicted although the device is below the floor.
const (
	BreachPending       Reason = "breach_pending"         // the device was not below the floor in enough consecutive evaluations
	WithinBudget        Reason = "within_budget"          // every pod is within its budget
	Unbudgeted          Reason = "unbudgeted"             // every pod with a budget is within it, and other pods use memory without a budget
	BelowMinOvershoot   Reason = "below_min_overshoot"    // pods are over their budget, but not far enough
	OverBudgetPending   Reason = "over_budget_pending"    // the pod was not over its budget in enough evaluations
	DeviceCooldown      Reason = "device_cooldown"        // a pod on the device was evicted recently
	OwnerCooldown       Reason = "owner_cooldown"         // a pod of the same owner was evicted recently, on any node
	HourlyCap           Reason = "hourly_cap"             // the maximum number of actions per hour was reached, across all nodes
	Ineffective         Reason = "ineffective"            // evictions of the pod's owner did not end the shortage
	EnforcedBudget      Reason = "enforced_budget"        // a pod is over a budget whose source is not in budgets::sources
	NamespaceNotAllowed Reason = "namespace_not_allowed"  // the namespace is not in the allow list
	Protected           Reason = "protected"              // the pod has the label that protects it
	HighPriority        Reason = "high_priority"          // the priority is above max_priority
	MirrorPod           Reason = "mirror_pod"             // the pod is a static pod
	NoOwner             Reason = "no_owner"               // no controller would replace the pod
	OwnerKind           Reason = "owner_kind_not_allowed" // a controller of this kind may not replace the pod
	PodTooYoung         Reason = "pod_too_young"          // the pod is younger than min_pod_age
	NotRunning          Reason = "not_running"            // the phase is not Running
	Terminating         Reason = "terminating"            // the pod is already terminating, so wait until it is gone
	PodGone             Reason = "pod_gone"               // the pod in telemetry is gone, was replaced, or is on another node, so wait
)

// These are the reasons why the decision is suspended because the data is not sufficient.
const (
	TelemetryMissing    Reason = "telemetry_missing"    // some or all of the device's series are missing
	TelemetryStale      Reason = "telemetry_stale"      // the sample is older than max_data_age
	TelemetryFrozen     Reason = "telemetry_frozen"     // samples keep arriving, but the board's energy counter has not changed for max_data_age
	TelemetryFuture     Reason = "telemetry_future"     // the sample time is in the future
	TelemetryImpossible Reason = "telemetry_impossible" // values contradict each other or the device's size
	AttributionInvalid  Reason = "attribution_invalid"  // the memory of the containers is not credible
	AttributionPartial  Reason = "attribution_partial"  // the memory of the containers does not add up to the device's memory
	PodUnknown          Reason = "pod_unknown"          // the pod could not be read from the API server
	BudgetChanged       Reason = "budget_changed"       // the pod now declares a larger budget than the telemetry shows, or none
	ClockStep           Reason = "clock_step"           // the wall clock was set, so breach counts restart
)

// These are the reasons of evaluations that selected a pod.
const (
	WouldEvict   Reason = "would_evict"   // dry run
	Evicted      Reason = "evicted"       // the API server accepted the request
	Refused      Reason = "refused"       // a PodDisruptionBudget currently prevents the eviction (429), which is retried
	Forbidden    Reason = "forbidden"     // a permission is missing (403); the eviction is retried
	ActionFailed Reason = "action_failed" // any other error; it counts as an action if it may have been carried out
	StateUnsaved Reason = "state_unsaved" // the action could not be stored beforehand, so it was not carried out
)

// These are the reasons why no device was evaluated. NoPermission may also mean that only one pod
// was skipped.
const (
	NotLeader      Reason = "not_leader"      // another replica acts, or the lease cannot be acquired
	NoTelemetry    Reason = "no_telemetry"    // no device is known
	NoPermission   Reason = "no_permission"   // a permission is missing in the pod's namespace, or in every namespace
	APIUnavailable Reason = "api_unavailable" // the API server did not respond
)

// complete contains the reasons of evaluations in which the watchdog could evaluate the device and,
// if necessary, evict a pod.
var complete = map[Reason]bool{
	AboveFloor: true, BetweenFloors: true, NoNewSample: true,
	BreachPending: true, WithinBudget: true, Unbudgeted: true, BelowMinOvershoot: true, OverBudgetPending: true,
	DeviceCooldown: true, OwnerCooldown: true, HourlyCap: true, Ineffective: true, EnforcedBudget: true,
	NamespaceNotAllowed: true, Protected: true, HighPriority: true, MirrorPod: true, NoOwner: true, OwnerKind: true,
	PodTooYoung: true, NotRunning: true, Terminating: true, PodGone: true,
	AttributionPartial: true,
	WouldEvict:         true, Evicted: true, Refused: true,
}

// Complete reports whether the evaluation was complete, which means that the data was fresh and an
// action would have been possible. An evaluation with AttributionPartial is complete, because the
// data is available and only a part of the memory cannot be attributed.
func (r Reason) Complete() bool { return complete[r] }

// Recorded reports whether the reason depends on the records of other watchdogs. A newer record may
// then lead to a different reason.
func (r Reason) Recorded() bool { return r == OwnerCooldown || r == HourlyCap || r == Ineffective }
