package collect

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver/internal/nvml"
)

// The holding function returns a Collector that assumes that the library stays loaded. This
// Collector does not count errors.
func holding(m *machine) *Collector {
	m.clock = time.Unix(1e9, 0)
	return New(Options{Devices: true, AllProcesses: true, Hold: true, Now: m.now, Disabled: map[*signal.Metric]bool{signal.HwErrors: true}})
}

// The next function advances the clock by the given time and performs a collection.
func next(t *testing.T, c *Collector, m *machine, after time.Duration) []Point {
	t.Helper()
	m.clock = m.clock.Add(after)
	points, err := c.Collect(m)
	require.NoError(t, err)
	return slices.Clone(points)
}

// The monitored function adds a board that supports GPM to the machine.
func monitored(m *machine, values map[uint32]float64, instances ...uint64) *device {
	board := m.board("GPU-1", instances...)
	board.name, board.memory = "NVIDIA H100 80GB HBM3", nil
	board.gpm = map[uint32]map[uint32]float64{nvml.NoInstance: values}
	for i := range instances {
		m.mig(board, i).memory = nil
	}
	return board
}

// There is one test case for each GPM metric. The metric IDs and units come from nvml.h.
func TestEveryGPMMetricIsConverted(t *testing.T) {
	for id, want := range map[uint32][]string{
		1:  {"gpu.engine.active  = 0.25", "hw.gpu.utilization general = 0.25"},
		2:  {"gpu.sm.active  = 0.25"},
		3:  {"gpu.sm.occupancy  = 0.25"},
		4:  {"gpu.pipe.active int = 0.25"},
		5:  {"gpu.pipe.active tensor = 0.25"},
		6:  {"gpu.pipe.active tensor_dfma = 0.25"},
		7:  {"gpu.pipe.active tensor_hmma = 0.25"},
		9:  {"gpu.pipe.active tensor_imma = 0.25"},
		10: {"gpu.dram.active  = 0.25"},
		11: {"gpu.pipe.active fp64 = 0.25"},
		12: {"gpu.pipe.active fp32 = 0.25"},
		13: {"gpu.pipe.active fp16 = 0.25"},
		20: {"gpu.pcie.throughput transmit = 26214400", "gpu.pcie.utilization transmit = 0.000416"},
		21: {"gpu.pcie.throughput receive = 26214400", "gpu.pcie.utilization receive = 0.000416"},
		60: {"gpu.nvlink.throughput receive = 26214400", "gpu.nvlink.utilization receive = 5.83e-05"},
		61: {"gpu.nvlink.throughput transmit = 26214400", "gpu.nvlink.utilization transmit = 5.83e-05"},
	} {
		t.Run(fmt.Sprint(id), func(t *testing.T) {
			m := &machine{}
			monitored(m, map[uint32]float64{id: 25})
			c := holding(m)
			assert.Empty(t, next(t, c, m, 0), "one reading is not enough")
			var got []string
			for _, p := range next(t, c, m, time.Second) {
				value := fmt.Sprintf("%.3g", p.Value)
				if p.Metric.Unit == "By/s" {
					value = fmt.Sprintf("%.0f", p.Value)
				}
				got = append(got, fmt.Sprintf("%s %s = %s", p.Metric.Name, p.Own, value))
			}
			slices.Sort(got)
			assert.Equal(t, want, got)
		})
	}
}

func TestGPMIsPreferredToOtherMeasurements(t *testing.T) {
	m := &machine{}
	board := monitored(m, map[uint32]float64{1: 80, 20: 1, 21: 2})
	board.numbers[nvml.GPUUtilization], board.numbers[nvml.PCIeTransmit], board.numbers[nvml.PCIeReceive] = 50, 10, 20
	c := holding(m)
	first := next(t, c, m, 0)
	assert.Equal(t, []string{"GPU-1 = 0.5"}, rendered(first, signal.HwGPUUtilization), "no other measurement is available")
	second := next(t, c, m, time.Second)
	assert.Equal(t, []string{"GPU-1 = 0.8"}, rendered(second, signal.HwGPUUtilization))
	assert.Equal(t, []string{"GPU-1 = 1.048576e+06", "GPU-1 = 2.097152e+06"}, rendered(second, signal.GPUPCIeThroughput))
}

