package nvml

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// For each change, the last version before the change and the first version after the change come
// from NVIDIA's headers.
func TestTheDriverVersionDeterminesTheNumbersOfTheSlowdownCounters(t *testing.T) {
	for driver, want := range map[string]FieldID{
		"450.51":      0,
		"535.183.01":  0,
		"565.57.01":   0,
		"570.86.16":   0, // 251 is power smoothing
		"570.211.01":  0,
		"575.51.02":   251,
		"575.64":      251,
		"580.65.05":   251, // A vGPU host driver.
		"580.65.06":   251, // The driver in CUDA 13.0.
		"580.76.05":   251,
		"580.82.02":   0, // between two headers
		"580.82.07":   269,
		"580.82.09":   269,
		"580.95.05":   269,
		"580.173.02":  269,
		"590.44.01":   269,
		"595.80":      269,
		"610.43.03":   269,
		"1000.1":      269,
		"576.02":      0, // A Windows driver.
		"580.97":      0, // A Windows and WSL driver from before the change, even though its number is higher than 580.82.
		"581.15":      0,
		"580.00":      0, // the driver for Jetson
		"580":         0,
		"":            0,
		"R580":        0,
		"580.82.x":    0,
		"\t590.44.01": 0,
	} {
		assert.Equal(t, want, firstReason(driver), "driver %q", driver)
	}
}
