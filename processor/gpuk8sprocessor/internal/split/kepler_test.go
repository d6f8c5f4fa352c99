package split

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

var unknown = math.NaN()

// gi returns a MIG instance. The activity is the instance's GR_ENGINE_ACTIVE. For each utilization,
// the instance has one process.
func gi(activity float64, utilization ...float64) *Instance {
	in := &Instance{Slices: 1}
	in.Activity = Unknown()
	in.Activity.Engine = activity
	for _, u := range utilization {
		in.Processes = append(in.Processes, Process{Utilization: u})
	}
	return in
}

// The test cases are Kepler's test vectors and use the same weighting as Kepler. If Kepler's result
// differs from the wanted result, the why field describes the error in Kepler.
func TestKeplersVectors(t *testing.T) {
	for _, tt := range []struct {
		name      string
		power     float64
		idle      float64
		processes []float64 // processes contains the utilization of each process on the board itself.
		instances []*Instance
		want      []float64 // want is the power of each process, in W.
		kepler    []float64 // kepler is Kepler's result, or nil if it equals want.
		why       string
	}{
		{
			name: "two instances by activity", power: 100, idle: 40,
			instances: []*Instance{gi(.6, unknown), gi(.4, unknown)}, want: []float64{36, 24},
		},
		{
			name: "the first of two boards", power: 200, idle: 50,
			instances: []*Instance{gi(.6, unknown), gi(.4, unknown)}, want: []float64{90, 60},
		},
		{
			name: "the second of two boards", power: 100, idle: 30,
			instances: []*Instance{gi(1, unknown)}, want: []float64{70},
		},
		{
			name: "an idle instance", power: 100, idle: 40,
			instances: []*Instance{gi(.5, unknown), gi(0, unknown)}, want: []float64{60, 0},
		},
		{
			name: "an instance without activity", power: 100, idle: 40,
			instances: []*Instance{gi(unknown, unknown), gi(.5, unknown)}, want: []float64{30, 30},
			kepler: []float64{0, 60}, why: "Kepler charges the power of the first instance to the second",
		},
		{
			name: "an instance whose processes are unknown", power: 100, idle: 40,
			instances: []*Instance{gi(.5), gi(.5, unknown)}, want: []float64{30},
			kepler: []float64{60}, why: "Kepler charges the power of an instance with unknown processes to the other instance",
		},
		{
			name: "no utilization within an instance", power: 100, idle: 40,
			instances: []*Instance{gi(1, unknown, unknown)}, want: []float64{30, 30},
		},
		{
			name: "no instances and no utilization", power: 100, idle: 40,
			processes: []float64{unknown, unknown}, want: []float64{30, 30},
		},
		{
			name: "by utilization on a shared board", power: 100, idle: 40,
			processes: []float64{.75, .25}, want: []float64{45, 15},
		},
		{
			name: "no measurements", power: 100, idle: 40,
			instances: []*Instance{gi(unknown), gi(unknown)}, want: nil,
		},
		{
			name: "the idle baseline is above the power", power: 80, idle: 100,
			instances: []*Instance{gi(1, unknown)}, want: []float64{0},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := Board{Measured: tt.power, Idle: tt.idle, Instances: tt.instances}
			b.Activity = Unknown()
			for _, u := range tt.processes {
				b.Processes = append(b.Processes, Process{Utilization: u})
			}
			b.Split(false)
			var got []float64
			for _, d := range append([]*Instance{{Device: b.Device}}, b.Instances...) {
				for _, p := range d.Processes {
					got = append(got, p.Power)
				}
			}
			assert.InDeltaSlice(t, append([]float64{}, tt.want...), append([]float64{}, got...), 1e-9)
			assert.InDelta(t, tt.power, b.Idle+b.Active, 1e-9)
			if tt.kepler != nil {
				assert.NotEqual(t, tt.kepler, got, tt.why)
			}
		})
	}
}
