// Package numberformat contains the number formats that gpu_view's page and gpudoctor top use.
// Formats are tables, not code, so that the page's JavaScript can also use them.
package numberformat

import (
	"math"
	"strconv"
)

// Step describes how to format numbers below a bound.
type Step struct {
	// Below is the exclusive upper bound. The last step of a format has no upper bound, so Below is
	// 0.
	Below float64 `json:"below,omitempty"`
	// To convert a number to the unit, multiply the number by Factor. Digits is the number of
	// decimal places.
	Factor float64 `json:"factor"`
	Digits int     `json:"digits"`
	// Unit is the text after the number. In a terminal, Short replaces Unit, because the column
	// header contains the rest of the unit.
	Unit  string `json:"unit"`
	Short string `json:"-"`
	// If Text is set, Text replaces the number and the unit.
	Text string `json:"text,omitempty"`
}

// Format is a list of steps. The first step whose upper bound is greater than a number determines
// how the number is formatted.
type Format []Step

// aboveZero is the upper bound of a step that applies only to the number 0.
const aboveZero = math.SmallestNonzeroFloat64

// The formats expect ratios as fractions, rates in bytes per second, sizes in bytes, and durations
// in seconds.
var (
	Percent = Format{
		{Below: aboveZero, Factor: 100, Unit: "%", Short: "%"},
		{Below: 0.0995, Factor: 100, Digits: 1, Unit: "%", Short: "%"},
		{Below: 0.995, Factor: 100, Unit: "%", Short: "%"},
		{Below: 1, Text: ">99%"},
		{Factor: 100, Unit: "%", Short: "%"},
	}
	Rate = func() Format {
		out := Format{{Below: aboveZero, Factor: 1, Unit: " B/s"}}
		unit := 1.0
		for _, prefix := range []string{"", "k", "M", "G", "T"} {
			one := Step{Below: 9.95 * unit, Factor: 1 / unit, Digits: 1, Unit: " " + prefix + "B/s", Short: prefix}
			ten := one
			ten.Below, ten.Digits = 999.5*unit, 0
			out = append(out, one, ten)
			unit *= 1000
		}
		out[len(out)-1].Below = 0
		return out
	}()
	Size      = Format{{Factor: 1.0 / (1 << 30), Digits: 1, Unit: " GiB"}}
	Power     = Format{{Factor: 1, Unit: " W", Short: "W"}}
	Celsius   = Format{{Factor: 1, Unit: " °C", Short: "°C"}}
	Frequency = Format{{Factor: 1e-6, Unit: " MHz"}}
	Count     = Format{{Factor: 1}}
	// Errors has a unit, so that users do not mistake a number of errors for an error code.
	Errors   = Format{{Below: 0.5, Factor: 1}, {Below: 1.5, Factor: 1, Unit: " error"}, {Factor: 1, Unit: " errors"}}
	Duration = Format{
		{Below: 90, Factor: 1, Unit: " s"},
		{Below: 5400, Factor: 1.0 / 60, Unit: " min"},
		{Below: 172800, Factor: 1.0 / 3600, Digits: 1, Unit: " h"},
		{Factor: 1.0 / 86400, Digits: 1, Unit: " d"},
	}
)

// All maps the name of each format to the format.
var All = map[string]Format{
	"percent": Percent, "rate": Rate, "size": Size, "power": Power, "celsius": Celsius, "frequency": Frequency, "count": Count, "errors": Errors,
	"duration": Duration,
}

// OfUnit returns the name of the format for metrics with the given unit, or false if there is no
// format for the unit.
func OfUnit(unit string) (name string, ok bool) {
	name, ok = map[string]string{"1": "percent", "By/s": "rate", "{error}": "errors"}[unit]
	return name, ok
}

// Long formats a number with the unit. The number must not be NaN.
func (f Format) Long(v float64) string {
	s := f.step(v)
	return s.write(v, s.Unit)
}

// Short formats a number with the short unit. The number must not be NaN.
func (f Format) Short(v float64) string {
	s := f.step(v)
	return s.write(v, s.Short)
}

func (f Format) step(v float64) *Step {
	for i := range f {
		if f[i].Below == 0 || v < f[i].Below {
			return &f[i]
		}
	}
	return &f[len(f)-1]
}

func (s *Step) write(v float64, unit string) string {
	if s.Text != "" {
		return s.Text
	}
	power := math.Pow10(s.Digits)
	// The page's JavaScript performs the same operations. This code rounds the number itself,
	// because strconv and JavaScript's toFixed round halves differently. The conversion to float64
	// prevents the compiler from fusing multiplications and additions.
	scaled := float64(v * s.Factor * power)
	return strconv.FormatFloat(math.Floor(scaled+0.5)/power, 'f', s.Digits, 64) + unit
}
