package store

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestThrottlingIsExactWhereThereIsACounterAndSampledWhereThereIsNone(t *testing.T) {
	for _, tt := range []struct {
		name   string
		window map[Field]float32
		want   Throttle
	}{
		{"samples say more than the policy's counter", map[Field]float32{ViolationPower: 0.69, ReasonSWPowerCap: 1}, Throttle{0.69, "power", false}},
		{"samples say more than the reason's counter", map[Field]float32{TimeSWPowerCap: 0.4, ReasonSWPowerCap: 1}, Throttle{0.4, "sw_power_cap", false}},
		{"a policy's counter goes before a reason's", map[Field]float32{ViolationThermal: 0.2, TimeHWThermal: 0.3, ReasonHWThermal: 1}, Throttle{0.2, "thermal", false}},
		{"a counter of one policy says nothing of another", map[Field]float32{ViolationPower: 0.69, ReasonSWThermal: 1}, Throttle{1, "sw_thermal", true}},
		{"a counter of one reason says nothing of another", map[Field]float32{TimeSWPowerCap: 0.1, ReasonHWPowerBrake: 0.5}, Throttle{0.5, "hw_power_brake", true}},
		{"a counter that says 0", map[Field]float32{ViolationThermal: 0, ReasonHWThermal: 1}, Throttle{0, "thermal", false}},
		{"samples alone", map[Field]float32{ReasonSWPowerCap: 0.25, ReasonSWThermal: 0.5}, Throttle{0.5, "sw_thermal", true}},
		{"as much by samples as by a counter", map[Field]float32{ReasonSWPowerCap: 0.5, ViolationThermal: 0.5}, Throttle{0.5, "thermal", false}},
		{"a sync boost by its own counter", map[Field]float32{ViolationSyncBoost: 0.1, ReasonSyncBoost: 0.9}, Throttle{0.1, "sync_boost", false}},
		{"a board limit", map[Field]float32{ViolationBoardLimit: 0.3, ReasonSWPowerCap: 0.1}, Throttle{0.3, "board_limit", false}},
		{"a hardware slowdown that the thermal one explains", map[Field]float32{ViolationThermal: 0.69, ReasonHWThermal: 1, ReasonHWSlowdown: 1}, Throttle{0.69, "thermal", false}},
		{"a hardware slowdown that the power brake explains", map[Field]float32{ViolationPower: 0.4, ReasonHWPowerBrake: 0.5, ReasonHWSlowdown: 0.5}, Throttle{0.4, "power", false}},
		{"a hardware slowdown that nothing explains", map[Field]float32{ViolationPower: 0, ViolationThermal: 0, ReasonHWThermal: 0, ReasonHWSlowdown: 0.25}, Throttle{0.25, "hw_slowdown", true}},
		{"a hardware slowdown without the bits that explain it", map[Field]float32{ReasonHWSlowdown: 0.25}, Throttle{0.25, "hw_slowdown", true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &Series{}
			at := s.row(epoch.UnixNano(), 60, 0)
			for f, v := range tt.window {
				s.set(at, f, v)
			}
			assert.Equal(t, tt.want, s.Throttled(at))
		})
	}
	s := &Series{}
	s.row(epoch.UnixNano(), 60, 0)
	assert.True(t, math.IsNaN(float64(s.Throttled(0).Ratio)), "nothing was observed")
}
