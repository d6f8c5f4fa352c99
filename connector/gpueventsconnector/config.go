package gpueventsconnector

import (
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/confmap"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/events"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
)

// Config configures the gpu_events connector.
type Config struct {
	// For is the length of the time window over which the connector computes the share of time that
	// a device was throttled or under memory pressure.
	For time.Duration `mapstructure:"for"`
	// LostAfter is how long a device must be missing, or an exporter must be down, before an event
	// is sent.
	LostAfter time.Duration `mapstructure:"lost_after"`
	// Interval is the time during which identical events are combined into one log record.
	Interval time.Duration `mapstructure:"interval"`
	// MaxPerMinute is the maximum number of log records per minute.
	MaxPerMinute int `mapstructure:"max_per_minute"`
	// MaxGap is the maximum time between two consecutive samples in the window that For defines.
	// After a longer gap, the connector starts a new window.
	MaxGap time.Duration `mapstructure:"max_gap"`
	// Holders makes the connector send an event whenever the set of containers that hold a device
	// changes.
	Holders bool `mapstructure:"holders"`
	// KubernetesEvents configures access to the API server to which Kubernetes Events are written.
	// By default, auth_type is none, and no Kubernetes Events are written.
	KubernetesEvents kube.Config `mapstructure:"kubernetes_events"`
	// Findings configures the same rules as the gpu_findings stage. The connector itself evaluates
	// the rules only if the findings section exists. The findings section must not be used together
	// with the gpu_findings stage.
	Findings configoptional.Optional[FindingsConfig] `mapstructure:"findings"`
	// Storage is the storage extension that preserves the connector's state across restarts.
	Storage *component.ID `mapstructure:"storage"`

	// prevent unkeyed literal initialization
	_ struct{}
}

func createDefaultConfig() component.Config {
	s := events.DefaultSettings()
	return &Config{For: s.For, LostAfter: s.LostAfter, Interval: s.Interval, MaxPerMinute: s.MaxPerMinute, MaxGap: s.MaxGap, KubernetesEvents: kube.Config{AuthType: kube.AuthNone}, Findings: NewDefaultFindings()}
}

// Unmarshal implements confmap.Unmarshaler by calling [componenthelper.Unmarshal].
func (cfg *Config) Unmarshal(conf *confmap.Conf) error { return componenthelper.Unmarshal(conf, cfg) }

// Validate implements confmap.Validator.
func (cfg *Config) Validate() error {
	var p componenthelper.Problems
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
