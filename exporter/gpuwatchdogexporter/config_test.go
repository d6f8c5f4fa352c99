package gpuwatchdogexporter

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"

	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
)

func TestDefaultsEvictNothing(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	cfg.LeaderElection.Namespace, cfg.SharedRecord.Namespace = "monitoring", "monitoring"
	require.NoError(t, confmap.Validate(cfg))
	assert.True(t, cfg.DryRun)
	assert.Empty(t, cfg.Namespaces)
	assert.Equal(t, actionEvict, cfg.Action)
}

// By default, the watchdog does not enforce limits that a scheduler enforces, or the sizes of
// devices, which no pod can exceed.
func TestEnforcedBudgetsAreExcludedByDefault(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	assert.Equal(t, []string{"dra", "kai", "extended_resource", "annotation"}, cfg.Budgets.Sources)
	assert.Equal(t, []string{"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"}, cfg.OwnerKinds)
}

func TestRecordUsesTheElectionNamespace(t *testing.T) {
	for name, tc := range map[string]struct {
		settings  map[string]any
		enabled   bool
		namespace string
	}{
		"by default":                          {map[string]any{}, true, ""},
		"its namespace":                       {map[string]any{"leader_election": map[string]any{"namespace": "monitoring"}}, true, "monitoring"},
		"a separate namespace for the record": {map[string]any{"leader_election": map[string]any{"namespace": "a"}, "shared_record": map[string]any{"namespace": "b"}}, true, "b"},
		"no leases":                           {map[string]any{"leader_election": map[string]any{"enabled": false}}, false, ""},
		"no election":                         {map[string]any{"leader_election": map[string]any{"enabled": false}, "shared_record": map[string]any{"enabled": true}}, true, ""},
		"without leader election, no record":  {map[string]any{"shared_record": map[string]any{"enabled": false}}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := createDefaultConfig().(*Config)
			require.NoError(t, confmap.NewFromStringMap(tc.settings).Unmarshal(cfg))
			assert.Equal(t, tc.enabled, cfg.SharedRecord.Enabled)
			assert.Equal(t, tc.namespace, cfg.SharedRecord.Namespace)
		})
	}
}

func TestSizesAreNumbersOrQuantities(t *testing.T) {
	for name, tc := range map[string]struct {
		value any
		want  kube.Bytes
	}{
		"bytes": {1610612736, 1536 << 20}, "quantity": {"1536Mi", 1536 << 20}, "decimal": {"2G", 2_000_000_000}, "bytes as text": {"1024", 1024},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := createDefaultConfig().(*Config)
			require.NoError(t, confmap.NewFromStringMap(map[string]any{"floor": tc.value}).Unmarshal(cfg))
			assert.Equal(t, tc.want, cfg.Floor)
		})
	}
	// If a quantity overflows int64, its parsed value is arbitrary. For example, 1e30 is parsed as
	// 0.
	for _, text := range []string{"1.5 GiB", "1e30", "10Ei", "-1Gi"} {
		err := confmap.NewFromStringMap(map[string]any{"min_overshoot": map[string]any{"bytes": text}}).Unmarshal(createDefaultConfig())
		require.ErrorContains(t, err, `"`+text+`" is not an amount of memory`)
	}
}

