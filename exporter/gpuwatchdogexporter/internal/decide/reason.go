package decide

// Reason is the outcome of an evaluation.
type Reason string

// These reasons mean that the evaluation requires no action.
const (
	AboveFloor    Reason = "above_floor"    // Enough memory is free.
	BetweenFloors Reason = "between_floors" // After a breach, the device's free memory is no longer below the floor, but still below the clear floor.
	NoNewSample   Reason = "no_new_sample"  // The sample was already evaluated, or its timestamp is too close to that of the last evaluated sample.
)

// These are the reasons why no pod is evicted even though the device is below the floor.
const (
	BreachPending       Reason = "breach_pending"         // The device was not below the floor in enough consecutive evaluations.
	WithinBudget        Reason = "within_budget"          // Every pod is within its budget.
	Unbudgeted          Reason = "unbudgeted"             // Every pod with a budget is within its budget, but pods without a budget use memory.
	BelowMinOvershoot   Reason = "below_min_overshoot"    // A pod is over its budget, but not by more than the minimum overshoot.
	OverBudgetPending   Reason = "over_budget_pending"    // The pod was not over its budget in enough evaluations.
	DeviceCooldown      Reason = "device_cooldown"        // A pod on the device was evicted recently.
	OwnerCooldown       Reason = "owner_cooldown"         // A pod of the same owner was evicted recently on some node.
	HourlyCap           Reason = "hourly_cap"             // The number of actions on all nodes has reached the hourly maximum.
	Ineffective         Reason = "ineffective"            // Earlier evictions of pods of the same owner did not end the shortage.
	EnforcedBudget      Reason = "enforced_budget"        // A pod is over its budget, but the source of the budget is not in budgets::sources.
	NamespaceNotAllowed Reason = "namespace_not_allowed"  // The pod's namespace is not in the namespaces setting.
	Protected           Reason = "protected"              // The pod has the label that protects pods from eviction.
	HighPriority        Reason = "high_priority"          // The pod's priority is above max_priority.
	MirrorPod           Reason = "mirror_pod"             // The pod is a static pod.
	NoOwner             Reason = "no_owner"               // No controller would replace the pod.
	OwnerKind           Reason = "owner_kind_not_allowed" // The kind of the pod's controller is not in owner_kinds.
	PodTooYoung         Reason = "pod_too_young"          // The pod is younger than min_pod_age, or its start time is unknown.
	NotRunning          Reason = "not_running"            // The pod's phase is not Running.
	Terminating         Reason = "terminating"            // The pod is already terminating, so the watchdog waits until the pod is gone.
	PodGone             Reason = "pod_gone"               // The pod no longer exists, was replaced, or is on another node, so the watchdog waits for new telemetry.
)

// These are the reasons why no decision is made because the data is insufficient.
const (
	TelemetryMissing    Reason = "telemetry_missing"    // Some or all of the device's series are missing.
	TelemetryStale      Reason = "telemetry_stale"      // The sample is older than max_data_age.
	TelemetryFrozen     Reason = "telemetry_frozen"     // Samples keep arriving, but the board's energy counter has not changed for longer than max_data_age.
	TelemetryFuture     Reason = "telemetry_future"     // The timestamp of the sample is in the future.
	TelemetryImpossible Reason = "telemetry_impossible" // The values in the sample are impossible or contradict each other.
	AttributionInvalid  Reason = "attribution_invalid"  // The memory usage of the containers is not credible.
	AttributionPartial  Reason = "attribution_partial"  // The memory usage of the containers does not add up to the device's memory usage.
	PodUnknown          Reason = "pod_unknown"          // The pod could not be read from the API server.
	BudgetChanged       Reason = "budget_changed"       // The pod now declares a larger budget than the telemetry shows, or no longer declares a budget.
	ClockStep           Reason = "clock_step"           // The wall clock was set, so breach counts restart.
)

// These reasons mean that the evaluation selected a pod.
const (
	WouldEvict   Reason = "would_evict"   // The pod would be evicted if this were not a dry run.
	Evicted      Reason = "evicted"       // The API server accepted the request.
	Refused      Reason = "refused"       // A PodDisruptionBudget currently prevents the eviction (status 429). The eviction is retried.
	Forbidden    Reason = "forbidden"     // A permission is missing (status 401 or 403). The eviction is retried.
	ActionFailed Reason = "action_failed" // The request failed with another error. If the pod may have been evicted, the request counts as an action.
	StateUnsaved Reason = "state_unsaved" // The action could not be stored beforehand, so the action was not carried out.
)

// These are the reasons why no device was evaluated. NoPermission is also used if only a single pod
// cannot be evicted.
const (
	NotLeader      Reason = "not_leader"      // Another replica acts, or the Lease cannot be acquired.
	NoTelemetry    Reason = "no_telemetry"    // No device is known.
	NoPermission   Reason = "no_permission"   // A permission is missing in the pod's namespace, or in every namespace.
	APIUnavailable Reason = "api_unavailable" // The API server did not respond.
)

// The complete map contains the reasons that mean that the watchdog could evaluate the device and,
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

// Complete reports whether the evaluation was complete. In a complete evaluation, the data was
// fresh and an action would have been possible. An evaluation with the reason AttributionPartial
// also counts as complete, because the data is available and only part of the memory cannot be
// attributed.
func (r Reason) Complete() bool { return complete[r] }

// Recorded reports whether the reason depends on the actions of other watchdogs. A reason that
// depends on other watchdogs may change when the shared record is read again.
func (r Reason) Recorded() bool { return r == OwnerCooldown || r == HourlyCap || r == Ineffective }
