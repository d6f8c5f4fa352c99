package split

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

func uid(s string) gpudata.Holder { return gpudata.Holder{Namespace: "ns", Pod: s, UID: s} }

func held(by ...string) Device {
	d := Device{Activity: Unknown()}
	for _, s := range by {
		d.Holders = append(d.Holders, Holder{User: &gpudata.User{Holder: uid(s)}})
	}
	return d
}

// charges returns the power that is charged to each holder of the device.
func charges(d *Device) map[string]float64 {
	got := map[string]float64{}
	for _, h := range d.Holders {
		got[h.Holder.UID+"/"+h.Holder.Container] += h.Power
	}
	return got
}

func TestOneSourceIsChosenForTheEntireBoard(t *testing.T) {
	full := Activity{Engine: .5, SM: .4, Tensor: .1, DRAM: .2, Utilization: .5}
	without := func(a Activity, fields ...func(*Activity)) Activity {
		for _, f := range fields {
			f(&a)
		}
		return a
	}
	engine := func(a *Activity) { a.Engine = unknown }
	sm := func(a *Activity) { a.SM = unknown }
	dram := func(a *Activity) { a.DRAM = unknown }
	tensor := func(a *Activity) { a.Tensor = unknown }
	frozenEngine := func(a *Activity) { a.Engine, a.Utilization = 0, 0 }
	frozenSM := func(a *Activity) { a.SM = 0 }
	for _, tt := range []struct {
		name       string
		power      float64
		a, b       Activity
		want       Source
		wantFrozen []Source
	}{
		{name: "all sources are available", a: full, b: full, want: Engine},
		{name: "one instance lacks the engine source", a: full, b: without(full, engine), want: SM},
		{name: "both instances lack engine and SM", a: without(full, engine, sm), b: without(full, engine, sm), want: TensorDRAM},
		{name: "tensor activity without DRAM activity is not used", a: without(full, engine, sm, dram), b: full, want: Slices},
		{name: "DRAM activity without tensor activity is not used", a: without(full, engine, sm, tensor), b: full, want: Slices},
		{name: "no source is available", a: Unknown(), b: Unknown(), want: Slices},
		{
			name: "a zero engine source with busy multiprocessors is frozen", power: 100,
			a: without(full, frozenEngine, func(a *Activity) { a.SM = .9 }), b: full, want: SM, wantFrozen: []Source{Engine},
		},
		{
			name: "zero engine and SM sources with busy memory are frozen", power: 100,
			a:    Activity{0, 0, 0, .9, unknown},
			b:    Activity{0, 0, 0, 0, unknown},
			want: TensorDRAM, wantFrozen: []Source{Engine, SM},
		},
		{
			name: "all zero sources with a high driver utilization are frozen", power: 100,
			a:    Activity{0, 0, 0, 0, .98},
			b:    Activity{0, 0, 0, 0, 0},
			want: Slices, wantFrozen: []Source{Engine, SM, TensorDRAM},
		},
		{
			name: "a zero at idle power is valid", power: 59,
			a: without(full, frozenEngine, func(a *Activity) { a.SM = .9 }), b: full, want: Engine,
		},
		{
			name: "a zero at low utilization is valid", power: 100,
			a: without(full, frozenEngine, frozenSM), b: full, want: Engine,
		},
		{
			name: "the sum of tensor and DRAM activity does not show a busy instance", power: 100,
			a: Activity{0, 0, .4, .4, unknown}, b: full, want: Engine,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := Board{Measured: max(tt.power, 41), Idle: 40, Device: held()}
			b.Instances = []*Instance{{Device: Device{Activity: tt.a}, Slices: 1}, {Device: Device{Activity: tt.b}, Slices: 1}}
			b.Split(true)
			assert.Equal(t, tt.want, b.Source, b.Source.String())
			var frozen []Source
			for s, f := range b.Frozen {
				if f {
					frozen = append(frozen, Source(s))
				}
			}
			assert.Equal(t, tt.wantFrozen, frozen)
		})
	}
}

func TestASingleProcessShowsThatASourceIsFrozen(t *testing.T) {
	b := Board{Measured: 300, Idle: 40, Device: held(), Instances: []*Instance{gi(0, .9), gi(.2, .1)}}
	b.Split(false)
	assert.Equal(t, Slices, b.Source)
	assert.True(t, b.Frozen[Engine])
}

