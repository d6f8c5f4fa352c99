package dcgm

// Reason is one bit of CLOCKS_EVENT_REASONS.
type Reason struct {
	Bit  uint64
	Name string
	// Saturation says that the bit tells of work slowed against the device's
	// will. Idling, configured clocks and display settings do not.
	Saturation bool
}

var reasons = [...]Reason{
	{0x1, "gpu_idle", false},
	{0x2, "clocks_setting", false},
	{0x4, "sw_power_cap", true},
	{0x8, "hw_slowdown", true},
	{0x10, "sync_boost", true},
	{0x20, "sw_thermal", true},
	{0x40, "hw_thermal", true},
	{0x80, "hw_power_brake", true},
	{0x100, "display_clocks", false},
}

// SaturationReasons returns the six reasons that signals are made of, lowest
// bit first.
func SaturationReasons() []Reason {
	out := make([]Reason, 0, len(reasons))
	for _, r := range reasons {
		if r.Saturation {
			out = append(out, r)
		}
	}
	return out
}
