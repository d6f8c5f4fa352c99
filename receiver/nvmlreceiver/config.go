package nvmlreceiver

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/confmap"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/receiverstages"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver/internal/collect"
)

const (
	// retryInterval is the time between two attempts if the device, the library or the driver is
	// missing.
	retryInterval = time.Minute

	// maxRetryInterval is the maximum time between two attempts to load a library that crashed.
	maxRetryInterval = 16 * time.Minute

	// This limit also rejects a duration without a unit, which is parsed as nanoseconds.
	minInterval = time.Second
)

// These are the values of hold. They define how long the library stays loaded: until the driver is
// lost, until a call fails, or for one collection.
const (
	HoldAlways          = "always"
	HoldBetweenFailures = "between_failures"
	HoldNever           = "never"
)

var holdModes = []string{HoldAlways, HoldBetweenFailures, HoldNever}

// Config is the configuration of the nvml receiver.
type Config struct {
	// CollectionInterval is the time between two collections.
	CollectionInterval time.Duration `mapstructure:"collection_interval"`

	// LibraryPath is the path of the NVML library file. If it is empty, the receiver searches for
	// libnvidia-ml.so.1 on the loader's path and in the directories that drivers usually use.
	LibraryPath string `mapstructure:"library_path"`

	// ProcessesOnly disables device samples, for example because another receiver collects them.
	ProcessesOnly bool `mapstructure:"processes_only"`

	// ProcRoot is the path of the host's proc file system. The collector must run in the host's PID
	// namespace. Otherwise, NVML does not list processes.
	ProcRoot string `mapstructure:"proc_root"`

	// SysRoot is the path of the sys file system.
	SysRoot string `mapstructure:"sys_root"`

	// Hold is HoldAlways, HoldBetweenFailures or HoldNever. With ProcessesOnly, the default is
	// HoldNever. Otherwise, the default is HoldBetweenFailures.
	Hold string `mapstructure:"hold"`

	// NodeName is the value of k8s.node.name and host.name. The default is the value of the
	// environment variable NODE_NAME. If the variable is not set, the default is the host name.
	NodeName string `mapstructure:"node_name"`

	// ClusterName is the value of k8s.cluster.name. If it is empty, the attribute is not set.
	ClusterName string `mapstructure:"cluster_name"`

	// Stages run inside the receiver and exchange frames without converting them to pdata.
	Stages configoptional.Optional[receiverstages.Config] `mapstructure:"stages"`

	// Metrics enables or disables individual metrics by name. All are enabled by default.
	Metrics componenthelper.Metrics `mapstructure:"metrics"`
}

func createDefaultConfig() component.Config {
	node := componenthelper.NodeName()
	if node == "" {
		// If there is no name, the attributes are not set.
		node, _ = os.Hostname()
	}
	return &Config{
		CollectionInterval: 15 * time.Second,
		ProcRoot:           "/proc",
		SysRoot:            "/sys",
		NodeName:           node,
		Stages:             configoptional.Default(receiverstages.NewDefaultConfig()),
	}
}

// Unmarshal implements confmap.Unmarshaler with [componenthelper.Unmarshal].
func (cfg *Config) Unmarshal(conf *confmap.Conf) error { return componenthelper.Unmarshal(conf, cfg) }

// Validate implements confmap.Validator. Each error contains the field, its value, and the allowed
// values.
func (cfg *Config) Validate() error {
	var p componenthelper.Problems
	p.Check(cfg.CollectionInterval >= minInterval,
		"collection_interval is %s: must be at least %s; write the unit, as in 15s", cfg.CollectionInterval, minInterval)
	p.Check(cfg.LibraryPath == "" || filepath.IsAbs(cfg.LibraryPath),
		"library_path is %q: must be an absolute path, or empty to search", cfg.LibraryPath)
	p.Check(!cfg.ProcessesOnly || cfg.processes(),
		"processes_only is true and metrics disables all metrics of processes: one of them must be enabled")
	p.Check(filepath.IsAbs(cfg.ProcRoot), "proc_root is %q: must be an absolute path", cfg.ProcRoot)
	p.Check(filepath.IsAbs(cfg.SysRoot), "sys_root is %q: must be an absolute path", cfg.SysRoot)
	p.Check(cfg.Hold == "" || slices.Contains(holdModes, cfg.Hold), "hold is %q: must be one of %s", cfg.Hold, strings.Join(holdModes, ", "))
	p.Add(cfg.Metrics.Check(signal.Names(emitted))...)
	return p.Err()
}

// holdMode returns the configured value of Hold, or the default value if Hold is not configured.
func (cfg *Config) holdMode() string {
	switch {
	case cfg.Hold != "":
		return cfg.Hold
	case cfg.ProcessesOnly:
		return HoldNever
	}
	return HoldBetweenFailures
}

// processes reports whether any process metric is enabled. Otherwise, the receiver does not list
// processes.
func (cfg *Config) processes() bool {
	return len(cfg.Metrics.Disabled(processMetrics)) < len(processMetrics)
}

// processMetrics are the metrics that are computed from process lists.
var processMetrics = collect.ProcessMetrics()

// emitted are the metrics that the receiver can emit.
var emitted = slices.Concat(collect.DeviceMetrics(), processMetrics)
