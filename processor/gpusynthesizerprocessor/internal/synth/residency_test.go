package synth

import (
	"maps"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/amd"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/ascend"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/dcgm"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/exporters"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/intel"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/neuron"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/tpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

var mi300x = map[string]string{"gpu_id": "0", "card_model": "102-G30211-0C", "gpu_uuid": "U1", "hostname": "h"}

// The result must be exact for random clocks, gaps, resets, and missing rows.
func TestATimeThatIsCountedInTicksIsExact(t *testing.T) {
	const (
		clockName = "gpu_violation_current_accumulated_counter"
		stateName = "gpu_violation_ppt_residency_accumulated"
		series    = "AMD U1 gpu.clock.throttle.time{power}"
	)
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 18))
		s := New(Options{MaxDevices: 10, Disabled: []*signal.Metric{signal.GPUSignalAvailable}}).Begin(time.Time{})
		clock, state := r.Int64N(1<<40), r.Int64N(1<<30)
		var before struct{ at, clock, state int64 }
		total, counted := new(big.Rat), int64(0)
		for at := int64(1000); at < 3000; at += 1 + r.Int64N(90) {
			ticks := r.Int64N(1 << r.IntN(30))
			clock += ticks
			state += r.Int64N(ticks + 1)
			switch r.IntN(12) {
			case 0:
				clock, state = r.Int64N(1000), r.Int64N(1000) // the driver was reloaded
			case 1:
				state += ticks // the state now advances by at least as many ticks as the clock
			case 2:
				state -= r.Int64N(1 + state/2)
			}
			var rows []exposed
			hasClock, hasState := r.IntN(8) > 0, r.IntN(8) > 0
			if hasClock {
				rows = append(rows, exposed{amd.Exporter, clockName, mi300x, float64(clock)})
			}
			if hasState {
				rows = append(rows, exposed{amd.Exporter, stateName, mi300x, float64(state)})
			}
			// Values that mean "no value" are ignored. A clock value of 0 means that the clock is
			// not available.
			hasClock, hasState = hasClock && clock != 0 && !amd.Exporter.BlankValue(float64(clock)), hasState && !amd.Exporter.BlankValue(float64(state))
			got, has := flush(t, s, at, rows...)[series]
			if !hasClock || !hasState {
				assert.False(t, has, "seed %d at %d: a counter is missing", seed, at)
				continue
			}
			clocked, stayed := clock-before.clock, state-before.state
			wanted := before.at == 0
			if absurd := !wanted && clocked >= 0 && (stayed < 0 || stayed > clocked); absurd {
				counted++
			}
			if !wanted && clocked > 0 && stayed >= 0 && stayed <= clocked {
				share := new(big.Rat).SetFrac64(stayed, clocked)
				total.Add(total, share.Mul(share, new(big.Rat).SetInt64(at-before.at)))
				wanted = true
			}
			before.at, before.clock, before.state = at, clock, state
			exact, _ := total.Float64()
			if assert.Equal(t, wanted, has, "seed %d at %d", seed, at) && has {
				assert.InDelta(t, exact, got, 1e-9*(1+exact), "seed %d at %d", seed, at)
			}
		}
		assert.Equal(t, counted, s.TakeStats().Dropped[DropAbsurd], "seed %d", seed)
	}
}

func TestTheRateOfASumIgnoresIncreasesOfMissingParts(t *testing.T) {
	a, b := partKey{label: "a"}, partKey{label: "b"}
	s := &sum{}
	for _, step := range []struct {
		values map[partKey]float64
		want   float64
		ok     bool
		why    string
	}{
		{map[partKey]float64{a: 1, b: 1}, 2, true, "the first sum includes earlier counts"},
		{map[partKey]float64{a: 2}, 0, false, "part b is missing"},
		{map[partKey]float64{a: 3, b: 3}, 6, true, "part b returns: its increase since the last sum is counted"},
		{map[partKey]float64{a: 4}, 0, false, "part b is missing again"},
		{map[partKey]float64{a: 5}, 8, true, "part b remains missing: the sum continues with part a"},
		{map[partKey]float64{a: 6, b: 6}, 9, true, "part b returns: the time of its increase is unknown"},
		{map[partKey]float64{a: 7, b: 7}, 11, true, "part b is counted again"},
		{map[partKey]float64{a: 8}, 0, false, "part b is missing"},
		{map[partKey]float64{a: 9, b: 0}, 9, true, "part b was reset while it was missing"},
	} {
		got, ok := s.add(s.time+1, step.values, true)
		assert.Equal(t, step.ok, ok, step.why)
		assert.InDelta(t, step.want, got, 0, step.why)
	}
}

