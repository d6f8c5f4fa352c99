package dcgm

import "github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"

// SaturationReasons contains the bits of CLOCKS_EVENT_REASONS for limits that slow down work, in
// ascending order. SaturationReasons excludes idling (0x1), configured clocks (0x2), and display
// settings (0x100).
var SaturationReasons = []catalogue.Bit{
	{Mask: 0x4, Part: "sw_power_cap"},
	{Mask: 0x8, Part: "hw_slowdown"},
	{Mask: 0x10, Part: "sync_boost"},
	{Mask: 0x20, Part: "sw_thermal"},
	{Mask: 0x40, Part: "hw_thermal"},
	{Mask: 0x80, Part: "hw_power_brake"},
}
