package signal

import "math"

// Bounds of plausible ratios. Rounding or sampling can cause a plausible ratio to be outside [0,
// 1]. Such a ratio is clamped. A ratio outside the bounds is invalid and must be dropped, because
// clamping it would make the device appear busy or idle.
const (
	MinRatio = -0.05
	MaxRatio = 2
)

// Clamp limits a ratio to [0, 1]. If the last result is false, the ratio is implausible and must be
// dropped.
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

// IsRatio reports whether the values of the metric are ratios that cannot exceed 1.
func (m *Metric) IsRatio() bool { return m.Unit == "1" && m.Kind == Gauge && !m.MayExceed1 }