func TestActivityIsMeasuredForInstancesAndLinksForBoards(t *testing.T) {
	m := &machine{}
	board := monitored(m, map[uint32]float64{1: 99, 2: 99, 20: 1}, 7, 9)
	board.gpm[7] = map[uint32]float64{1: 30, 2: 40, 20: 1}
	board.gpm[9] = map[uint32]float64{1: 60, 2: 75, 20: 1}
	c := holding(m)
	next(t, c, m, 0)
	points := next(t, c, m, time.Second)
	assert.Equal(t, []string{"GPU-1/gi7 = 0.3", "GPU-1/gi9 = 0.6"}, rendered(points, signal.HwGPUUtilization))
	assert.Equal(t, []string{"GPU-1/gi7 = 0.4", "GPU-1/gi9 = 0.75"}, rendered(points, signal.GPUSMActive))
	assert.Equal(t, []string{"GPU-1 = 1.048576e+06"}, rendered(points, signal.GPUPCIeThroughput))
}

// The driver updates the counters every 100 ms. Therefore, two readings within less than 100 ms may
// have the same values.
func TestReadingsWithinAShortTimeKeepTheLastSample(t *testing.T) {
	m := &machine{}
	monitored(m, map[uint32]float64{2: 25})
	c := holding(m)
	next(t, c, m, 0)
	assert.Empty(t, next(t, c, m, 0))
	assert.Empty(t, next(t, c, m, 199*time.Millisecond))
	assert.Len(t, next(t, c, m, time.Millisecond), 1, "for the 200 ms since the first reading")
}

func TestImpossibleGPMValuesAreDropped(t *testing.T) {
	m := &machine{}
	board := monitored(m, map[uint32]float64{2: math.NaN(), 3: 101, 5: 4294967295, 10: -6, 60: -1, 61: math.Inf(1)})
	c := holding(m)
	next(t, c, m, 0)
	points := next(t, c, m, time.Second)
	require.Len(t, points, 1)
	assert.Equal(t, []string{"GPU-1 = 1"}, rendered(points, signal.GPUSMOccupancy))
	assert.Equal(t, Stats{ValuesDropped: 5, RatiosClamped: 1}, c.Stats())
	board.gpm = nil
	assert.Empty(t, next(t, c, m, time.Second), "the board no longer has performance counters")
}

func TestRatesAboveTheLinkCapacityAreDropped(t *testing.T) {
	m := &machine{}
	monitored(m, map[uint32]float64{20: 100_000, 21: 80_000, 60: 700_000, 61: 500_000})
	c := holding(m)
	next(t, c, m, 0)
	points := next(t, c, m, time.Second)
	assert.Equal(t, []string{"GPU-1 = 8.388608e+10"}, rendered(points, signal.GPUPCIeThroughput))
	assert.Equal(t, []string{"GPU-1 = 1"}, rendered(points, signal.GPUPCIeUtilization))
	assert.Equal(t, []string{"GPU-1 = 5.24288e+11"}, rendered(points, signal.GPUNVLinkThroughput))
	assert.Equal(t, []string{"GPU-1 = 1"}, rendered(points, signal.GPUNVLinkUtilization))
	assert.Equal(t, Stats{ValuesDropped: 2, RatiosClamped: 2}, c.Stats())
}

func TestCountersAreReadOnlyIfHeldAndEnabled(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"not held":       func(o *Options) { o.Hold = false },
		"processes only": func(o *Options) { o.Devices = false },
		"none wanted": func(o *Options) {
			o.Disabled = map[*signal.Metric]bool{}
			for _, m := range DeviceMetrics() {
				o.Disabled[m] = true
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := &machine{}
			monitored(m, map[uint32]float64{2: 25})
			options := Options{Devices: true, Hold: true, Now: m.now}
			change(&options)
			c := New(options)
			next(t, c, m, 0)
			next(t, c, m, time.Second)
			assert.Zero(t, m.made)
		})
	}
}

func TestRecreatedInstanceWithTheSameUUIDRestartsItsCounters(t *testing.T) {
	m := &machine{}
	board := monitored(m, nil, 7)
	board.gpm[7] = map[uint32]float64{2: 50}
	c := holding(m)
	next(t, c, m, 0)
	assert.Len(t, rendered(next(t, c, m, time.Second), signal.GPUSMActive), 1)
	m.mig(board, 0).name = "NVIDIA H100 80GB HBM3 MIG 2g.20gb"
	assert.Empty(t, rendered(next(t, c, m, time.Second), signal.GPUSMActive))
	assert.Len(t, rendered(next(t, c, m, time.Second), signal.GPUSMActive), 1)
}