func TestActivityAboveOneIsClamped(t *testing.T) {
	b := Board{Measured: 140, Idle: 40, Device: held(), Instances: []*Instance{gi(unknown), gi(unknown)}}
	b.Instances[0].Activity.SM, b.Instances[1].Activity.SM = 1.294, 1
	b.Split(false)
	assert.Equal(t, SM, b.Source)
	assert.InDelta(t, 50, b.Instances[0].Power, 1e-9)
}

func TestABusySliceCountsTheSameInEveryInstance(t *testing.T) {
	b := Board{Measured: 180, Idle: 40, Device: held(), Instances: []*Instance{gi(1), gi(1), gi(1)}}
	b.Instances[1].Slices, b.Instances[2].Slices = 2, 4
	b.Split(true)
	for i, want := range []float64{20, 40, 80} {
		assert.InDelta(t, want, b.Instances[i].Power, 1e-9)
		assert.False(t, b.Instances[i].Estimated)
	}
}

func TestWithUnknownSizesOnlyActivityCounts(t *testing.T) {
	b := Board{Measured: 100, Idle: 40, Device: held(), Instances: []*Instance{gi(.5), gi(.5)}}
	b.Instances[0].Slices, b.Instances[1].Slices = 4, 0
	b.Split(true)
	for _, in := range b.Instances {
		assert.InDelta(t, 30, in.Power, 1e-9)
		assert.True(t, in.Estimated)
	}
}

func TestNoHolderIsChargedWhenEveryInstanceIsIdle(t *testing.T) {
	b := Board{Measured: 60, Idle: 40, Device: held(), Instances: []*Instance{gi(0), gi(0)}}
	b.Instances[0].Holders = held("a").Holders
	b.Split(true)
	assert.Equal(t, Engine, b.Source)
	assert.Zero(t, b.Instances[0].Power)
	assert.InDelta(t, 20, b.Unattributed, 1e-9)
}

func TestUsersOfTheBoardAreNotChargedUnderMIG(t *testing.T) {
	b := Board{Measured: 100, Idle: 40, Device: held("a"), Instances: []*Instance{gi(1)}}
	b.Processes = []Process{{Holder: uid("a"), Utilization: 1}}
	b.Split(false)
	assert.Zero(t, b.Holders[0].Power)
	assert.True(t, math.IsNaN(b.Processes[0].Power), "the power of the process is unknown, not zero")
	assert.InDelta(t, 60, b.Unattributed, 1e-9)
}

func TestTheOnlyHolderOfAnInstanceIsChargedForAnUnmatchedProcess(t *testing.T) {
	b := Board{Measured: 100, Idle: 40, Device: held(), Instances: []*Instance{gi(.6), gi(.2)}}
	b.Instances[0].Holders = held("a").Holders
	b.Instances[0].Processes = []Process{{Utilization: unknown}}
	b.Split(false)
	assert.InDelta(t, 45, b.Instances[0].Holders[0].Power, 1e-9)
	assert.True(t, b.Instances[0].Holders[0].Estimated)
	assert.InDelta(t, 15, b.Unattributed, 1e-9)
}

