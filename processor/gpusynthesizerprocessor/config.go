package gpusynthesizerprocessor

import (
	"slices"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/confmap"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/internal/stages"
)

// Values of raw.
const (
	rawDrop = "drop"
	rawKeep = "keep"
)

// Values of violation_unit.
const (
	unitNanoseconds  = "ns"
	unitMicroseconds = "us"
)

const (
	defaultMaxDevices = 200_000
	maxMaxDevices     = 10_000_000
)

// Config is the configuration of the gpu_synthesizer processor.
type Config struct {
	// Raw determines whether the exporters' own metrics are dropped ("drop") or kept ("keep").
	Raw string `mapstructure:"raw"`
	// ViolationUnit is the unit of the *_VIOLATION counters: ns or us. DCGM uses ns, even if the
	// HELP text states a different unit.
	ViolationUnit string `mapstructure:"violation_unit"`
	// NodeName is the value of k8s.node.name that is used if the scrape target does not name the
	// node. The default is the value of the NODE_NAME environment variable. If NODE_NAME is not
	// set, the default is the exporter's host name.
	NodeName string `mapstructure:"node_name"`
	// ClusterName is the value of k8s.cluster.name. If ClusterName is empty, the attribute is not
	// set.
	ClusterName string `mapstructure:"cluster_name"`
	// MaxDevices limits the number of boards and MIG instances that are tracked at the same time. A
	// device that a container-level exporter also names counts twice. Rows of devices beyond the
	// limit are dropped and counted.
	MaxDevices int `mapstructure:"max_devices"`
	// Storage is the storage extension that keeps the state of XID counting across restarts. If no
	// storage extension is configured, errors that occur during a restart are not counted.
	Storage *component.ID `mapstructure:"storage"`
	// Metrics enables or disables individual metrics by name. By default, all metrics except
	// gpu.signal.available are enabled.
	Metrics componenthelper.Metrics `mapstructure:"metrics"`
	// Stages configures the processors that run as part of the gpu_synthesizer processor, after its
	// own processing. Stages exchange frames instead of pdata.
	Stages configoptional.Optional[stages.Config] `mapstructure:"stages"`
}

func createDefaultConfig() component.Config {
	return &Config{
		Raw:           rawDrop,
		ViolationUnit: unitNanoseconds,
		NodeName:      componenthelper.NodeName(),
		MaxDevices:    defaultMaxDevices,
		Stages:        configoptional.Default(stages.NewDefaultConfig()),
	}
}

// Unmarshal implements confmap.Unmarshaler with [componenthelper.Unmarshal].
func (c *Config) Unmarshal(conf *confmap.Conf) error { return componenthelper.Unmarshal(conf, c) }

// Validate returns an error that lists all fields with invalid values.
func (c *Config) Validate() error {
	var p componenthelper.Problems
	p.Check(c.Raw == rawDrop || c.Raw == rawKeep, "raw is %q: must be %q or %q", c.Raw, rawDrop, rawKeep)
	p.Check(c.ViolationUnit == unitNanoseconds || c.ViolationUnit == unitMicroseconds,
		"violation_unit is %q: must be %q or %q", c.ViolationUnit, unitNanoseconds, unitMicroseconds)
	componenthelper.Between(&p, "max_devices", c.MaxDevices, 1, maxMaxDevices)
	p.Add(c.Metrics.Check(signal.Names(emitted()))...)
	return p.Err()
}

// emitted returns all metrics that the gpu_synthesizer processor can emit.
func emitted() []*signal.Metric {
	return slices.DeleteFunc(signal.All(), func(m *signal.Metric) bool {
		return m.Stage != signal.StageSample || m == signal.GPUExporterUp
	})
}

// enabled reports whether a metric is emitted. The gpu.signal.available metric is disabled by
// default, because it has as many points as all other metrics together and few users need it in a
// backend.
func (c *Config) enabled(m *signal.Metric) bool {
	return c.Metrics.Enabled(m.Name, !m.Off)
}

// disabled returns all disabled metrics.
func (c *Config) disabled() []*signal.Metric {
	return slices.DeleteFunc(emitted(), c.enabled)
}
