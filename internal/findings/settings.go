package findings

import "time"

// Settings contains the durations and thresholds of the rules. The section for a rule has the
// rule's name.
type Settings struct {
	// MaxGap is the maximum time between two samples that counts as observed.
	MaxGap time.Duration `mapstructure:"max_gap"`

	Spinning           Spinning  `mapstructure:"spinning"`
	LatchedUtilization Latched   `mapstructure:"latched_utilization"`
	SlowDevice         Slow      `mapstructure:"slow_device"`
	MemoryDegrading    Degrading `mapstructure:"memory_degrading"`
	FrozenTelemetry    Judging   `mapstructure:"frozen_telemetry"`
}

// Judging contains the settings that all rules have in common. The rule frozen_telemetry has no
// other settings.
type Judging struct {
	// Enabled is true if the rule is evaluated.
	Enabled bool `mapstructure:"enabled"`
	// For is how long the condition must hold.
	For time.Duration `mapstructure:"for"`
}

// Of returns the common settings of one of the rules in [signal.Findings].
func (s *Settings) Of(rule int) *Judging {
	return [numRules]*Judging{
		frozen: &s.FrozenTelemetry, spinning: &s.Spinning.Judging, latched: &s.LatchedUtilization.Judging,
		slow: &s.SlowDevice.Judging, degrading: &s.MemoryDegrading.Judging,
	}[rule]
}

// Spinning contains the settings of the rule spinning. All limits are ratios.
type Spinning struct {
	Judging `mapstructure:",squash"`
	// Utilization is the minimum utilization at which a device counts as spinning.
	Utilization float64 `mapstructure:"utilization"`
	// Tensor and DRAM are the maximum activity of the tensor pipes and of the memory. Links is the
	// maximum utilization of the links in each direction.
	Tensor float64 `mapstructure:"tensor"`
	DRAM   float64 `mapstructure:"dram"`
	Links  float64 `mapstructure:"links"`
	// Power is the maximum power, as a fraction of the power limit.
	Power float64 `mapstructure:"power"`
}

// Latched contains the settings of the rule latched_utilization.
type Latched struct {
	Judging `mapstructure:",squash"`
	// Utilization is the minimum utilization at which a device counts as latched.
	Utilization float64 `mapstructure:"utilization"`
	// Power is the maximum amount by which the power may exceed the idle power, as a fraction of
	// the idle power.
	Power float64 `mapstructure:"power"`
}

// Slow contains the settings of the rule slow_device.
type Slow struct {
	Judging `mapstructure:",squash"`
	// Clock is a fraction of the median SM clock. A device is slow if its SM clock is below this
	// fraction.
	Clock float64 `mapstructure:"clock"`
	// Devices is the minimum number of equal devices that the workload must use on the node.
	Devices int `mapstructure:"devices"`
}

// Degrading contains the settings of the rule memory_degrading. For is the length of the period
// over which the rate of corrected errors is measured. It is also how long an increase in remapped
// rows counts.
type Degrading struct {
	Judging `mapstructure:",squash"`
	// CorrectedPerHour is the maximum rate of corrected errors that is not a finding.
	CorrectedPerHour float64 `mapstructure:"corrected_per_hour"`
}

// DefaultSettings returns the documented defaults.
func DefaultSettings() Settings {
	return Settings{
		MaxGap:             90 * time.Second,
		Spinning:           Spinning{Judging: Judging{true, 5 * time.Minute}, Utilization: 0.95, Tensor: 0.01, DRAM: 0.02, Links: 0.01, Power: 0.4},
		LatchedUtilization: Latched{Judging: Judging{true, 10 * time.Minute}, Utilization: 0.95, Power: 0.1},
		SlowDevice:         Slow{Judging: Judging{true, 3 * time.Minute}, Clock: 0.9, Devices: 4},
		MemoryDegrading:    Degrading{Judging: Judging{true, time.Hour}, CorrectedPerHour: 1000},
		FrozenTelemetry:    Judging{true, 5 * time.Minute},
	}
}
