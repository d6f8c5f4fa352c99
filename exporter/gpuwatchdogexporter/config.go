package gpuwatchdogexporter

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuwatchdogexporter/internal/decide"
	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper/lease"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
)

// These are the values of the action setting.
const (
	actionEvict  = "evict"  // Evicts the pod using the Eviction API, which respects PodDisruptionBudgets.
	actionDelete = "delete" // Deletes the pod without regard to PodDisruptionBudgets.
)

const (
	minInterval = time.Second
	// maxActionsLimit is the largest valid value of max_actions_per_hour.
	maxActionsLimit = 20
	// maxDuration is the longest valid duration for cool-downs and min_pod_age. Together,
	// maxDuration and maxActionsLimit limit the size of the record in the Lease.
	maxDuration = 24 * time.Hour
)

// CooldownConfig configures how long the watchdog waits after an action.
type CooldownConfig struct {
	// Device is the minimum time between two actions on the same device.
	Device time.Duration `mapstructure:"device"`
	// Owner is the minimum time between two actions on pods with the same owner, on any node.
	Owner time.Duration `mapstructure:"owner"`
}

// OvershootConfig configures how far a pod must exceed its budget before the pod can be evicted.
// The overshoot must exceed both Bytes and Ratio.
type OvershootConfig struct {
	// Bytes is the minimum overshoot in bytes. The minimum is multiplied by the number of processes
	// that the pod runs on the device, because the device's memory usage includes a CUDA context
	// for each process, and a budget usually does not include CUDA contexts.
	Bytes kube.Bytes `mapstructure:"bytes"`
	// Ratio is the minimum overshoot as a fraction of the budget.
	Ratio float64 `mapstructure:"ratio"`
}

// BudgetsConfig selects the budgets that are enforced by evicting pods.
type BudgetsConfig struct {
	// Sources lists values of gpu.memory.budget.source. A pod may be evicted only if the pod
	// exceeds a budget from a source in Sources.
	Sources []string `mapstructure:"sources"`
	// Annotation is the key of the pod annotation that declares budgets with the source
	// "annotation". The budget section of gpu_k8s has a setting with the same meaning. The watchdog
	// reads the annotation again before it evicts a pod. If Annotation is empty, the watchdog
	// relies on the budget in the telemetry.
	Annotation string `mapstructure:"annotation"`
}

// Config configures the gpu_watchdog exporter.
type Config struct {
	// DryRun makes the watchdog report actions without carrying them out.
	DryRun bool `mapstructure:"dry_run"`
	// Interval is the time between two evaluations.
	Interval time.Duration `mapstructure:"interval"`
	// Floor is the minimum amount of free memory. If the device has less free memory than Floor,
	// the evaluation counts as a breach.
	Floor kube.Bytes `mapstructure:"floor"`
	// ClearFloor is the amount of free memory that ends a breach.
	ClearFloor kube.Bytes `mapstructure:"clear_floor"`
	// Breaches is the number of consecutive breaches that are required before the watchdog acts.
	Breaches int `mapstructure:"breaches"`
	// Cooldown is how long the watchdog waits after an action before it may act again.
	Cooldown CooldownConfig `mapstructure:"cooldown"`
	// MaxActionsPerHour is the maximum number of actions per hour, summed over all watchdogs that
	// share a record.
	MaxActionsPerHour int `mapstructure:"max_actions_per_hour"`
	// MinPodAge is the minimum time that a pod must have been running before it may be evicted.
	MinPodAge time.Duration `mapstructure:"min_pod_age"`
	// Namespaces lists the namespaces in which pods may be evicted. If Namespaces is empty, no pod
	// may be evicted.
	Namespaces []string `mapstructure:"namespaces"`
	// OwnerKinds lists the kinds of controllers whose pods may be evicted.
	OwnerKinds []string `mapstructure:"owner_kinds"`
	// MaxPriority is the highest priority that a pod may have to be eligible for eviction.
	MaxPriority int64 `mapstructure:"max_priority"`
	// MaxDataAge is the maximum age of the samples that the watchdog acts on.
	MaxDataAge time.Duration `mapstructure:"max_data_age"`
	// MinOvershoot is the minimum amount by which a pod must exceed its budget before it may be
	// evicted.
	MinOvershoot OvershootConfig `mapstructure:"min_overshoot"`
	// Budgets selects the budgets that are enforced by evicting pods.
	Budgets BudgetsConfig `mapstructure:"budgets"`
	// Action is "evict" or "delete".
	Action string `mapstructure:"action"`
	// LeaderElection configures the election of the replica that acts.
	LeaderElection lease.Config `mapstructure:"leader_election"`
	// SharedRecord configures the Lease in which all watchdogs in the cluster record their actions.
	SharedRecord lease.RecordConfig `mapstructure:"shared_record"`
	// Storage is the storage extension that preserves breach counts, cool-downs and the hourly cap
	// across restarts.
	Storage *component.ID `mapstructure:"storage"`
	// Kubernetes configures the connection to the API server.
	Kubernetes kube.Config `mapstructure:"kubernetes"`

	// prevent unkeyed literal initialization
	_ struct{}
}

