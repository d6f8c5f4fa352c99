package findings

import "time"

// Settings contains the durations and thresholds of the rules. Each rule has a section with the
// rule's name.
type Settings struct {
	// MaxGap is the maximum time between two samples. If the time between two samples is longer,
	// that time counts as not observed.
	MaxGap time.Duration `mapstructure:"max_gap"`

	Spinning           Spinning  `mapstructure:"spinning"`
	LatchedUtilization Latched   `mapstructure:"latched_utilization"`
	SlowDevice         Slow      `mapstructure:"slow_device"`
	MemoryDegrading    Degrading `mapstructure:"memory_degrading"`
	FrozenTelemetry    Judging   `mapstructure:"frozen_telemetry"`
}

// Judging contains the settings that all rules have in common. The frozen_telemetry rule has no
// other settings.
type Judging struct {
	// Enabled specifies whether the rule is evaluated.
	Enabled bool `mapstructure:"enabled"`
	// The For field specifies how long the condition must hold.
	For time.Duration `mapstructure:"for"`
}

// Of returns the common settings of the rule with the given index in [signal.Findings].
func (s *Settings) Of(rule int) *Judging {
	return [numRules]*Judging{
		frozen: &s.FrozenTelemetry, spinning: &s.Spinning.Judging, latched: &s.LatchedUtilization.Judging,
		slow: &s.SlowDevice.Judging, degrading: &s.MemoryDegrading.Judging,
	}[rule]
}

// Spinning contains the settings of the spinning rule. All limits are ratios.
type Spinning struct {
	Judging `mapstructure:",squash"`
	// Utilization is the minimum utilization at which a device counts as spinning.
	Utilization float64 `mapstructure:"utilization"`
	// Tensor and DRAM are the maximum activity of a spinning device's tensor pipes and memory.
	// Links is the maximum utilization of a spinning device's links in each direction.
	Tensor float64 `mapstructure:"tensor"`
	DRAM   float64 `mapstructure:"dram"`
	Links  float64 `mapstructure:"links"`
	// Power is the maximum power of a spinning device, as a fraction of the power limit.
	Power float64 `mapstructure:"power"`
}

// Latched contains the settings of the latched_utilization rule.
type Latched struct {
	Judging `mapstructure:",squash"`
	// Utilization is the minimum utilization at which a device counts as latched.
	Utilization float64 `mapstructure:"utilization"`
	// Power is the maximum by which the power of a latched device may exceed the idle power, as a
	// fraction of the idle power.
	Power float64 `mapstructure:"power"`
}

// Slow contains the settings of the slow_device rule.
type Slow struct {
	Judging `mapstructure:",squash"`
	// Clock is the minimum ratio of a device's SM clock to the median SM clock of identical
	// devices. A device with a lower ratio is slow.
	Clock float64 `mapstructure:"clock"`
	// Devices is the minimum number of identical devices that a workload must use on the node for the
	// rule to be evaluated.
	Devices int `mapstructure:"devices"`
}

// Degrading contains the settings of the memory_degrading rule. The For setting is the length of
// the period over which the rate of corrected errors is measured. An increase in remapped rows is
// evidence for the same length of time.
type Degrading struct {
	Judging `mapstructure:",squash"`
	// CorrectedPerHour is the maximum acceptable rate of corrected errors. A higher rate causes a
	// finding.
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
