package store

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestThrottlingIsExactIfThereIsACounterAndSampledOtherwise(t *testing.T) {
	for _, tt := range []struct {
		name   string
		window map[Field]float32
		want   Throttle
	}{
		{"samples say more than the policy's counter", map[Field]float32{violation("power"): 0.69, sampled("sw_power_cap"): 1}, Throttle{0.69, "power", false}},
		{"samples say more than the reason's counter", map[Field]float32{reason("sw_power_cap").exact: 0.4, sampled("sw_power_cap"): 1}, Throttle{0.4, "sw_power_cap", false}},
		{"a policy's counter goes before a reason's", map[Field]float32{violation("thermal"): 0.2, reason("hw_thermal").exact: 0.3, sampled("hw_thermal"): 1}, Throttle{0.2, "thermal", false}},
		{"a counter of one policy says nothing of another", map[Field]float32{violation("power"): 0.69, sampled("sw_thermal"): 1}, Throttle{1, "sw_thermal", true}},
		{"a counter of one reason says nothing of another", map[Field]float32{reason("sw_power_cap").exact: 0.1, sampled("hw_power_brake"): 0.5}, Throttle{0.5, "hw_power_brake", true}},
		{"a counter that says 0", map[Field]float32{violation("thermal"): 0, sampled("hw_thermal"): 1}, Throttle{0, "thermal", false}},
		{"samples alone", map[Field]float32{sampled("sw_power_cap"): 0.25, sampled("sw_thermal"): 0.5}, Throttle{0.5, "sw_thermal", true}},
		{"as much by samples as by a counter", map[Field]float32{sampled("sw_power_cap"): 0.5, violation("thermal"): 0.5}, Throttle{0.5, "thermal", false}},
		{"a sync boost by its own counter", map[Field]float32{violation("sync_boost"): 0.1, sampled("sync_boost"): 0.9}, Throttle{0.1, "sync_boost", false}},
		{"a board limit", map[Field]float32{violation("board_limit"): 0.3, sampled("sw_power_cap"): 0.1}, Throttle{0.3, "board_limit", false}},
		{"a hardware slowdown that the thermal one explains", map[Field]float32{violation("thermal"): 0.69, sampled("hw_thermal"): 1, sampled("hw_slowdown"): 1}, Throttle{0.69, "thermal", false}},
		{"a hardware slowdown that the power brake explains", map[Field]float32{violation("power"): 0.4, sampled("hw_power_brake"): 0.5, sampled("hw_slowdown"): 0.5}, Throttle{0.4, "power", false}},
		{"a hardware slowdown that nothing explains", map[Field]float32{violation("power"): 0, violation("thermal"): 0, sampled("hw_thermal"): 0, sampled("hw_slowdown"): 0.25}, Throttle{0.25, "hw_slowdown", true}},
		{"a hardware slowdown without the bits that explain it", map[Field]float32{sampled("hw_slowdown"): 0.25}, Throttle{0.25, "hw_slowdown", true}},
		{"a policy of AMD", map[Field]float32{violation("thermal"): 0.1, violation("vr_thermal"): 0.4}, Throttle{0.4, "vr_thermal", false}},
		{"a reason of Intel", map[Field]float32{sampled("current_limit"): 0.5, sampled("voltage"): 0}, Throttle{0.5, "current_limit", true}},
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
