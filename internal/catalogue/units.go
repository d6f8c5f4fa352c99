package catalogue

import (
	"math"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Unit is the unit of an exposed value. The unit determines the factor for the conversion to the
// base unit. The unit also determines which values are sentinels and which values are impossible.
type Unit uint8

const (
	// None is a plain number, such as a count, a code, a generation, or a number of lanes.
	None Unit = iota
	// Mask is a bit mask.
	Mask
	// Ratio is a fraction from 0 to 1.
	Ratio
	// Percent is a percentage from 0 to 100.
	Percent
	// RatioOrPercent ranges from 0 to 100 in DCGM 4.6, and from 0 to 1 in DCGM 4.7 and later; see
	// Scale.
	RatioOrPercent
	// MiB is 1048576 bytes.
	MiB
	// Byte is the unit of memory sizes.
	Byte
	// ByteCount is the unit of counters that count bytes.
	ByteCount
	// BytePerSecond is a unit of transfer rate.
	BytePerSecond
	// MHz is a unit of clock frequency.
	MHz
	// Hz is a unit of clock frequency.
	Hz
	// Watt is a unit of power.
	Watt
	// Millijoule is a unit of energy.
	Millijoule
	// Joule is a unit of energy.
	Joule
	// Celsius is a unit of temperature.
	Celsius
	// Nanosecond is a unit of time.
	Nanosecond
	// Second is a unit of time.
	Second
	// ThousandKiBPerSecond is the unit of rates that DCGM calls MB/s: the KiB/s that NVML reports,
	// divided by 1000.
	ThousandKiBPerSecond
	// Microjoule is a unit of energy.
	Microjoule
	// Kilobyte is the unit of counters that count kilobytes (1000 bytes).
	Kilobyte
	// Tick is a unit of time whose length is unknown. A number of ticks is meaningful only in
	// relation to another counter in the same unit.
	Tick
	// Flag is either 0 or 1.
	Flag
)

// The following constants describe DCGM's sentinels for "no value". Each type has four consecutive
// sentinels: blank, not found, not supported, and not permissioned.
const (
	int32Blank   = 2147483632.0
	float64Blank = 140737488355328.0
	// int64Blank is slightly below 0x7ffffffffffffff0. All four int64 sentinels become
	// 9.223372036854776e+18 when they are converted to float64, and exporters may round the result
	// further.
	int64Blank = 9.2233720368547e18
	blankKinds = 4
)

// unitTraits describes the values of a unit.
type unitTraits struct {
	name string
	// factor converts the exposed unit to the base unit.
	factor float64
	// int32Blanks and float64Blanks are true if the int32 or float64 sentinels cannot be real
	// values in the unit. For example, int32Blanks is false for BytePerSecond, because 2147483632
	// can be a real number of bytes per second.
	int32Blanks, float64Blanks bool
	// min and max are the limits of possible values, in the exposed unit.
	min, max float64
}

var (
	inf    = math.Inf(1)
	traits = [...]unitTraits{
		None:                 {"count", 1, true, true, 0, 1 << 53},
		Mask:                 {"bit mask", 1, true, true, 0, 1<<32 - 1},
		Ratio:                {"ratio", 1, true, true, signal.MinRatio, signal.MaxRatio},
		Percent:              {"%", 0.01, true, true, 100 * signal.MinRatio, 100 * signal.MaxRatio},
		RatioOrPercent:       {"ratio or %", 1, true, true, 100 * signal.MinRatio, 100 * signal.MaxRatio},
		MiB:                  {"MiB", 1 << 20, true, true, 0, 1 << 40},
		Byte:                 {"bytes", 1, false, true, 0, 1 << 60},
		ByteCount:            {"bytes", 1, false, false, 0, inf},
		BytePerSecond:        {"bytes/s", 1, false, true, 0, 1e14},
		MHz:                  {"MHz", 1e6, true, true, 0, 1e6},
		Hz:                   {"Hz", 1, false, true, 0, 1e12},
		Watt:                 {"W", 1, true, true, 0, 1e6},
		Millijoule:           {"mJ", 1e-3, false, false, 0, inf},
		Joule:                {"J", 1, false, true, 0, inf},
		Celsius:              {"°C", 1, true, true, -100, 1000},
		Nanosecond:           {"ns", 1e-9, false, false, 0, inf},
		Second:               {"s", 1, false, true, 0, inf},
		ThousandKiBPerSecond: {"1000 KiB/s", 1000 << 10, true, true, 0, 1e8},
		Microjoule:           {"µJ", 1e-6, false, false, 0, inf},
		Kilobyte:             {"1000 bytes", 1000, false, false, 0, inf},
		Tick:                 {"ticks", 1, false, false, 0, inf},
		Flag:                 {"flag", 1, true, true, 0, 1},
	}
)

// Verdict is the result of converting an exposed value.
type Verdict uint8

const (
	// Valid values are observations.
	Valid Verdict = iota
	// Blank values are DCGM's sentinels, which are not observations.
	Blank
	// NotFinite values, which are NaN or infinite, are not observations.
	NotFinite
	// Absurd values, which are impossible, are not observations.
	Absurd
	// Implausible values are ratios too far outside [0, 1] to be rounding errors. Implausible
	// values are not observations.
	Implausible
)

// Value converts an exposed value to the base unit, which is By, By/s, Hz, W, J, Cel, s, or a
// fraction. The result is meaningful only if the verdict is Valid. Callers must still clamp valid
// ratios, and must convert valid RatioOrPercent values with [Scale.Apply].
func (u Unit) Value(exposed float64) (float64, Verdict) {
	t := &traits[u]
	switch {
	case math.IsNaN(exposed) || math.IsInf(exposed, 0):
		return 0, NotFinite
	case exposed >= int64Blank,
		t.int32Blanks && isBlank(exposed, int32Blank),
		t.float64Blanks && isBlank(exposed, float64Blank):
		return 0, Blank
	case exposed < t.min || exposed > t.max:
		if u == Ratio || u == Percent || u == RatioOrPercent {
			return 0, Implausible
		}
		return 0, Absurd
	case (u == Mask || u == Flag) && exposed != math.Trunc(exposed):
		return 0, Absurd
	}
	return exposed * t.factor, Valid
}

func isBlank(v, first float64) bool {
	return v >= first && v < first+blankKinds && v == math.Trunc(v)
}

// Scale is the scale of the RatioOrPercent values in one scrape.
type Scale uint8

const (
	// ScaleUnknown means that no value in the scrape determines the scale. The value 0 has the same
	// meaning on both scales. The value 1 may mean 1% or 100%, so it is not an observation.
	ScaleUnknown Scale = iota
	// ScaleRatio means that the values range from 0 to 1.
	ScaleRatio
	// ScalePercent means that the values range from 0 to 100.
	ScalePercent
)

// Settle returns the scale that a value implies. A value above 1, up to the maximum percentage,
// implies percentages. A fraction between 0 and 1 implies ratios, because percentages are integers.
// For other values, Settle returns ScaleUnknown.
func Settle(exposed float64) Scale {
	switch {
	case exposed > 1 && exposed <= traits[RatioOrPercent].max:
		return ScalePercent
	case exposed > 0 && exposed < 1:
		return ScaleRatio
	}
	return ScaleUnknown
}

// Apply converts an exposed RatioOrPercent value to a fraction. Apply returns false if the value is
// ambiguous because the scale is unknown.
func (s Scale) Apply(exposed float64) (float64, bool) {
	switch s {
	case ScalePercent:
		return exposed * traits[Percent].factor, true
	case ScaleRatio:
		return exposed, true
	}
	return exposed, exposed == 0
}

// Clamp calls [signal.Clamp] and adds a verdict, which is Implausible for a ratio that must be
// dropped, and Valid otherwise.
func Clamp(ratio float64) (inRange float64, clamped bool, verdict Verdict) {
	inRange, clamped, plausible := signal.Clamp(ratio)
	if !plausible {
		return 0, false, Implausible
	}
	return inRange, clamped, Valid
}

// String returns the unit's name for documentation.
func (u Unit) String() string { return traits[u].name }
