package gpueventsconnector

import (
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/confmap"

	base "github.com/otelcol-gpu/otelcol-gpu/internal/component"
	"github.com/otelcol-gpu/otelcol-gpu/internal/events"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
)

// Config configures the gpu_events connector.
type Config struct {
	// For is the time over which shares of throttling and memory pressure are judged.
	For time.Duration `mapstructure:"for"`
	// LostAfter is how long a device is missing, or an exporter down, before that is an event.
	LostAfter time.Duration `mapstructure:"lost_after"`
	// Interval is the time during which equal events are folded into one record.
	Interval time.Duration `mapstructure:"interval"`
	// MaxPerMinute is the most records in a minute.
	MaxPerMinute int `mapstructure:"max_per_minute"`
	// MaxGap is the longest time between two samples over which a share is continued.
	MaxGap time.Duration `mapstructure:"max_gap"`
	// Holders says that changes of holders are events.
	Holders bool `mapstructure:"holders"`
	// KubernetesEvents says how the API server is reached to which Kubernetes Events are
	// written; auth_type none, the default, writes none.
	KubernetesEvents kube.Config `mapstructure:"kubernetes_events"`
	// Findings has the rules of gpu_findings. As a connector gpu_events judges them if this section
	// exists; beside the stage gpu_findings it must not.
	Findings configoptional.Optional[FindingsConfig] `mapstructure:"findings"`
	// Storage is the storage extension in which the state survives a restart.
	Storage *component.ID `mapstructure:"storage"`

	// prevent unkeyed literal initialization
	_ struct{}
}

func createDefaultConfig() component.Config {
	s := events.DefaultSettings()
	return &Config{For: s.For, LostAfter: s.LostAfter, Interval: s.Interval, MaxPerMinute: s.MaxPerMinute, MaxGap: s.MaxGap, KubernetesEvents: kube.Config{AuthType: kube.AuthNone}, Findings: NewDefaultFindings()}
}

// Unmarshal implements confmap.Unmarshaler, by [base.Unmarshal].
func (cfg *Config) Unmarshal(conf *confmap.Conf) error { return base.Unmarshal(conf, cfg) }

// Validate implements confmap.Validator.
func (cfg *Config) Validate() error {
	var p base.Problems
	for _, d := range []struct {
		field string
		value time.Duration
	}{{"for", cfg.For}, {"lost_after", cfg.LostAfter}, {"interval", cfg.Interval}, {"max_gap", cfg.MaxGap}} {
		p.Check(d.value >= time.Second && d.value <= time.Hour, "%s is %s: must be 1s to 1h; write the unit, as in 60s", d.field, d.value)
	}
	p.Check(cfg.MaxPerMinute >= 1 && cfg.MaxPerMinute <= 100_000, "max_per_minute is %d: must be 1 to 100000", cfg.MaxPerMinute)
	return p.Err()
}

func (cfg *Config) settings() events.Settings {
	return events.Settings{For: cfg.For, LostAfter: cfg.LostAfter, Interval: cfg.Interval, MaxGap: cfg.MaxGap, MaxPerMinute: cfg.MaxPerMinute, Holders: cfg.Holders}
}
