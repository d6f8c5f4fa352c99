package usagestage

import (
	"time"

	"go.opentelemetry.io/collector/confmap"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/section"
)

const maxIdleTimeout = 7 * 24 * time.Hour

// PricesConfig configures the prices of boards.
type PricesConfig struct {
	// File is the path of the price list. If the file changes, the price list is read again.
	File string `mapstructure:"file"`

	_ struct{}
}

// Config configures the usage section of gpu_k8s.
type Config struct {
	// Prices configures the prices of boards. Without a price list, no costs are emitted.
	Prices PricesConfig `mapstructure:"prices"`
	// MaxGap is the maximum time between two samples of a board. A longer time between two samples
	// counts as unobserved.
	MaxGap time.Duration `mapstructure:"max_gap"`
	// IdleTimeout is how long the counters of a container are kept after the counters last
	// increased.
	IdleTimeout time.Duration `mapstructure:"idle_timeout"`
	// MaxSeries is the maximum total number of boards and of containers on devices, and also the
	// maximum number of nodes. The time of boards beyond the limit is not counted. The time of
	// containers beyond the limit counts as unobserved.
	MaxSeries int `mapstructure:"max_series"`
	// Shared contains the settings that gpu_k8s provides. If storage is configured, the counters
	// are restored from storage after a clean shutdown.
	*section.Shared `mapstructure:"-"`

	_ struct{}
}

// NewDefaultConfig returns the default settings of the section.
func NewDefaultConfig() Config {
	return Config{
		MaxGap:      90 * time.Second,
		IdleTimeout: 10 * time.Minute,
		MaxSeries:   200_000,
	}
}

// Emitted lists the metrics that this section emits.
var Emitted = []*signal.Metric{
	signal.K8sContainerGPUAllocatedTime, signal.K8sContainerGPUActiveTime, signal.K8sContainerGPUIdleTime,
	signal.GPUUnallocatedTime, signal.GPUUnobservedTime,
	signal.K8sContainerGPUCost, signal.K8sContainerGPUCostIdle, signal.GPUUnallocatedCost,
}

// Unmarshal implements confmap.Unmarshaler with [componenthelper.Unmarshal]. If max_gap is set to
// more than the default of idle_timeout, the default of idle_timeout becomes max_gap.
func (c *Config) Unmarshal(conf *confmap.Conf) error {
	if err := componenthelper.Unmarshal(conf, c); err != nil {
		return err
	}
	if !conf.IsSet("idle_timeout") {
		c.IdleTimeout = max(c.IdleTimeout, c.MaxGap)
	}
	return nil
}

// Validate returns an error that describes every invalid field.
func (c *Config) Validate() error {
	var p componenthelper.Problems
	componenthelper.Between(&p, "max_gap", c.MaxGap, 100*time.Millisecond, 24*time.Hour)
	p.Check(c.IdleTimeout >= c.MaxGap && c.IdleTimeout <= maxIdleTimeout,
		"idle_timeout is %s: must be between max_gap (%s) and %s", c.IdleTimeout, c.MaxGap, maxIdleTimeout)
	p.MaxSeries(c.MaxSeries)
	return p.Err()
}
