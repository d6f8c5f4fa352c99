package signal

import "math"

// The bounds of plausible ratios. A ratio slightly outside [0, 1] is caused by rounding or
// sampling, so it is clamped. A ratio outside these bounds is invalid and must be dropped. If it
// were clamped, the device would appear busy or idle.
const (
	MinRatio = -0.05
	MaxRatio = 2
)

// Clamp limits a ratio to [0, 1]. If plausible is false, the ratio must be dropped.
func Clamp(ratio float64) (inRange float64, clamped, plausible bool) {
	switch {
	case math.IsNaN(ratio) || ratio < MinRatio || ratio > MaxRatio:
		return 0, false, false
	case ratio < 0:
		return 0, true, true
	case ratio > 1:
		return 1, true, true
	}
	return ratio, false, true
}

// IsRatio reports whether the metric's values are ratios that cannot exceed 1.
func (m *Metric) IsRatio() bool { return m.Unit == "1" && m.Kind == Gauge && !m.MayExceed1 }
