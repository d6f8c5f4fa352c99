package dcgmsim

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// exhibits returns the configurations to test: every scenario in every style that supports it.
func exhibits() []Config {
	var out []Config
	for _, style := range Styles() {
		for _, scenario := range Scenarios() {
			c := NewDefaultConfig()
			c.Style, c.Scenario = style, scenario
			if scenario != ScenarioMixed {
				c.GPUs = draRoles
			}
			if c.Validate() == nil {
				out = append(out, c)
			}
		}
	}
	return out
}

func TestTheTruthEqualsNumericIntegration(t *testing.T) {
	const step = 10 * time.Millisecond
	from, to := 17*time.Second, 100*time.Second
	s := newSimulation(t, func(*Config) {})
	for _, d := range s.Devices(0) {
		t.Run(fmt.Sprintf("%s gpu %d instance %d", d.Scenario, d.GPU, d.GPUInstance), func(t *testing.T) {
			e := s.entity(d)
			on := map[Reason]time.Duration{}
			var violated [violations]time.Duration
			var occupancy, load, joules float64
			for at := from; at < to; at += step {
				for _, c := range clockEvents {
					if s.Active(d, c.reason, at) {
						on[c.reason] += step
					}
				}
				for v, reasons := range map[Violation][2]Reason{
					ViolationPower:     {ReasonSWPowerCap, ReasonHWPowerBrake},
					ViolationThermal:   {ReasonSWThermal, ReasonHWThermal},
					ViolationSyncBoost: {ReasonSyncBoost, ReasonSyncBoost},
					ViolationLowUtil:   {ReasonGPUIdle, ReasonGPUIdle},
				} {
					if s.Active(d, reasons[0], at) || s.Active(d, reasons[1], at) {
						violated[v] += step
					}
				}
				occupancy += e.occupancy(at+step/2) * step.Seconds()
				load += e.story.load.at(e.phase+at+step/2) * step.Seconds()
				joules += e.gpu.watts(at+step/2) * step.Seconds()
			}
			for _, c := range clockEvents {
				assert.Equal(t, on[c.reason], s.ThrottledTime(d, c.reason, from, to), c.name)
			}
			for v := range violations {
				assert.Equal(t, violated[v], s.ViolationTime(d, v, from, to), "violation %d", v)
			}
			assert.InDelta(t, occupancy/(to-from).Seconds(), s.MeanOccupancy(d, from, to), 1e-9)
			assert.InDelta(t, load/(to-from).Seconds(), s.MeanLoad(d, from, to), 1e-9)
			assert.InDelta(t, joules, s.Energy(d, from, to), 1e-6)
		})
	}
}

// deviceKey returns a key that identifies the device of a row in the same way as hw.id.
func deviceKey(l labels.Labels) string {
	return l.Get("UUID") + "/" + l.Get("GPU_I_ID")
}

func TestCountersGrowByTheTruth(t *testing.T) {
	from, to := 41*time.Second, 163*time.Second
	s := newSimulation(t, func(c *Config) { c.SharedRows = SharedRowsCopies })
	before, after := parse(t, s.AppendBody(nil, 0, from)), parse(t, s.AppendBody(nil, 0, to))
	increase := func(name string) map[string]float64 {
		out := map[string]float64{}
		for _, v := range after.family(name) {
			out[deviceKey(v.Labels)] = v.number - before.samples[v.String()]
		}
		require.NotEmpty(t, out, name)
		return out
	}
	counters := map[string]func(Device) time.Duration{}
	for name, v := range map[string]Violation{
		"DCGM_FI_DEV_POWER_VIOLATION": ViolationPower, "DCGM_FI_DEV_THERMAL_VIOLATION": ViolationThermal,
		"DCGM_FI_DEV_SYNC_BOOST_VIOLATION": ViolationSyncBoost, "DCGM_FI_DEV_LOW_UTIL_VIOLATION": ViolationLowUtil,
	} {
		counters[name] = func(d Device) time.Duration { return s.ViolationTime(d, v, from, to) }
	}
	for name, r := range map[string]Reason{
		"SW_POWER_CAP": ReasonSWPowerCap, "SYNC_BOOST": ReasonSyncBoost, "SW_THERM_SLOWDOWN": ReasonSWThermal,
		"HW_THERM_SLOWDOWN": ReasonHWThermal, "HW_POWER_BRAKE_SLOWDOWN": ReasonHWPowerBrake,
	} {
		counters["DCGM_FI_DEV_CLOCKS_EVENT_REASON_"+name+"_NS"] = func(d Device) time.Duration { return s.ThrottledTime(d, r, from, to) }
	}
	energy := increase("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION")
	for name, truth := range counters {
		grown := increase(name)
		for _, d := range s.Devices(0) {
			assert.InDelta(t, float64(truth(d)), grown[exposedKey(d)], 0, "%s of %+v", name, d)
		}
	}
	for _, d := range s.Devices(0) {
		assert.InDelta(t, s.Energy(d, from, to)*1000, energy[exposedKey(d)], 1, "energy of %+v", d)
	}
}