// On boards with slow calls, all instances are assumed to be unchanged until a change to one of
// them is detected.
func TestInstanceMissingForACollectionRestartsItsCounters(t *testing.T) {
	m := &machine{}
	board := monitored(m, nil, 7, 9, 10)
	board.processes[nvml.Compute] = []nvml.Process{{PID: 1, GPUInstance: 7}}
	board.gpm[7], board.gpm[8] = map[uint32]float64{2: 50}, map[uint32]float64{2: 60}
	m.mig(board, 0).slow, m.mig(board, 1).slow, m.mig(board, 2).slow = slowAfter, slowAfter, slowAfter
	c := holding(m)
	for range 3 {
		next(t, c, m, time.Second)
	}
	require.Positive(t, c.Stats().InstancesSkipped)
	busy, other := m.mig(board, 0), *m.mig(board, 0)
	was := *busy
	other.uuid, other.numbers = "MIG-other", map[nvml.Query]uint64{nvml.GPUInstanceID: 8}
	*busy = other
	board.processes[nvml.Compute][0].GPUInstance = 8
	assert.Empty(t, rendered(next(t, c, m, time.Second), signal.GPUSMActive))
	*busy = was
	board.processes[nvml.Compute][0].GPUInstance = 7
	assert.Empty(t, rendered(next(t, c, m, time.Second), signal.GPUSMActive), "the previous reading is of another instance")
	assert.Equal(t, []string{"GPU-1/gi7 = 0.5"}, rendered(next(t, c, m, time.Second), signal.GPUSMActive))
}

// Some drivers refuse to read the performance counters of a board in MIG mode.
func TestUnreadableCountersDoNotAffectOthers(t *testing.T) {
	m := &machine{}
	board := monitored(m, map[uint32]float64{20: 1}, 7)
	board.gpm[7] = map[uint32]float64{2: 50}
	board.gpmFails = map[uint32]error{nvml.NoInstance: nvml.ErrUnknown}
	c := holding(m)
	next(t, c, m, 0)
	assert.Equal(t, []string{"GPU-1/gi7 = 0.5"}, rendered(next(t, c, m, time.Second), signal.GPUSMActive))
	require.NoError(t, c.Problem(), "the library stays loaded")
	assert.EqualValues(t, 1, c.Stats().CallsFailed)
	board.gpmFails[nvml.NoInstance] = nvml.ErrGPULost
	next(t, c, m, time.Second)
	require.ErrorIs(t, c.Problem(), nvml.ErrGPULost)
	assert.Empty(t, m.counters)
}

func TestMIGModeChangeRestartsTheCounters(t *testing.T) {
	m := &machine{}
	board := monitored(m, map[uint32]float64{2: 25, 20: 1})
	c := holding(m)
	next(t, c, m, 0)
	assert.NotEmpty(t, next(t, c, m, time.Second))
	board.numbers[nvml.MIGMode] = 1
	assert.Empty(t, rendered(next(t, c, m, time.Second), signal.GPUPCIeThroughput))
	assert.NotEmpty(t, rendered(next(t, c, m, time.Second), signal.GPUPCIeThroughput))
}

// In this test, devices appear and disappear. Readings of different devices must never be compared.
// Devices that are missing must have no samples. At the end, all GPM samples must have been freed.
func TestCountersOfChangingDevices(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &machine{}
		c := holding(m)
		for range rapid.IntRange(1, 12).Draw(rt, "collections") {
			m.boards, m.devices = nil, nil
			devices := 0
			for i := range rapid.IntRange(0, 2).Draw(rt, "boards") {
				ids := rapid.SliceOfN(rapid.Uint64Range(0, 3), 0, 3).Draw(rt, "instances")
				b := m.board(fmt.Sprint("GPU-", i), ids...)
				b.gpm = map[uint32]map[uint32]float64{nvml.NoInstance: {2: 10, 20: 1}}
				for gi := range uint32(4) {
					b.gpm[gi] = map[uint32]float64{2: float64(gi)}
				}
				b.fails = rapid.SampledFrom([]error{nil, nil, nil, nvml.ErrGPULost, nvml.ErrUnknown}).Draw(rt, "fault")
				devices += 1 + len(ids)
			}
			m.clock = m.clock.Add(time.Duration(rapid.IntRange(0, 1000).Draw(rt, "ms")) * time.Millisecond)
			points, err := c.Collect(m)
			require.NoError(rt, err)
			require.False(rt, m.mixed)
			for _, p := range points {
				if p.Metric == signal.GPUSMActive && p.Device.Instance != "" {
					require.Equal(rt, p.Device.Instance, fmt.Sprintf("%.0f", p.Value*100))
				}
			}
			require.LessOrEqual(rt, len(m.counters), 2*devices)
		}
		c.Release(m)
		require.Empty(rt, m.counters)
	})
}