func TestHoldersAreChargedForTheirUsage(t *testing.T) {
	main, side := uid("a"), uid("a")
	main.Container, side.Container = "main", "side"
	byName := gpudata.Holder{Namespace: "ns", Pod: "b"}
	for _, tt := range []struct {
		name         string
		holders      []gpudata.Holder
		processes    []Process
		want         map[string]float64
		estimated    []bool
		unattributed float64
	}{
		{name: "no holder", unattributed: 60, want: map[string]float64{}},
		{name: "one holder", holders: []gpudata.Holder{uid("a")}, want: map[string]float64{"a/": 60}, estimated: []bool{false}},
		{
			name: "two holders, no processes", holders: []gpudata.Holder{uid("a"), uid("b")},
			want: map[string]float64{"a/": 30, "b/": 30}, estimated: []bool{true, true},
		},
		{
			name: "by utilization", holders: []gpudata.Holder{uid("a"), uid("b")},
			processes: []Process{{Holder: uid("a"), Utilization: .2}, {Holder: uid("b"), Utilization: .1}, {Holder: uid("b"), Utilization: .3}},
			want:      map[string]float64{"a/": 20, "b/": 40}, estimated: []bool{false, false},
		},
		{
			name: "a process of the host", holders: []gpudata.Holder{uid("a")},
			processes: []Process{{Holder: uid("a"), Utilization: .5}, {Utilization: .1}},
			want:      map[string]float64{"a/": 50}, estimated: []bool{false}, unattributed: 10,
		},
		{
			name: "a single holder and an unmatched process", holders: []gpudata.Holder{uid("a")},
			processes: []Process{{Utilization: .5}},
			want:      map[string]float64{"a/": 60}, estimated: []bool{true},
		},
		{
			name: "a single holder and unmatched processes without utilization", holders: []gpudata.Holder{uid("a")},
			processes: []Process{{Utilization: unknown}, {ContainerID: "0123", Utilization: unknown}},
			want:      map[string]float64{"a/": 60}, estimated: []bool{true},
		},
		{
			name: "an unmatched process and a process of another pod", holders: []gpudata.Holder{uid("a")},
			processes: []Process{{Utilization: .3}, {Holder: uid("x"), Utilization: .1}},
			want:      map[string]float64{"a/": 45}, estimated: []bool{true}, unattributed: 15,
		},
		{
			name: "an unmatched process and two holders", holders: []gpudata.Holder{uid("a"), uid("b")},
			processes: []Process{{Holder: uid("a"), Utilization: .5}, {Utilization: .5}},
			want:      map[string]float64{"a/": 30, "b/": 0}, estimated: []bool{false, false}, unattributed: 30,
		},
		{
			name: "a process of a pod that does not hold the device", holders: []gpudata.Holder{uid("a")},
			processes: []Process{{Holder: uid("x"), Utilization: .5}},
			want:      map[string]float64{"a/": 0}, estimated: []bool{false}, unattributed: 60,
		},
		{
			name: "a holder without a process", holders: []gpudata.Holder{uid("a"), uid("b")},
			processes: []Process{{Holder: uid("b"), Utilization: .5}},
			want:      map[string]float64{"a/": 0, "b/": 60}, estimated: []bool{false, false},
		},
		{
			name: "a utilization is missing", holders: []gpudata.Holder{uid("a"), uid("b")},
			processes: []Process{{Holder: uid("a"), Utilization: .5}, {Holder: uid("b"), Utilization: unknown}},
			want:      map[string]float64{"a/": 30, "b/": 30}, estimated: []bool{true, true},
		},
		{
			name: "all utilization is zero", holders: []gpudata.Holder{uid("a"), uid("b")},
			processes: []Process{{Holder: uid("a")}, {Holder: uid("b")}, {Holder: uid("b")}},
			want:      map[string]float64{"a/": 20, "b/": 40}, estimated: []bool{true, true},
		},
		{
			name: "equal parts within one container do not make its power an estimate", holders: []gpudata.Holder{uid("a")},
			processes: []Process{{Holder: uid("a"), Utilization: unknown}, {Holder: uid("a"), Utilization: unknown}},
			want:      map[string]float64{"a/": 60}, estimated: []bool{false},
		},
		{
			name: "a process in one of two containers", holders: []gpudata.Holder{main, side},
			processes: []Process{{Holder: uid("a"), Utilization: .5}},
			want:      map[string]float64{"a/main": 30, "a/side": 30}, estimated: []bool{true, true},
		},
		{
			name: "a process whose container is known", holders: []gpudata.Holder{main, side},
			processes: []Process{{Holder: side, Utilization: .5}},
			want:      map[string]float64{"a/main": 0, "a/side": 60}, estimated: []bool{false, false},
		},
		{
			name: "a pod without a UID is matched by its name", holders: []gpudata.Holder{uid("a"), byName},
			processes: []Process{{Holder: uid("b"), Utilization: .5}},
			want:      map[string]float64{"a/": 0, "/": 60}, estimated: []bool{false, false},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := Board{Measured: 100, Idle: 40, Device: Device{Activity: Unknown(), Processes: tt.processes}}
			for _, c := range tt.holders {
				b.Holders = append(b.Holders, Holder{User: &gpudata.User{Holder: c}})
			}
			b.Split(false)
			got := charges(&b.Device)
			require.Len(t, got, len(tt.want))
			for k, w := range tt.want {
				assert.InDelta(t, w, got[k], 1e-9, k)
			}
			for i, e := range tt.estimated {
				assert.Equal(t, e, b.Holders[i].Estimated, b.Holders[i].Holder)
			}
			assert.InDelta(t, tt.unattributed, b.Unattributed, 1e-9)
			assert.Equal(t, None, b.Source)
		})
	}
}
