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
	// retryInterval is the time between collections while the device, the library, or the driver is
	// missing.
	retryInterval = time.Minute

	// maxRetryInterval is the maximum time between attempts to load a library that crashed.
	maxRetryInterval = 16 * time.Minute

	// The minimum interval also causes durations without a unit to be rejected, because a duration
	// without a unit is parsed as nanoseconds.
	minInterval = time.Second
)

// These are the values of the hold setting, which defines when the library is unloaded: only when
// the driver is lost (always), also when a call fails (between_failures), or after every collection
// (never).
const (
	HoldAlways          = "always"
	HoldBetweenFailures = "between_failures"
	HoldNever           = "never"
)

var holdModes = []string{HoldAlways, HoldBetweenFailures, HoldNever}

// Config is the configuration of the nvml receiver.
type Config struct {
	// CollectionInterval is the time between collections.
	CollectionInterval time.Duration `mapstructure:"collection_interval"`

	// LibraryPath is the path of the NVML library file. If LibraryPath is empty, the receiver
	// searches for libnvidia-ml.so.1 on the loader's search path and in common driver directories.
	LibraryPath string `mapstructure:"library_path"`

	// ProcessesOnly makes the receiver collect samples of processes, but not of devices, for
	// example because another receiver already collects the samples of devices.
	ProcessesOnly bool `mapstructure:"processes_only"`

	// ProcRoot is the path of the host's proc file system. NVML lists all processes only if the
	// collector runs in the host's PID namespace.
	ProcRoot string `mapstructure:"proc_root"`

	// SysRoot is the path of the sys file system.
	SysRoot string `mapstructure:"sys_root"`

	// Hold is HoldAlways, HoldBetweenFailures, or HoldNever. Hold defaults to HoldNever if
	// ProcessesOnly is true, and to HoldBetweenFailures otherwise.
	Hold string `mapstructure:"hold"`

	// NodeName is the value of k8s.node.name and host.name. NodeName defaults to the value of the
	// NODE_NAME environment variable or, if the variable is not set, to the host name.
	NodeName string `mapstructure:"node_name"`

	// ClusterName is the value of k8s.cluster.name. If ClusterName is empty, k8s.cluster.name is
	// not set.
	ClusterName string `mapstructure:"cluster_name"`

	// Stages are processors that run inside the receiver and exchange frames without converting
	// them to pdata.
	Stages configoptional.Optional[receiverstages.Config] `mapstructure:"stages"`

	// Metrics enables or disables individual metrics by name. All metrics are enabled by default.
	Metrics componenthelper.Metrics `mapstructure:"metrics"`
}

func createDefaultConfig() component.Config {
	node := componenthelper.NodeName()
	if node == "" {
		// If the host name is unknown, k8s.node.name and host.name are not set.
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

// Unmarshal implements confmap.Unmarshaler by calling [componenthelper.Unmarshal].
func (cfg *Config) Unmarshal(conf *confmap.Conf) error { return componenthelper.Unmarshal(conf, cfg) }

// Validate implements confmap.Validator. Each validation error contains the name of the field, the
// value, and the allowed values.
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

// holdMode returns the value of Hold, or the default if Hold is not configured.
func (cfg *Config) holdMode() string {
	switch {
	case cfg.Hold != "":
		return cfg.Hold
	case cfg.ProcessesOnly:
		return HoldNever
	}
	return HoldBetweenFailures
}

// The processes method reports whether any process metric is enabled. If no process metric is
// enabled, the receiver lists processes only for boards in MIG mode, to find idle instances.
func (cfg *Config) processes() bool {
	return len(cfg.Metrics.Disabled(processMetrics)) < len(processMetrics)
}

// processMetrics contains the metrics that are computed from process lists.
var processMetrics = collect.ProcessMetrics()

// The emitted slice contains the metrics that the receiver can emit.
var emitted = slices.Concat(collect.DeviceMetrics(), processMetrics)