func TestErrorsHaveTheFieldItsValueAndTheAllowedValues(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"dry_run false without namespaces": {
			func(c *Config) { c.DryRun, c.Namespaces = false, nil },
			"namespaces is empty and dry_run is false: must list the namespaces whose pods may be evicted",
		},
		"interval":              {func(c *Config) { c.Interval = 60 }, "interval is 60ns: must be 1s to 1h; write the unit, as in 60s"},
		"floor":                 {func(c *Config) { c.Floor = 0 }, "floor is 0: must be 1Mi to 1Pi, as in 1536Mi"},
		"a floor in MiB":        {func(c *Config) { c.Floor = 1536 }, "floor is 1536: must be 1Mi to 1Pi, as in 1536Mi"},
		"clear floor":           {func(c *Config) { c.ClearFloor = 1 << 30 }, "clear_floor is 1Gi: must be floor, 1536Mi, to 1Pi"},
		"a missing clear floor": {func(c *Config) { c.ClearFloor = 1 << 60 }, "clear_floor is 1Ei: must be floor, 1536Mi, to 1Pi"},
		"breaches":              {func(c *Config) { c.Breaches = 0 }, "breaches is 0: must be 1 to 100"},
		"device cooldown":       {func(c *Config) { c.Cooldown.Device = 10 }, "cooldown::device is 10ns: must be 0s, or 1s to 24h0m0s; write the unit, as in 10m"},
		"owner cooldown":        {func(c *Config) { c.Cooldown.Owner = -time.Second }, "cooldown::owner is -1s"},
		"pod age":               {func(c *Config) { c.MinPodAge = 1000 * time.Hour }, "min_pod_age is 1000h0m0s"},
		"cap":                   {func(c *Config) { c.MaxActionsPerHour = 0 }, "max_actions_per_hour is 0: must be 1 to 20; to disable actions, set dry_run"},
		"a pattern":             {func(c *Config) { c.Namespaces = []string{"team-*"} }, `namespaces[0] is "team-*": must be the full name of a namespace`},
		"data age":              {func(c *Config) { c.MaxDataAge = 90 }, "max_data_age is 90ns: must be 1s to 1h; write the unit, as in 90s"},
		"overshoot":             {func(c *Config) { c.MinOvershoot.Bytes = -1 }, "min_overshoot::bytes is -1: must be 0, or 1Mi to 1Pi, as in 512Mi"},
		"512 MiB":               {func(c *Config) { c.MinOvershoot.Bytes = 512 }, "min_overshoot::bytes is 512: must be 0, or 1Mi to 1Pi, as in 512Mi"},
		"priority":              {func(c *Config) { c.MaxPriority = 3_000_000_000 }, "max_priority is 3000000000: must be -2147483648 to 2147483647"},
		"ratio":                 {func(c *Config) { c.MinOvershoot.Ratio = -0.1 }, "min_overshoot::ratio is -0.1: must be 0 or more, as in 0.05"},
		"a kind":                {func(c *Config) { c.OwnerKinds = []string{""} }, `owner_kinds[0] is "": must be the kind of a controller, such as StatefulSet`},
		"a kind in lowercase":   {func(c *Config) { c.OwnerKinds = []string{"deployment"} }, `owner_kinds[0] is "deployment": must be the kind of a controller`},
		"no kinds":              {func(c *Config) { c.OwnerKinds = []string{} }, "owner_kinds is empty: must list the kinds of controllers"},
		"an annotation":         {func(c *Config) { c.Budgets.Annotation = "bad annot!" }, `budgets::annotation is "bad annot!": must be the key of an annotation`},
		"one Lease for two uses": {func(c *Config) {
			c.LeaderElection.Enabled, c.SharedRecord.Enabled, c.SharedRecord.Name = true, true, c.LeaderElection.Name
		}, `shared_record::name is "otelcol-gpu-watchdog": must be another name than leader_election::name`},
		"a source":      {func(c *Config) { c.Budgets.Sources = []string{"guess"} }, `budgets::sources[0] is "guess": must be one of koordinator_allocation, `},
		"no source":     {func(c *Config) { c.Budgets.Sources = nil }, "budgets::sources is empty: must list values of gpu.memory.budget.source"},
		"a record":      {func(c *Config) { c.SharedRecord.Enabled, c.SharedRecord.Name = true, "A B" }, `shared_record: name is "A B"`},
		"action":        {func(c *Config) { c.Action = "kill" }, `action is "kill": must be evict or delete`},
		"no API server": {func(c *Config) { c.Kubernetes.AuthType = kube.AuthNone }, `kubernetes::auth_type is "none": must be serviceAccount or kubeConfig`},
		"lease":         {func(c *Config) { c.LeaderElection.Enabled, c.LeaderElection.Name = true, "Watch Dog" }, `leader_election: name is "Watch Dog"`},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := newConfig(tc.change)
			require.ErrorContains(t, confmap.Validate(cfg), tc.want)
		})
	}
}
