package dcgmsim

import (
	"slices"
	"time"
)

// Reason is one bit of DCGM_FI_DEV_CLOCKS_EVENT_REASONS.
type Reason uint64

// These constants are the clock event reasons in dcgm_fields.h.
const (
	ReasonGPUIdle       Reason = 0x1
	ReasonClocksSetting Reason = 0x2
	ReasonSWPowerCap    Reason = 0x4
	ReasonHWSlowdown    Reason = 0x8
	ReasonSyncBoost     Reason = 0x10
	ReasonSWThermal     Reason = 0x20
	ReasonHWThermal     Reason = 0x40
	ReasonHWPowerBrake  Reason = 0x80
	ReasonDisplayClocks Reason = 0x100
)

// clockEvents lists the reasons in the order of their bits. The names are the values of the
// clock_event label of DCGM_EXP_CLOCK_EVENTS_*.
var clockEvents = []struct {
	reason Reason
	name   string
}{
	{ReasonGPUIdle, "gpu_idle"},
	{ReasonClocksSetting, "clocks_setting"},
	{ReasonSWPowerCap, "power_cap"},
	{ReasonHWSlowdown, "hw_slowdown"},
	{ReasonSyncBoost, "sync_boost"},
	{ReasonSWThermal, "sw_thermal"},
	{ReasonHWThermal, "hw_thermal"},
	{ReasonHWPowerBrake, "hw_power_brake"},
	{ReasonDisplayClocks, "display_clocks"},
}

// Violation is one of NVML's performance policies. A *_VIOLATION field in DCGM counts the time
// during which the policy is violated.
type Violation int

// These constants are the violations that occur in stories. Violations of the board limit and of
// reliability never occur, so their counters stay at zero.
const (
	// ViolationPower is the time during which a software power cap or a power brake is active.
	ViolationPower Violation = iota
	// ViolationThermal is the time during which a software or hardware thermal slowdown is active.
	ViolationThermal
	// ViolationSyncBoost is the time during which the device waits for its sync boost group.
	ViolationSyncBoost
	// ViolationLowUtil is the time during which the device is idle.
	ViolationLowUtil
	violations
)

// story describes how a device's values change over time. The changes repeat in a loop. All curves
// and gates of a story have the same period.
type story struct {
	// load is the fraction of time during which the graphics engine is active. The activities of
	// the other parts of the GPU are proportional to load.
	load curve
	// memory is the memory occupancy, used / (used + free).
	memory curve
	// power is the power draw on a scale from idle (0) to the enforced limit (1).
	power curve
	// temperature is in degrees Celsius.
	temperature curve
	// clock is the SM clock as a fraction of the maximum SM clock.
	clock curve

	reasons map[Reason]gate
	xids    []xidAt
	// sbe contains the single-bit ECC errors.
	sbe events
	// The remaps gate is on while a memory row waits to be remapped at the next reset. The
	// resetWanted gate is on while the driver requests a reset.
	remaps, resetWanted gate
	// The waits gate is on while kernels only poll: the engine is active, but the pipes, the
	// memory, and the links are not.
	waits gate
	// The frozen gate is on while the exporter repeats earlier values.
	frozen gate

	// The finish method sets the following fields.
	period     time.Duration
	violations [violations]gate
	xidCodes   []int
	xidEvents  map[int]events
}

// xidAt is an XID in a story, with the time at which the XID occurs in the loop. On a board with
// MIG instances, the XID occurs on the first instance or, if the board field is true, on all
// instances.
type xidAt struct {
	at    time.Duration
	code  int
	board bool
}

// finish computes the fields that are derived from the curves, reasons, and XIDs.
func (s *story) finish() {
	s.period = s.load.period
	s.violations[ViolationPower] = union(s.reasons[ReasonSWPowerCap], s.reasons[ReasonHWPowerBrake])
	s.violations[ViolationThermal] = union(s.reasons[ReasonSWThermal], s.reasons[ReasonHWThermal])
	s.violations[ViolationSyncBoost] = union(s.reasons[ReasonSyncBoost])
	s.violations[ViolationLowUtil] = union(s.reasons[ReasonGPUIdle])
	s.xidEvents = map[int]events{}
	for _, x := range s.xids {
		e, known := s.xidEvents[x.code]
		if !known {
			s.xidCodes = append(s.xidCodes, x.code)
			e.period = s.period
		}
		e.times = append(e.times, x.at)
		s.xidEvents[x.code] = e
	}
	slices.Sort(s.xidCodes)
}

