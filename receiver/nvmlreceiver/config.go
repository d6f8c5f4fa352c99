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

	base "github.com/otelcol-gpu/otelcol-gpu/internal/component"
	"github.com/otelcol-gpu/otelcol-gpu/internal/receiverstages"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver/internal/collect"
)

const (
	// retryInterval is the time after which a device, a library or a driver is looked
	// for again where there was none.
	retryInterval = time.Minute

	// maxRetryInterval is the longest time after which a library that crashed is tried again.
	maxRetryInterval = 16 * time.Minute

	// A duration without its unit is one in nanoseconds: the bound tells.
	minInterval = time.Second
)

// How long the library is held: until the driver is lost, until a call fails, or for one
// collection.
const (
	HoldAlways          = "always"
	HoldBetweenFailures = "between_failures"
	HoldNever           = "never"
)

var holds = []string{HoldAlways, HoldBetweenFailures, HoldNever}

// Config is the configuration of the nvml receiver.
type Config struct {
	// CollectionInterval is the time from one collection to the next.
	CollectionInterval time.Duration `mapstructure:"collection_interval"`

	// LibraryPath is the file of the library. When it is empty, libnvidia-ml.so.1
	// is looked for on the loader's path and where drivers are known to leave it.
	LibraryPath string `mapstructure:"library_path"`

	// ProcessesOnly leaves the samples of devices to another receiver.
	ProcessesOnly bool `mapstructure:"processes_only"`

	// ProcRoot is the proc file system of the host, in whose PID namespace the
	// collector has to run for NVML to see processes at all.
	ProcRoot string `mapstructure:"proc_root"`

	// SysRoot is the sys file system.
	SysRoot string `mapstructure:"sys_root"`

	// Hold is HoldAlways, HoldBetweenFailures or HoldNever. Default: HoldNever with
	// ProcessesOnly, else HoldBetweenFailures.
	Hold string `mapstructure:"hold"`

	// NodeName is k8s.node.name and host.name. Default: the environment variable
	// NODE_NAME, else the host's name.
	NodeName string `mapstructure:"node_name"`

	// ClusterName is k8s.cluster.name; unset when empty.
	ClusterName string `mapstructure:"cluster_name"`

	// Stages run inside the receiver, without pdata between them.
	Stages configoptional.Optional[receiverstages.Config] `mapstructure:"stages"`

	// Metrics switches single metrics by name; all are enabled by default.
	Metrics base.Metrics `mapstructure:"metrics"`
}

func createDefaultConfig() component.Config {
	node := base.NodeName()
	if node == "" {
		// Without a name the attribute stays away.
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

// Unmarshal implements confmap.Unmarshaler, by [base.Unmarshal].
func (cfg *Config) Unmarshal(conf *confmap.Conf) error { return base.Unmarshal(conf, cfg) }

// Validate implements confmap.Validator. Each error names the field, its value
// and what is allowed.
func (cfg *Config) Validate() error {
	var p base.Problems
	p.Check(cfg.CollectionInterval >= minInterval,
		"collection_interval is %s: must be at least %s; write the unit, as in 15s", cfg.CollectionInterval, minInterval)
	p.Check(cfg.LibraryPath == "" || filepath.IsAbs(cfg.LibraryPath),
		"library_path is %q: must be an absolute path, or empty to search", cfg.LibraryPath)
	p.Check(!cfg.ProcessesOnly || cfg.processes(),
		"processes_only is true and metrics switches off all of processes: nothing would be collected; one of them must be enabled")
	p.Check(filepath.IsAbs(cfg.ProcRoot), "proc_root is %q: must be an absolute path", cfg.ProcRoot)
	p.Check(filepath.IsAbs(cfg.SysRoot), "sys_root is %q: must be an absolute path", cfg.SysRoot)
	p.Check(cfg.Hold == "" || slices.Contains(holds, cfg.Hold), "hold is %q: must be one of %s", cfg.Hold, strings.Join(holds, ", "))
	p.Add(cfg.Metrics.Check(signal.Names(emitted))...)
	return p.Err()
}

// hold returns how long the library is held.
func (cfg *Config) hold() string {
	switch {
	case cfg.Hold != "":
		return cfg.Hold
	case cfg.ProcessesOnly:
		return HoldNever
	}
	return HoldBetweenFailures
}

// processes reports whether a metric of processes is wanted; without any, processes are
// not listed.
func (cfg *Config) processes() bool {
	return len(cfg.Metrics.Disabled(ofProcesses)) < len(ofProcesses)
}

// ofProcesses are the metrics that are made of lists of processes.
var ofProcesses = collect.ProcessMetrics()

// emitted are the metrics that the receiver can emit.
var emitted = slices.Concat(collect.DeviceMetrics(), ofProcesses)