// exposedKey returns the deviceKey of d's rows.
func exposedKey(d Device) string {
	if d.GPUInstance == 0 {
		return d.UUID + "/"
	}
	return d.UUID + "/" + strconv.Itoa(d.GPUInstance)
}

func TestTheBitmaskShowsTheActiveReasons(t *testing.T) {
	s := newSimulation(t, func(*Config) {})
	for at := time.Duration(0); at < time.Minute; at += 1700 * time.Millisecond {
		masks := map[string]float64{}
		for _, v := range parse(t, s.AppendBody(nil, 0, at)).family("DCGM_FI_DEV_CLOCKS_EVENT_REASONS") {
			masks[deviceKey(v.Labels)] = v.number
		}
		for _, d := range s.Devices(0) {
			var want Reason
			for _, c := range clockEvents {
				if s.Active(d, c.reason, at) {
					want |= c.reason
				}
			}
			assert.Equal(t, float64(want), masks[exposedKey(d)], "%+v at %s", d, at)
		}
	}
}

func TestCountersNeverFallWithoutARestart(t *testing.T) {
	for _, config := range exhibits() {
		if config.Scenario == ScenarioRestart || (config.Style != Style2 && config.Style != Style483) {
			continue // restarts are tested below; all styles have the same counters
		}
		t.Run(fmt.Sprintf("%s %s", config.Style, config.Scenario), func(t *testing.T) {
			s, err := New(config)
			require.NoError(t, err)
			last := map[string]float64{}
			for at := time.Duration(0); at < 200*time.Second; at += 23 * time.Second {
				e := parse(t, s.AppendBody(nil, 0, at))
				for _, l := range e.series {
					name := l.Get("__name__")
					if e.types[name] != counter || isRate(name) {
						continue
					}
					key, now := l.String(), e.samples[l.String()]
					require.GreaterOrEqual(t, now, last[key], "%s at %s", key, at)
					last[key] = now
				}
			}
		})
	}
}