// script creates a story. The times in a script are in beats, and a loop has 60 beats. For example,
// at(6, 0.5) is a point 6 beats after the start of the loop.
type script struct {
	beat time.Duration
}

func (s script) time(beats float64) time.Duration {
	return time.Duration(beats * float64(s.beat))
}

func (s script) at(beats, value float64) point {
	return point{s.time(beats), value}
}

func (s script) flat(value float64) curve {
	return newCurve(s.at(0, value), s.at(60, value))
}

func (s script) on(from, to float64) []span {
	return []span{{s.time(from), s.time(to)}}
}

func (s script) pulses(from, to, step, on float64) []span {
	return pulses(s.time(from), s.time(to), s.time(step), s.time(on))
}

func (s script) gate(spans ...[]span) gate {
	return newGate(s.time(60), slices.Concat(spans...)...)
}

// healthy is the story of a busy device that stays within all its limits.
func (s script) healthy() *story {
	return &story{
		load:        newCurve(s.at(0, .55), s.at(15, .82), s.at(30, .6), s.at(45, .88), s.at(60, .55)),
		memory:      newCurve(s.at(0, .62), s.at(30, .66), s.at(60, .62)),
		power:       newCurve(s.at(0, .45), s.at(15, .7), s.at(30, .5), s.at(45, .75), s.at(60, .45)),
		temperature: newCurve(s.at(0, 52), s.at(20, 60), s.at(35, 55), s.at(50, 61), s.at(60, 52)),
		clock:       s.flat(1),
	}
}

// idle is the story of a device that nobody uses. The idle reason is active, and the
// low-utilization time increases. Neither an idle device nor low utilization indicates saturation.
func (s script) idle() *story {
	return &story{
		load:        s.flat(0),
		memory:      s.flat(0),
		power:       s.flat(0),
		temperature: newCurve(s.at(0, 30), s.at(30, 32), s.at(60, 30)),
		clock:       s.flat(.175),
		reasons:     map[Reason]gate{ReasonGPUIdle: s.gate(s.on(0, 60))},
	}
}

// powerCapped is the story of a device whose power is capped for about two fifths of the time. At
// first, the power is capped continuously. Then the power is capped in pulses that are too short to
// be measured by sampling the bit mask. After the pulses, a power brake is active.
func (s script) powerCapped() *story {
	brake := s.gate(s.on(46, 47.4))
	return &story{
		load:        newCurve(s.at(0, .4), s.at(8, .97), s.at(44, .99), s.at(50, .45), s.at(60, .4)),
		memory:      newCurve(s.at(0, .71), s.at(10, .78), s.at(50, .78), s.at(60, .71)),
		power:       newCurve(s.at(0, .35), s.at(8, 1), s.at(44, 1), s.at(50, .4), s.at(60, .35)),
		temperature: newCurve(s.at(0, 58), s.at(20, 71), s.at(44, 74), s.at(60, 58)),
		clock: newCurve(s.at(0, 1), s.at(8, 1), s.at(9, .78), s.at(20, .74), s.at(44, .78), s.at(46, .96),
			s.at(46, .48), s.at(47.4, .48), s.at(47.4, .96), s.at(50, 1), s.at(60, 1)),
		reasons: map[Reason]gate{
			ReasonSWPowerCap:   s.gate(s.on(9, 20), s.pulses(20, 44, 2, 1.2)),
			ReasonHWPowerBrake: brake,
			ReasonHWSlowdown:   brake,
		},
	}
}

// thermal is the story of a device that heats up. First the software slows the device down, and
// later the hardware does. The hardware slowdown halves the clock. Then the device cools down.
func (s script) thermal() *story {
	hardware := s.gate(s.on(32, 38.5))
	return &story{
		load:        newCurve(s.at(0, .86), s.at(30, .97), s.at(38.5, .97), s.at(46, .8), s.at(60, .86)),
		memory:      newCurve(s.at(0, .55), s.at(30, .58), s.at(60, .55)),
		power:       newCurve(s.at(0, .7), s.at(30, .8), s.at(32, .8), s.at(32, .5), s.at(38.5, .5), s.at(44, .65), s.at(60, .7)),
		temperature: newCurve(s.at(0, 64), s.at(16, 83), s.at(32, 90), s.at(38.5, 88), s.at(48, 70), s.at(60, 64)),
		clock: newCurve(s.at(0, 1), s.at(16, 1), s.at(18, .86), s.at(32, .8), s.at(32, .45), s.at(38.5, .45),
			s.at(38.5, .8), s.at(41, .86), s.at(43, 1), s.at(60, 1)),
		reasons: map[Reason]gate{
			ReasonSWThermal:  s.gate(s.pulses(16, 32, 2, 1), s.on(38.5, 41)),
			ReasonHWThermal:  hardware,
			ReasonHWSlowdown: hardware,
		},
	}
}