func createDefaultConfig() component.Config {
	return &Config{
		DryRun:            true,
		Interval:          time.Minute,
		Floor:             1536 << 20,
		ClearFloor:        2 << 30,
		Breaches:          3,
		Cooldown:          CooldownConfig{Device: 10 * time.Minute, Owner: 30 * time.Minute},
		MaxActionsPerHour: 2,
		MinPodAge:         5 * time.Minute,
		MaxPriority:       1_000_000_000, // the highest priority of user-defined priority classes; system priority classes are higher
		MaxDataAge:        90 * time.Second,
		MinOvershoot:      OvershootConfig{Bytes: 512 << 20, Ratio: 0.05},
		// Controllers of these kinds replace an evicted pod. Jobs are not in the list, because a
		// Job may count an eviction as a failure, and many operators stop a job after a failure.
		OwnerKinds:     []string{"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"},
		Budgets:        BudgetsConfig{Sources: sourceNames(declaredOnly)},
		Action:         actionEvict,
		LeaderElection: lease.NewDefaultConfig("otelcol-gpu-watchdog"),
		SharedRecord:   lease.RecordConfig{Enabled: true, Name: "otelcol-gpu-watchdog-evictions"},
		Kubernetes:     kube.NewDefaultConfig(),
	}
}

// kindForm matches valid kinds of Kubernetes objects.
var kindForm = regexp.MustCompile(`^[A-Z][A-Za-z0-9-]*$`)

// declaredOnly lists the sources of budgets that nothing else enforces while a pod is running.
// HAMi, Koordinator, and MPS are not included, because these systems enforce their own limits on
// the node. Whole devices are not included, because a pod cannot exceed the size of a device.
var declaredOnly = []gpushare.BudgetSource{gpushare.BudgetDRA, gpushare.BudgetKAI, gpushare.BudgetResource, gpushare.BudgetAnnotation}

func sourceNames(sources []gpushare.BudgetSource) (names []string) {
	for _, s := range sources {
		names = append(names, string(s))
	}
	return names
}

// Unmarshal implements confmap.Unmarshaler with [componenthelper.Unmarshal]. If the configuration
// disables leader election, Unmarshal also disables the shared record, unless the configuration
// explicitly enables the shared record. By default, the Lease that contains the record is in the
// same namespace as the Lease for leader election.
func (cfg *Config) Unmarshal(conf *confmap.Conf) error {
	if err := componenthelper.Unmarshal(conf, cfg); err != nil {
		return err
	}
	if !conf.IsSet("shared_record::enabled") {
		cfg.SharedRecord.Enabled = cfg.LeaderElection.Enabled
	}
	if cfg.SharedRecord.Namespace == "" {
		cfg.SharedRecord.Namespace = cfg.LeaderElection.Namespace
	}
	return nil
}

