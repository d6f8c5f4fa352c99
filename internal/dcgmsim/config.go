package dcgmsim

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// FieldSet is the set of counters that the exporter exposes.
type FieldSet string

const (
	// FieldsDefault is the set of counters in the default-counters.csv of the configured [Style].
	FieldsDefault FieldSet = "default"
	// FieldsAll is the set of all simulated fields.
	FieldsAll FieldSet = "all"
)

// SharedRows determines how the exporter exposes a device that several pods share
// (KUBERNETES_VIRTUAL_GPUS=true).
type SharedRows string

const (
	// SharedRowsPerProcess keeps the device's own samples of FB_USED and GPU_UTIL and adds samples
	// for each pod that measure the pod's processes. All other fields are copied to each pod.
	// Exporter version 4.5.3-4.8.2 and later versions use SharedRowsPerProcess.
	SharedRowsPerProcess SharedRows = "per-process"
	// SharedRowsCopies copies all fields of the device to each pod. Exporter versions before
	// 4.5.3-4.8.2 use SharedRowsCopies.
	SharedRowsCopies SharedRows = "copies"
)

// Config configures a simulation. The zero value is invalid; start with [NewDefaultConfig].
type Config struct {
	// Scenario is one of [Scenarios].
	Scenario string
	// Style is one of [Styles].
	Style Style
	// Fields is the set of counters that the exporter exposes.
	Fields FieldSet
	// Nodes is the number of nodes. Each node has one exporter. GPUs is the number of GPUs per
	// node.
	Nodes, GPUs int
	// MIG is the number of 1g instances on every GPU, from 1 to 7. If MIG is 0, the scenario
	// determines the number of instances.
	MIG int
	// Links is the number of NVLinks per GPU.
	Links int
	// SharedRows determines how shared devices are exposed.
	SharedRows SharedRows
	// PodUID is the value of the exporter's --kubernetes-enable-pod-uid flag.
	PodUID bool
	// CollectInterval is how long the exporter serves the same values. If CollectInterval is 0, the
	// values change with every scrape.
	CollectInterval time.Duration
}

// NewDefaultConfig returns a configuration for one node with eight GPUs in the mixed scenario. The
// style matches the exporter that the GPU Operator installs. All counters are enabled, and their
// values change every second.
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

// The following limits allow a Config to simulate a large cluster on one port.
const (
	maxNodes           = 10000
	maxGPUs            = 64
	maxMIG             = 7
	maxCollectInterval = time.Hour
)

// refused returns the error for a value that is not allowed. The setting argument is the name of
// the dcgmsim flag without the leading dashes. If a Config field has no flag, the setting argument
// is the field's name in the same form, such as shared-rows.
func refused(setting string, value any, allowed string, args ...any) error {
	return fmt.Errorf("%s: %q: want %s", setting, fmt.Sprint(value), fmt.Sprintf(allowed, args...))
}

func oneOf[T ~string](setting string, value T, allowed []T) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return refused(setting, value, "one of %s", List(allowed))
}

// List formats values as one line of text.
func List[T ~string](values []T) string {
	names := make([]string, len(values))
	for i, v := range values {
		names[i] = string(v)
	}
	return strings.Join(names, ", ")
}

func between(setting string, value, low, high int) error {
	if low <= value && value <= high {
		return nil
	}
	return refused(setting, value, "%d to %d", low, high)
}

// Validate returns an error for the first invalid setting.
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
		return refused("collect-interval", i, "0s or %s to %s", time.Millisecond, maxCollectInterval)
	}
	return c.validateStyle()
}

// validateStyle returns an error for a setting that exporters of the configured style do not
// support.
func (c *Config) validateStyle() error {
	if err := between("links", c.Links, 0, c.Style.hardware().links); err != nil {
		return err
	}
	if c.Links > 0 && c.Style.in(until3) {
		return refused("links", c.Links, "0 with style %s: its exporters have no rows per NVLink of a GPU", c.Style)
	}
	if c.Style == Style2 && (c.MIG > 0 || c.Scenario == ScenarioMIG) {
		return refused("style", c.Style, "3.x or later for MIG")
	}
	if c.Style.in(until3) && (c.Scenario == ScenarioDRA || c.Scenario == ScenarioSlurm) {
		return refused("style", c.Style, "4.5 or later for scenario %s", c.Scenario)
	}
	if c.Style.in(until3) && c.PodUID {
		return refused("pod-uid", c.PodUID, "false with style %s: its exporters have no pod_uid label", c.Style)
	}
	return nil
}