func TestASumOfCountersContinuesIfAPartIsMissing(t *testing.T) {
	a, b, c := partKey{label: "a"}, partKey{label: "b"}, partKey{label: "c"}
	s := &sum{}
	for _, step := range []struct {
		at     int64
		values map[partKey]float64
		want   float64
		why    string
	}{
		{1, map[partKey]float64{a: 10, b: 5}, 15, "what was counted before is told"},
		{2, map[partKey]float64{a: 11}, 16, "a part without a row keeps its value"},
		{3, map[partKey]float64{a: 11, b: 7}, 18, "and goes on from there"},
		{4, map[partKey]float64{a: 11, b: 7, c: 100}, 18, "what a new part counted nobody saw"},
		{5, map[partKey]float64{a: 11, b: 7, c: 103}, 21, "but what it counts from then on"},
		{6, map[partKey]float64{a: 1, b: 0, c: 2}, 3, "a reset of all is a reset"},
	} {
		got, ok := s.add(step.at, step.values, false)
		assert.True(t, ok)
		assert.InDelta(t, step.want, got, 0, step.why)
	}
	_, ok := s.add(6, map[partKey]float64{a: 2}, false)
	assert.False(t, ok, "a scrape that is not newer has no share")
}

// In this test, one node has devices from several vendors with the same ID. Each device has all
// fields of its vendor's table.
func TestRowsOfAVendorDoNotChangeDevicesOfOtherVendors(t *testing.T) {
	devices := map[*catalogue.Exporter]map[string]string{
		dcgm.Exporter:   {"UUID": "GPU-1"},
		amd.Exporter:    {"gpu_id": "0", "card_model": "m", "gpu_uuid": "GPU-1"},
		tpu.Exporter:    {"make": "cloud-tpu", "accelerator_id": "GPU-1"},
		neuron.Exporter: {"instance_id": "GPU-1", "instance_type": "inf1.xlarge", "runtime_tag": "1"},
		intel.Exporter:  {"hw.id": "GPU-1", "pci.bdf": "0000:01:00.0"},
		ascend.Exporter: {"id": "0", "vdie_id": "GPU-1"},
	}
	vendors := map[string][]exposed{}
	for _, x := range exporters.All {
		if x.OfContainers {
			continue
		}
		require.NotNil(t, devices[x], "add a device of %s to the table above", x.Name)
		for _, f := range x.Fields() {
			labels := maps.Clone(devices[x])
			for _, name := range x.Labels[catalogue.RoleCut] {
				if f.Cut != nil {
					labels[name] = f.Cut[0]
				}
			}
			vendors[x.Vendor] = append(vendors[x.Vendor], exposed{of: x, name: f.Exposed(), labels: labels})
		}
	}
	partition := map[string]string{"gpu_id": "0", "card_model": "m", "gpu_compute_partition_type": "cpx", "gpu_partition_id": "1", "serial_number": "GPU-1"}
	vendors["AMD"] = append(vendors["AMD"], exposed{of: amd.Exporter, name: "gpu_energy_consumed", labels: partition})
	vendors["NVIDIA"] = append(vendors["NVIDIA"], exposed{of: dcgm.Exporter, name: "DCGM_FI_DEV_FB_USED", labels: map[string]string{"UUID": "GPU-1", "GPU_I_ID": "1"}})
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 9))
		apart := map[string]*Batch{}
		for vendor := range vendors {
			apart[vendor] = New(Options{MaxDevices: 50}).Begin(time.Time{})
		}
		together := New(Options{MaxDevices: 50}).Begin(time.Time{})
		for at := int64(10); at < 200; at += 10 {
			want := map[string]float64{}
			var all []exposed
			for vendor, rows := range vendors {
				var some []exposed
				for _, row := range rows {
					if row.value = float64(r.IntN(2000)); r.IntN(3) > 0 {
						some = append(some, row)
					}
				}
				maps.Copy(want, flush(t, apart[vendor], at, some...))
				all = append(all, some...)
			}
			r.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
			assert.Equal(t, want, flush(t, together, at, all...), "seed %d at %d", seed, at)
		}
	}
}
