package dcgmsim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// FieldSet is the counters csv that the exporter was started with.
type FieldSet string

const (
	// FieldsDefault is the style's default-counters.csv.
	FieldsDefault FieldSet = "default"
	// FieldsAll turns every simulated field on.
	FieldsAll FieldSet = "all"
)

// SharedRows is the form in which the exporter shows a device that several
// pods share (KUBERNETES_VIRTUAL_GPUS=true).
type SharedRows string

const (
	// SharedRowsPerProcess keeps the device's own row of FB_USED and GPU_UTIL
	// and adds one row per pod with what its processes use; all other fields
	// are copied per pod. That is what 4.5.3-4.8.2 and later do.
	SharedRowsPerProcess SharedRows = "per-process"
	// SharedRowsCopies copies the device's value of every field to each pod, as
	// exporters before 4.5.3-4.8.2 do.
	SharedRowsCopies SharedRows = "copies"
)

// Config says what to simulate. The zero value is not valid; start from
// [NewDefaultConfig].
type Config struct {
	// Scenario is one of [Scenarios].
	Scenario string
	// Style is one of [Styles].
	Style Style
	// Fields is the counters csv.
	Fields FieldSet
	// Nodes is the number of exporters and GPUs the number of GPUs of each.
	Nodes, GPUs int
	// MIG is the number of 1g instances, 1 to 7, into which every GPU is cut; 0
	// leaves that to the scenario.
	MIG int
	// Links is the number of NVLinks of each GPU that get rows of their own.
	Links int
	// SharedRows is the form of shared devices' rows.
	SharedRows SharedRows
	// PodUID is the exporter's --kubernetes-enable-pod-uid.
	PodUID bool
	// CollectInterval is the time for which the exporter serves the same
	// values; 0 makes new ones for every scrape.
	CollectInterval time.Duration
}

// NewDefaultConfig returns one node with eight GPUs that play the mixed
// scenario in the style of the exporter that the GPU operator ships, with all
// counters on and new values every second.
func NewDefaultConfig() Config {
	return Config{
		Scenario:        ScenarioMixed,
		Style:           Style483,
		Fields:          FieldsAll,
		Nodes:           1,
		GPUs:            8,
		SharedRows:      SharedRowsPerProcess,
		CollectInterval: time.Second,
	}
}

// Limits of a Config: enough for a large cluster on one port.
const (
	maxNodes           = 10000
	maxGPUs            = 64
	maxMIG             = 7
	maxCollectInterval = time.Hour
)

// ConfigError is a setting that is not allowed.
type ConfigError struct {
	// Setting is the name of the setting, spelt as dcgmsim's flag without
	// dashes where there is one.
	Setting string
	// Value is the value that was given.
	Value string
	// Allowed says which values are.
	Allowed string
}

// Error returns the setting, the value and what is allowed.
func (e *ConfigError) Error() string {
	return fmt.Sprintf("%s: %q: want %s", e.Setting, e.Value, e.Allowed)
}

// oneOf returns an error unless the value is in the list.
func oneOf[T ~string](setting string, value T, allowed []T) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	names := make([]string, len(allowed))
	for i, a := range allowed {
		names[i] = string(a)
	}
	return &ConfigError{setting, string(value), "one of " + strings.Join(names, ", ")}
}

// between returns an error unless low <= value <= high.
func between(setting string, value, low, high int) error {
	if low <= value && value <= high {
		return nil
	}
	return &ConfigError{setting, strconv.Itoa(value), fmt.Sprintf("%d to %d", low, high)}
}

// Validate returns the first setting that is not allowed as a [ConfigError].
func (c *Config) Validate() error {
	for _, err := range []error{
		oneOf("scenario", c.Scenario, Scenarios()),
		oneOf("style", c.Style, Styles()),
		oneOf("fields", c.Fields, []FieldSet{FieldsDefault, FieldsAll}),
		between("nodes", c.Nodes, 1, maxNodes),
		between("gpus", c.GPUs, 1, maxGPUs),
		between("mig", c.MIG, 0, maxMIG),
		oneOf("shared-rows", c.SharedRows, []SharedRows{SharedRowsPerProcess, SharedRowsCopies}),
	} {
		if err != nil {
			return err
		}
	}
	if i := c.CollectInterval; i != 0 && (i < time.Millisecond || i > maxCollectInterval) {
		return &ConfigError{"collect-interval", i.String(), fmt.Sprintf("0s or %s to %s", time.Millisecond, maxCollectInterval)}
	}
	return c.validateStyle()
}

// validateStyle refuses what an exporter of the style could not show.
func (c *Config) validateStyle() error {
	if err := between("links", c.Links, 0, c.Style.hardware().links); err != nil {
		return err
	}
	if c.Links > 0 && c.Style.in(until3) {
		return &ConfigError{"links", strconv.Itoa(c.Links), fmt.Sprintf("0 with style %s: its exporters have no rows per NVLink of a GPU", c.Style)}
	}
	if c.Style == Style2 && (c.MIG > 0 || c.Scenario == ScenarioMIG) {
		return &ConfigError{"style", string(c.Style), "3.x or later for MIG"}
	}
	if c.Style.in(until3) && (c.Scenario == ScenarioDRA || c.Scenario == ScenarioSlurm) {
		return &ConfigError{"style", string(c.Style), "4.5 or later for scenario " + c.Scenario}
	}
	if c.Style.in(until3) && c.PodUID {
		return &ConfigError{"pod-uid", "true", fmt.Sprintf("false with style %s: its exporters have no pod_uid label", c.Style)}
	}
	return nil
}