// isRate reports whether a field is a rate even though the exporter declares the field as a
// counter.
func isRate(name string) bool {
	for _, part := range []string{"_THROUGHPUT", "PROF_PCIE_", "NVLINK_BANDWIDTH", "DCGM_EXP_XID_ERRORS_COUNT", "DCGM_EXP_CLOCK_EVENTS_COUNT"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// The limits are based on recordings of idle GPUs: one A100, one L4, one L40S, and seven H100s.
func TestAnIdleGPUIsIdle(t *testing.T) {
	for style, power := range map[Style]float64{Style3: 58, Style45: 68} {
		s := newSimulation(t, func(c *Config) { c.Style, c.Scenario, c.GPUs = style, ScenarioIdle, 1 })
		for _, at := range []time.Duration{0, 17 * time.Second, time.Minute} {
			e := parse(t, s.AppendBody(nil, 0, at))
			for name, bounds := range map[string][2]float64{
				"PROF_PCIE_TX_BYTES": {1e4, 2e5}, "PROF_PCIE_RX_BYTES": {1e4, 2e4},
				"PROF_NVLINK_TX_BYTES": {0, 0}, "PROF_NVLINK_RX_BYTES": {0, 0}, "DEV_NVLINK_BANDWIDTH_TOTAL": {0, 0},
				"PROF_GR_ENGINE_ACTIVE": {0, 0}, "PROF_SM_ACTIVE": {0, 0}, "PROF_DRAM_ACTIVE": {0, 0}, "PROF_PIPE_TENSOR_ACTIVE": {0, 0},
				"DEV_GPU_UTIL": {0, 0}, "DEV_MEM_COPY_UTIL": {0, 0}, "DEV_FB_USED": {0, 0},
				"DEV_SM_CLOCK": {210, 345}, "DEV_GPU_TEMP": {26, 32}, "DEV_MEMORY_TEMP": {25, 33},
				"DEV_POWER_USAGE": {power - 5, power + 5},
			} {
				got := e.only(t, "DCGM_FI_"+name).number
				assert.GreaterOrEqual(t, got, bounds[0], "%s %s at %s", style, name, at)
				assert.LessOrEqual(t, got, bounds[1], "%s %s at %s", style, name, at)
			}
		}
	}
}

func TestADeviceWithoutAHolderIsIdle(t *testing.T) {
	for _, c := range exhibits() {
		s, err := New(c)
		require.NoError(t, err)
		for _, d := range s.Devices(0) {
			busy := len(d.Pods)+len(d.Jobs) > 0
			assert.Equal(t, busy, s.MeanLoad(d, 0, time.Minute) > 0, "load of %+v", d)
			assert.Equal(t, busy, s.MeanOccupancy(d, 0, time.Minute) > 0, "memory of %+v", d)
			if d.GPUInstance == 0 {
				idle := s.ThrottledTime(d, ReasonGPUIdle, 0, time.Minute) == time.Minute
				assert.Equal(t, !busy, idle, "reason of %+v", d)
			}
		}
	}
}

func TestARestartSetsEveryCounterToZeroAndForgetsTheXID(t *testing.T) {
	s := newSimulation(t, func(c *Config) { c.Scenario, c.GPUs = ScenarioXIDBurst, 1 })
	s.restartEvery = 2 * time.Minute
	before := parse(t, s.AppendBody(nil, 0, 2*time.Minute-time.Millisecond))
	require.Positive(t, before.only(t, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION").number)
	require.InDelta(t, 31, before.only(t, "DCGM_FI_DEV_XID_ERRORS").number, 0)
	require.InDelta(t, 2, before.only(t, "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL").number, 0)

	after := parse(t, s.AppendBody(nil, 0, 2*time.Minute))
	for name, typ := range after.types {
		if typ == counter {
			for _, v := range after.family(name) {
				assert.Zero(t, v.number, "%s", v.String())
			}
		}
	}
	assert.Empty(t, after.family("DCGM_FI_DEV_XID_ERRORS"))
	assert.Empty(t, after.family("DCGM_EXP_XID_ERRORS_TOTAL"))
	assert.Equal(t, "0", fmt.Sprint(after.only(t, "DCGM_EXP_XID_ERRORS_COUNT").number))
}

func TestTheRestartScenarioRestartsEveryTwoMinutes(t *testing.T) {
	s := newSimulation(t, func(c *Config) { c.Scenario, c.GPUs = ScenarioRestart, 1 })
	energy := func(at time.Duration) float64 {
		return parse(t, s.AppendBody(nil, 0, at)).only(t, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION").number
	}
	assert.Greater(t, energy(119*time.Second), energy(121*time.Second))
	d := s.Devices(0)[0]
	assert.InDelta(t, s.Energy(d, 240*time.Second, 251*time.Second)*1000, energy(251*time.Second), 1, "what was used since the restart")
}

func TestUsedAndFreeMemoryAddUpAtAnyTime(t *testing.T) {
	checked := 0
	for _, config := range exhibits() {
		if config.Style != Style3 && config.Style != Style45 {
			continue // one style for each type of hardware is sufficient
		}
		s, err := New(config)
		require.NoError(t, err)
		constant := map[string]float64{}
		for at := time.Duration(0); at < 70*time.Second; at += 11 * time.Second {
			e := parse(t, s.AppendBody(nil, 0, at))
			used := map[string]float64{}
			for _, v := range e.family("DCGM_FI_DEV_FB_USED") {
				if v.Get("pod_uid") == "" {
					used[deviceKey(v.Labels)] = v.number
				}
			}
			for _, v := range e.family("DCGM_FI_DEV_FB_FREE") {
				key := deviceKey(v.Labels)
				sum := used[key] + v.number
				if known, ok := constant[key]; ok {
					require.Equal(t, known, sum, "%s %s", config.Style, config.Scenario)
				}
				constant[key] = sum
				checked++
			}
		}
	}
	assert.Greater(t, checked, 500)
}

func TestMemoryFillingClimbsTo99PercentOverMinutes(t *testing.T) {
	s := newSimulation(t, func(c *Config) { c.Scenario, c.GPUs = ScenarioMemoryFilling, 1 })
	occupancy := func(at time.Duration) float64 {
		e := parse(t, s.AppendBody(nil, 0, at))
		used := e.family("DCGM_FI_DEV_FB_USED")[0].number
		return used / (used + e.only(t, "DCGM_FI_DEV_FB_FREE").number)
	}
	assert.InDelta(t, .08, occupancy(0), 1e-4)
	assert.Less(t, occupancy(2*time.Minute), .6)
	assert.InDelta(t, .99, occupancy(250*time.Second), 1e-4)
	assert.InDelta(t, .99, occupancy(289*time.Second), 1e-4)
	assert.InDelta(t, .08, occupancy(290*time.Second), 1e-4)
}

func TestBeforeTheFirstXIDTheRowIsZeroUpTo3AndAbsentSince4(t *testing.T) {
	for _, style := range Styles() {
		s := newSimulation(t, func(c *Config) { c.Style, c.Scenario, c.GPUs = style, ScenarioXIDBurst, 1 })
		text := string(s.AppendBody(nil, 0, time.Second))
		zero := strings.Contains(text, "DCGM_FI_DEV_XID_ERRORS{") && strings.Contains(text, "# TYPE DCGM_FI_DEV_XID_ERRORS gauge")
		if style.in(until3) {
			assert.True(t, zero, style)
		} else {
			assert.NotContains(t, text, "DCGM_FI_DEV_XID_ERROR{", style)
			assert.NotContains(t, text, "DCGM_FI_DEV_XID_ERRORS", style)
		}
	}
}

func TestXIDMetricsShowTheEventsEachInItsOwnWay(t *testing.T) {
	s := newSimulation(t, func(c *Config) { c.Scenario, c.GPUs = ScenarioXIDBurst, 1 })
	d := s.Devices(0)[0]
	for at := time.Second; at < 8*time.Minute; at += 7300 * time.Millisecond {
		e := parse(t, s.AppendBody(nil, 0, at))
		all := s.XIDs(d, 0, at)
		total, window := map[string]float64{}, map[string]float64{}
		for _, x := range all {
			code := strconv.Itoa(x.Code)
			total[code]++
			if x.At > at-5*time.Minute {
				window[code]++
			}
		}
		byCode := func(name string) map[string]float64 {
			out := map[string]float64{}
			for _, v := range e.family(name) {
				if v.Get("xid") != "" {
					out[v.Get("xid")] = v.number
				}
			}
			return out
		}
		assert.Equal(t, total, byCode("DCGM_EXP_XID_ERRORS_TOTAL"))
		assert.Equal(t, window, byCode("DCGM_EXP_XID_ERRORS_COUNT"))
		if len(all) == 0 {
			quiet := e.only(t, "DCGM_EXP_XID_ERRORS_COUNT")
			assert.Zero(t, quiet.number)
			assert.False(t, quiet.Has("xid"))
			continue
		}
		last := e.only(t, "DCGM_FI_DEV_XID_ERRORS")
		assert.InDelta(t, all[len(all)-1].Code, last.number, 0)
		assert.Equal(t, strconv.Itoa(all[len(all)-1].Code), last.Get("err_code"))
		assert.NotEmpty(t, last.Get("err_msg"))
	}
}

func TestClockEventTotalsCountEdgesAndWindowsCountSamples(t *testing.T) {
	s := newSimulation(t, func(c *Config) {
		c.Scenario, c.GPUs, c.CollectInterval = ScenarioPowerCapped, 1, time.Second
	})
	e := parse(t, s.AppendBody(nil, 0, time.Minute))
	find := func(name, event string) float64 {
		for _, v := range e.family(name) {
			if v.Get("clock_event") == event {
				return v.number
			}
		}
		t.Fatalf("no %s of %s", event, name)
		return 0
	}
	// The first of the twelve pulses directly follows a long interval, so the long interval and the
	// first pulse count as one event.
	assert.InDelta(t, 13-1, find("DCGM_EXP_CLOCK_EVENTS_TOTAL", "power_cap"), 0)
	assert.InDelta(t, 1, find("DCGM_EXP_CLOCK_EVENTS_TOTAL", "hw_power_brake"), 0)
	samples := 0.0
	for at := time.Duration(0); at <= time.Minute; at += time.Second {
		if s.Active(s.Devices(0)[0], ReasonSWPowerCap, at) {
			samples++
		}
	}
	assert.Equal(t, samples, find("DCGM_EXP_CLOCK_EVENTS_COUNT", "power_cap"))
}

func TestMIGInstancesReplaceTheirGPU(t *testing.T) {
	s := newSimulation(t, func(c *Config) { c.Scenario, c.GPUs = ScenarioMIG, 1 })
	e := parse(t, s.AppendBody(nil, 0, 30*time.Second))
	for _, absent := range []string{"GPU_UTIL", "MEM_COPY_UTIL", "ENC_UTIL", "DEC_UTIL"} {
		assert.Empty(t, e.family("DCGM_FI_DEV_"+absent), absent)
	}
	ids := map[string]bool{}
	used := map[float64]bool{}
	for _, v := range e.family("DCGM_FI_DEV_FB_USED") {
		ids[v.Get("GPU_I_ID")] = true
		used[v.number] = true
		assert.Equal(t, "1g.10gb", v.Get("GPU_I_PROFILE"))
		assert.Equal(t, s.Devices(0)[0].UUID, v.Get("UUID"), "the label is the parent's")
	}
	assert.Equal(t, map[string]bool{"7": true, "8": true, "9": true, "10": true, "11": true, "12": true, "13": true}, ids)
	assert.Greater(t, len(used), 1, "memory belongs to the instance")

	spread := func(name string) (low, high float64) {
		low, high = math.Inf(1), math.Inf(-1)
		for _, v := range e.family(name) {
			low, high = min(low, v.number), max(high, v.number)
		}
		return low, high
	}
	for _, board := range []string{"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_POWER_VIOLATION", "DCGM_FI_PROF_PCIE_TX_BYTES"} {
		low, high := spread(board)
		assert.Equal(t, low, high, "%s is the GPU's", board)
	}
	low, high := spread("DCGM_FI_DEV_POWER_USAGE")
	assert.Less(t, low, high, "the rows' power was sampled at different moments")
	assert.Less(t, high-low, 3.0)
}

func TestUnderMIGABoardsXIDBefallsAllInstancesAndAnApplicationsOne(t *testing.T) {
	s := newSimulation(t, func(c *Config) { c.Scenario, c.GPUs, c.MIG = ScenarioXIDBurst, 1, 3 })
	codes := func(at time.Duration) map[string]float64 {
		out := map[string]float64{}
		for _, v := range parse(t, s.AppendBody(nil, 0, at)).family("DCGM_FI_DEV_XID_ERRORS") {
			out[v.Get("GPU_I_ID")] = v.number
		}
		return out
	}
	assert.Empty(t, codes(7*time.Second))
	assert.Equal(t, map[string]float64{"7": 31}, codes(8*time.Second))
	assert.Equal(t, map[string]float64{"7": 48, "8": 48, "9": 48}, codes(35*time.Second))
}

func TestSharedDevicesHaveADeviceRowAndARowPerProcessOrCopiesOnly(t *testing.T) {
	config := func(rows SharedRows) *Simulation {
		return newSimulation(t, func(c *Config) {
			c.Scenario, c.GPUs, c.Style, c.SharedRows = ScenarioTimeSliced, 1, Style45, rows
		})
	}
	const at = 30 * time.Second

	e := parse(t, config(SharedRowsPerProcess).AppendBody(nil, 0, at))
	for _, name := range []string{"DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_GPU_UTIL"} {
		rows := e.family(name)
		require.Len(t, rows, 4, name)
		var device, sum float64
		for _, v := range rows {
			if v.Has("pod") {
				assert.NotEmpty(t, v.Get("vgpu"))
				assert.NotEmpty(t, v.Get("pod_uid"), "rows per process always have it")
				sum += v.number
				continue
			}
			assert.False(t, v.Has("vgpu"))
			device = v.number
		}
		assert.Greater(t, device, 0.0)
		assert.LessOrEqual(t, sum, device, "%s: processes use no more than there is", name)
		assert.Greater(t, sum, .9*device, name)
	}
	assert.Len(t, e.family("DCGM_FI_DEV_FB_FREE"), 3, "other fields are copied to each pod")

	e = parse(t, config(SharedRowsCopies).AppendBody(nil, 0, at))
	rows := e.family("DCGM_FI_DEV_FB_USED")
	require.Len(t, rows, 3)
	for k, v := range rows {
		assert.Equal(t, strconv.Itoa(k), v.Get("vgpu"))
		assert.Equal(t, rows[0].number, v.number)
	}
}

func TestOldExportersExposeOnePodPerDevice(t *testing.T) {
	s := newSimulation(t, func(c *Config) { c.Scenario, c.GPUs, c.Style = ScenarioTimeSliced, 1, Style3 })
	v := parse(t, s.AppendBody(nil, 0, 0)).only(t, "DCGM_FI_DEV_FB_USED")
	assert.Equal(t, "notebook-0-0-2", v.Get("pod"))
	assert.False(t, v.Has("vgpu"))
}

func TestBatchJobsAreLabels(t *testing.T) {
	for _, style := range []Style{Style45, Style483} {
		s := newSimulation(t, func(c *Config) { c.Scenario, c.GPUs, c.Nodes, c.Style = ScenarioSlurm, 5, 2, style })
		var got []string
		for _, v := range parse(t, s.AppendBody(nil, 1, 0)).family("DCGM_FI_DEV_GPU_TEMP") {
			assert.False(t, v.Has("pod"))
			got = append(got, v.Get("gpu")+" "+v.Get("hpc_job"))
		}
		assert.ElementsMatch(t, []string{"0 4811", "1 4811", "2 4812", "2 4813", "3 ", "4 4821"}, got)
		devices := s.Devices(1)
		assert.Equal(t, []string{"4812", "4813"}, devices[2].Jobs)
		assert.Empty(t, devices[2].Pods)
	}
}

func TestDRAClaimsAreLabels(t *testing.T) {
	rows := func(style Style) []value {
		s := newSimulation(t, func(c *Config) { c.Scenario, c.GPUs, c.Style = ScenarioDRA, 4, style })
		return parse(t, s.AppendBody(nil, 0, 0)).family("DCGM_FI_DEV_GPU_TEMP")
	}
	byGPU := func(rows []value, gpu string) (out []value) {
		for _, v := range rows {
			if v.Get("gpu") == gpu {
				out = append(out, v)
			}
		}
		return out
	}
	for _, style := range []Style{Style45, Style483} {
		all := rows(style)
		one := byGPU(all, "0")
		require.Len(t, one, 1)
		assert.Equal(t, "gpu-0", one[0].Get("dra_device_name"))
		assert.Equal(t, "gpu.nvidia.com", one[0].Get("dra_driver_name"))
		assert.Equal(t, "gpu-node-0", one[0].Get("dra_pool_name"))

		shared := byGPU(all, "1")
		require.Len(t, shared, 2, "one row per pod, none without")
		assert.Equal(t, shared[0].Get("dra_claim_name"), shared[1].Get("dra_claim_name"))
		assert.NotEqual(t, shared[0].Get("pod"), shared[1].Get("pod"))

		free := byGPU(all, "3")
		require.Len(t, free, 1)
		assert.False(t, free[0].Has("dra_claim_name"))
	}

	parent := byGPU(rows(Style45), "2")
	require.Len(t, parent, 1)
	assert.Equal(t, "1g.10gb", parent[0].Get("dra_mig_profile"))
	assert.False(t, parent[0].Has("GPU_I_ID"), "up to 4.8.2 the labels are on the row of the whole GPU")

	instances := byGPU(rows(Style483), "2")
	require.Len(t, instances, 2)
	for _, v := range instances {
		assert.Equal(t, v.Get("GPU_I_ID") == "7", v.Has("dra_mig_device_uuid"), "since 4.8.3 they are on the instance's")
	}
}

func TestAMixedNodeMovesInEveryTenSeconds(t *testing.T) {
	s := newSimulation(t, func(*Config) {})
	for at := time.Duration(0); at < time.Minute; at += 10 * time.Second {
		before, after := s.AppendBody(nil, 0, at), s.AppendBody(nil, 0, at+10*time.Second)
		assert.NotEqual(t, before, after)
		changed := map[string]bool{}
		b, a := parse(t, before), parse(t, after)
		for _, l := range a.series {
			if l.Get("__name__") == "DCGM_FI_PROF_GR_ENGINE_ACTIVE" && a.samples[l.String()] != b.samples[l.String()] {
				changed[l.Get("gpu")] = true
			}
		}
		assert.GreaterOrEqual(t, len(changed), 5, "from %s on", at)
	}
}

func TestASimulationIsAFunctionOfItsConfiguration(t *testing.T) {
	body := func(scenario string) string {
		return string(newSimulation(t, func(c *Config) { c.Scenario, c.Nodes = scenario, 2 }).AppendBody(nil, 1, 99*time.Second))
	}
	first, again, other := body(ScenarioMixed), body(ScenarioMixed), body(ScenarioThermal)
	assert.Equal(t, first, again)
	assert.NotEqual(t, first, other)
}

func TestEveryDeviceHasItsOwnUUID(t *testing.T) {
	s := newSimulation(t, func(c *Config) { c.Nodes, c.GPUs = 50, 8 })
	seen := map[string]bool{}
	for n := range 50 {
		for _, g := range s.nodes[n].gpus {
			require.Regexp(t, `^GPU-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`, g.uuid)
			require.False(t, seen[g.uuid])
			seen[g.uuid] = true
		}
	}
}

func TestValuesAreHeldForTheCollectInterval(t *testing.T) {
	s := newSimulation(t, func(c *Config) { c.CollectInterval = 30 * time.Second })
	assert.Equal(t, s.AppendBody(nil, 0, 30*time.Second), s.AppendBody(nil, 0, 59*time.Second))
	assert.NotEqual(t, s.AppendBody(nil, 0, 59*time.Second), s.AppendBody(nil, 0, 60*time.Second))
	assert.Equal(t, 30*time.Second, s.Sampled(59*time.Second))
}

func TestWrongSettingsAreNamedWithTheirValueAndWhatIsAllowed(t *testing.T) {
	for want, change := range map[string]func(*Config){
		`scenario: "hot": want one of healthy, idle,`:        func(c *Config) { c.Scenario = "hot" },
		`style: "5": want one of 2.x, 3.x, 4.5, 4.8.3, 4.9`:  func(c *Config) { c.Style = "5" },
		`fields: "some": want one of default, all`:           func(c *Config) { c.Fields = "some" },
		`nodes: "0": want 1 to 10000`:                        func(c *Config) { c.Nodes = 0 },
		`gpus: "65": want 1 to 64`:                           func(c *Config) { c.GPUs = 65 },
		`mig: "8": want 0 to 7`:                              func(c *Config) { c.MIG = 8 },
		`links: "19": want 0 to 18`:                          func(c *Config) { c.Links = 19 },
		`shared-rows: "": want one of per-process, copies`:   func(c *Config) { c.SharedRows = "" },
		`collect-interval: "-1s": want 0s or 1ms to 1h0m0s`:  func(c *Config) { c.CollectInterval = -time.Second },
		`style: "2.x": want 3.x or later for MIG`:            func(c *Config) { c.Style, c.Scenario = Style2, ScenarioMIG },
		`style: "3.x": want 4.5 or later for scenario dra`:   func(c *Config) { c.Style, c.Scenario = Style3, ScenarioDRA },
		`style: "2.x": want 4.5 or later for scenario slurm`: func(c *Config) { c.Style, c.Scenario = Style2, ScenarioSlurm },
		`links: "1": want 0 with style 3.x`:                  func(c *Config) { c.Style, c.Links = Style3, 1 },
		`pod-uid: "true": want false with style 2.x`:         func(c *Config) { c.Style, c.PodUID = Style2, true },
	} {
		config := NewDefaultConfig()
		change(&config)
		_, err := New(config)
		require.Error(t, err)
		assert.True(t, strings.HasPrefix(err.Error(), want), "%v: %s", err, want)
	}
}