// memoryFilling is the story of a device whose memory occupancy increases from 0.08 to 0.99. Then
// the workload ends and starts again.
func (s script) memoryFilling() *story {
	return &story{
		load:        newCurve(s.at(0, .3), s.at(5, .72), s.at(50, .78), s.at(58, .5), s.at(58, .05), s.at(60, .3)),
		memory:      newCurve(s.at(0, .08), s.at(50, .99), s.at(58, .99), s.at(58, .08), s.at(60, .08)),
		power:       newCurve(s.at(0, .3), s.at(5, .6), s.at(50, .64), s.at(58, .5), s.at(58, .1), s.at(60, .3)),
		temperature: newCurve(s.at(0, 49), s.at(40, 58), s.at(60, 49)),
		clock:       s.flat(1),
	}
}

// xidBurst is the story of a device with application errors, followed by an uncorrectable memory
// error that interrupts the work for a while. The first and the last XID of the loop are both XID
// 31. The gauge with the last XID code does not change between the last XID of one loop and the
// first XID of the next loop. The number of changes in the gauge is therefore only a lower bound
// for the number of XIDs.
func (s script) xidBurst() *story {
	return &story{
		load:        newCurve(s.at(0, .8), s.at(35, .85), s.at(35, 0), s.at(42, 0), s.at(43, .8), s.at(60, .8)),
		memory:      newCurve(s.at(0, .6), s.at(35, .7), s.at(35, .02), s.at(42, .02), s.at(48, .6), s.at(60, .6)),
		power:       newCurve(s.at(0, .6), s.at(35, .65), s.at(36, .05), s.at(42, .05), s.at(44, .6), s.at(60, .6)),
		temperature: newCurve(s.at(0, 60), s.at(35, 63), s.at(42, 50), s.at(60, 60)),
		clock:       newCurve(s.at(0, 1), s.at(36, 1), s.at(36, .6), s.at(42, .6), s.at(42, 1), s.at(60, 1)),
		reasons:     map[Reason]gate{ReasonGPUIdle: s.gate(s.on(36, 42))},
		xids: []xidAt{
			{at: s.time(8), code: 31},
			{at: s.time(9.5), code: 43},
			{at: s.time(20), code: 13},
			{at: s.time(35), code: 48, board: true},
			{at: s.time(36.5), code: 63, board: true},
			{at: s.time(38), code: 94, board: true},
			{at: s.time(52), code: 31},
		},
		sbe:         events{s.time(60), []time.Duration{s.time(18), s.time(33), s.time(34)}},
		remaps:      s.gate(s.on(35, 42)),
		resetWanted: s.gate(s.on(35, 42)),
	}
}

// instances is the story of a board whose MIG instances fill and empty their memory in turn.
func (s script) instances() *story {
	return &story{
		load:        newCurve(s.at(0, .35), s.at(20, .9), s.at(40, .5), s.at(60, .35)),
		memory:      newCurve(s.at(0, .3), s.at(30, .93), s.at(45, .93), s.at(45, .3), s.at(60, .3)),
		power:       newCurve(s.at(0, .35), s.at(20, .7), s.at(40, .45), s.at(60, .35)),
		temperature: newCurve(s.at(0, 51), s.at(25, 59), s.at(60, 51)),
		clock:       s.flat(1),
	}
}

// timeSliced is the story of a device that several pods share. The device's memory occupancy is
// high, and its power is capped for a short time.
func (s script) timeSliced() *story {
	return &story{
		load:        newCurve(s.at(0, .7), s.at(20, .95), s.at(40, .8), s.at(60, .7)),
		memory:      newCurve(s.at(0, .5), s.at(25, .94), s.at(40, .94), s.at(50, .5), s.at(60, .5)),
		power:       newCurve(s.at(0, .6), s.at(18, .95), s.at(26, .95), s.at(40, .7), s.at(60, .6)),
		temperature: newCurve(s.at(0, 60), s.at(25, 68), s.at(60, 60)),
		clock:       newCurve(s.at(0, 1), s.at(18, 1), s.at(19, .92), s.at(26, .92), s.at(27, 1), s.at(60, 1)),
		reasons:     map[Reason]gate{ReasonSWPowerCap: s.gate(s.pulses(18, 26, 2, .5))},
	}
}