// Validate implements confmap.Validator. Each error contains the field, its value, and the allowed
// values.
func (cfg *Config) Validate() error {
	var p componenthelper.Problems
	p.Check(cfg.Interval >= minInterval && cfg.Interval <= time.Hour,
		"interval is %s: must be %s to 1h; write the unit, as in 60s", cfg.Interval, minInterval)
	p.Check(cfg.Floor.Plausible(), "floor is %s: must be 1Mi to 1Pi, as in 1536Mi", cfg.Floor)
	p.Check(cfg.ClearFloor >= cfg.Floor && cfg.ClearFloor <= kube.MaxBytes,
		"clear_floor is %s: must be floor, %s, to 1Pi", cfg.ClearFloor, cfg.Floor)
	p.Check(cfg.Breaches >= 1 && cfg.Breaches <= 100, "breaches is %d: must be 1 to 100", cfg.Breaches)
	for _, d := range []struct {
		field string
		value time.Duration
	}{
		{"cooldown::device", cfg.Cooldown.Device}, {"cooldown::owner", cfg.Cooldown.Owner}, {"min_pod_age", cfg.MinPodAge},
	} {
		// A duration without a unit is parsed as nanoseconds and is therefore rejected as too
		// short.
		p.Check(d.value == 0 || d.value >= time.Second && d.value <= maxDuration,
			"%s is %s: must be 0s, or 1s to %s; write the unit, as in 10m", d.field, d.value, maxDuration)
	}
	p.Check(cfg.MaxActionsPerHour >= 1 && cfg.MaxActionsPerHour <= maxActionsLimit,
		"max_actions_per_hour is %d: must be 1 to %d; to disable actions, set dry_run", cfg.MaxActionsPerHour, maxActionsLimit)
	p.Check(cfg.DryRun || len(cfg.Namespaces) > 0,
		"namespaces is empty and dry_run is false: must list the namespaces whose pods may be evicted")
	for i, name := range cfg.Namespaces {
		p.Check(len(validation.IsDNS1123Label(name)) == 0, "namespaces[%d] is %q: must be the full name of a namespace", i, name)
	}
	p.Check(len(cfg.OwnerKinds) > 0, "owner_kinds is empty: must list the kinds of controllers whose pods may be evicted, such as StatefulSet")
	for i, kind := range cfg.OwnerKinds {
		p.Check(kindForm.MatchString(kind), "owner_kinds[%d] is %q: must be the kind of a controller, such as StatefulSet", i, kind)
	}
	if a := cfg.Budgets.Annotation; a != "" {
		p.Check(len(validation.IsQualifiedName(a)) == 0, "budgets::annotation is %q: must be the key of an annotation", a)
	}
	record, election := cfg.SharedRecord, cfg.LeaderElection
	p.Check(!record.Enabled || !election.Enabled || record.Name != election.Name || record.Namespace != election.Namespace,
		"shared_record::name is %q: must be another name than leader_election::name, because both are Leases in the same namespace", record.Name)
	known := sourceNames(gpushare.BudgetSources())
	p.Check(len(cfg.Budgets.Sources) > 0, "budgets::sources is empty: must list values of gpu.memory.budget.source; without them, no pod can be over its budget")
	for i, source := range cfg.Budgets.Sources {
		p.Check(slices.Contains(known, source), "budgets::sources[%d] is %q: must be one of %s", i, source, strings.Join(known, ", "))
	}
	p.Check(cfg.MaxDataAge >= time.Second && cfg.MaxDataAge <= time.Hour,
		"max_data_age is %s: must be 1s to 1h; write the unit, as in 90s", cfg.MaxDataAge)
	over := cfg.MinOvershoot.Bytes
	p.Check(over == 0 || over.Plausible(), "min_overshoot::bytes is %s: must be 0, or 1Mi to 1Pi, as in 512Mi", over)
	p.Check(cfg.MaxPriority >= math.MinInt32 && cfg.MaxPriority <= math.MaxInt32,
		"max_priority is %d: must be %d to %d", cfg.MaxPriority, math.MinInt32, math.MaxInt32)
	p.Check(cfg.MinOvershoot.Ratio >= 0 && cfg.MinOvershoot.Ratio <= math.MaxFloat32,
		"min_overshoot::ratio is %g: must be 0 or more, as in 0.05", cfg.MinOvershoot.Ratio)
	p.Check(cfg.Action == actionEvict || cfg.Action == actionDelete,
		"action is %q: must be %s or %s", cfg.Action, actionEvict, actionDelete)
	p.Check(cfg.Kubernetes.AuthType != kube.AuthNone,
		"kubernetes::auth_type is %q: must be %s or %s, because the watchdog reads the pods from the API server",
		kube.AuthNone, kube.AuthServiceAccount, kube.AuthKubeConfig)
	return p.Err()
}

// The policy method converts the configuration into decision rules.
func (cfg *Config) policy() decide.Policy {
	var sources []gpushare.BudgetSource
	for _, s := range cfg.Budgets.Sources {
		sources = append(sources, gpushare.BudgetSource(s))
	}
	return decide.Policy{
		DryRun:            cfg.DryRun,
		Interval:          cfg.Interval,
		Floor:             int64(cfg.Floor),
		ClearFloor:        int64(cfg.ClearFloor),
		Breaches:          cfg.Breaches,
		DeviceCooldown:    cfg.Cooldown.Device,
		OwnerCooldown:     cfg.Cooldown.Owner,
		MaxActionsPerHour: cfg.MaxActionsPerHour,
		MinPodAge:         cfg.MinPodAge,
		Namespaces:        cfg.Namespaces,
		MaxPriority:       int32(cfg.MaxPriority),
		MaxDataAge:        cfg.MaxDataAge,
		MinOvershoot:      int64(cfg.MinOvershoot.Bytes),
		MinOvershootRatio: cfg.MinOvershoot.Ratio,
		OwnerKinds:        cfg.OwnerKinds,
		BudgetSources:     sources,
		Annotation:        cfg.Budgets.Annotation != "",
	}
}
