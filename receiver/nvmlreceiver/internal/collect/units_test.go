package collect

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver/internal/nvml"
)

// The health function returns a sorted list of the given samples and of the hw.status samples that
// are expected for a board in the given state.
func health(state string, others ...string) []string {
	return slices.Sorted(slices.Values(append(others, states("hw.status", "1", state, "ok", "degraded", "predicted_failure", "failed")...)))
}

// The recovery function returns the samples that are expected if the driver recommends the given
// recovery action.
func recovery(action string) []string {
	return states("gpu.recovery.action", "{state}", action, "none", "gpu_reset", "node_reboot", "drain_p2p", "drain_and_reset")
}

func states(metric, unit, now string, all ...string) (samples []string) {
	for _, state := range all {
		is := 0
		if state == now {
			is = 1
		}
		samples = append(samples, fmt.Sprintf("%s %s = %d %s", metric, state, is, unit))
	}
	return samples
}

// There is one test case for each number that NVML returns for a board. Each test case contains the
// value in NVML's unit and the expected samples. The units come from nvml.h.
func TestEveryNumberOfABoardIsConverted(t *testing.T) {
	for name, tt := range map[string]struct {
		query nvml.Query
		field nvml.FieldID
		value uint64
		want  []string
		// The dropped field is the expected number of dropped values.
		dropped int64
	}{
		"utilization in percent":          {query: nvml.GPUUtilization, value: 41, want: []string{"hw.gpu.utilization general = 0.41 1"}},
		"encoder in percent":              {query: nvml.EncoderUtilization, value: 2, want: []string{"hw.gpu.utilization encoder = 0.02 1"}},
		"decoder in percent":              {query: nvml.DecoderUtilization, value: 100, want: []string{"hw.gpu.utilization decoder = 1 1"}},
		"power in mW":                     {query: nvml.PowerUsage, value: 350500, want: []string{"hw.power  = 350.5 W"}},
		"power limit in mW":               {query: nvml.EnforcedPowerLimit, value: 700000, want: []string{"gpu.power.limit  = 700 W"}},
		"temperature in °C":               {query: nvml.Temperature, value: 51, want: []string{"hw.temperature gpu = 51 Cel"}},
		"SM clock in MHz":                 {query: nvml.SMClock, value: 1980, want: []string{"gpu.clock.frequency sm = 1980000000 Hz"}},
		"memory clock in MHz":             {query: nvml.MemoryClock, value: 2619, want: []string{"gpu.clock.frequency memory = 2619000000 Hz"}},
		"PCIe transmit in KB/s of 1000":   {query: nvml.PCIeTransmit, value: 11, want: []string{"gpu.pcie.throughput transmit = 11000 By/s"}},
		"PCIe receive in KB/s of 1000":    {query: nvml.PCIeReceive, value: 22, want: []string{"gpu.pcie.throughput receive = 22000 By/s"}},
		"current PCIe width":              {query: nvml.PCIeLinkWidth, value: 8, want: []string{"gpu.pcie.link.width  = 8 {lane}"}},
		"energy in mJ":                    {field: nvml.FieldTotalEnergy, value: 5000000000456, want: []string{"hw.energy  = 5000000000.456 J"}},
		"energy in mJ, by function":       {query: nvml.TotalEnergy, value: 1500, want: []string{"hw.energy  = 1.5 J"}},
		"memory temperature in °C":        {field: nvml.FieldMemoryTemperature, value: 64, want: []string{"hw.temperature memory = 64 Cel"}},
		"a board without a memory sensor": {field: nvml.FieldMemoryTemperature, value: 0},
		"power policy in ns":              {field: nvml.FieldPolicyPower, value: 15e8, want: []string{"gpu.clock.event.time sw_power_cap = 1.5 s", "gpu.clock.throttle.time power = 1.5 s"}},
		"power violation in ns":           {query: nvml.PowerViolation, value: 15e8, want: []string{"gpu.clock.event.time sw_power_cap = 1.5 s", "gpu.clock.throttle.time power = 1.5 s"}},
		"thermal policy in ns":            {field: nvml.FieldPolicyThermal, value: 25e7, want: []string{"gpu.clock.throttle.time thermal = 0.25 s"}},
		"thermal violation in ns":         {query: nvml.ThermalViolation, value: 25e7, want: []string{"gpu.clock.throttle.time thermal = 0.25 s"}},
		"sync boost policy in ns":         {field: nvml.FieldPolicySyncBoost, value: 5e8, want: []string{"gpu.clock.event.time sync_boost = 0.5 s", "gpu.clock.throttle.time sync_boost = 0.5 s"}},
		"sync boost violation in ns":      {query: nvml.SyncBoostViolation, value: 5e8, want: []string{"gpu.clock.event.time sync_boost = 0.5 s", "gpu.clock.throttle.time sync_boost = 0.5 s"}},
		"board limit policy in ns":        {field: nvml.FieldPolicyBoardLimit, value: 5e8, want: []string{"gpu.clock.throttle.time board_limit = 0.5 s"}},
		"board limit violation in ns":     {query: nvml.BoardLimitViolation, value: 5e8, want: []string{"gpu.clock.throttle.time board_limit = 0.5 s"}},
		"software thermal slowdown, ns":   {field: nvml.FieldReasonSWThermal, value: 1e9, want: []string{"gpu.clock.event.time sw_thermal = 1 s"}},
		"hardware thermal slowdown, ns":   {field: nvml.FieldReasonHWThermal, value: 2e9, want: []string{"gpu.clock.event.time hw_thermal = 2 s"}},
		"hardware power brake, ns":        {field: nvml.FieldReasonHWPowerBrake, value: 3e9, want: []string{"gpu.clock.event.time hw_power_brake = 3 s"}},
		"single bit errors":               {field: nvml.FieldECCSingleBitVolatile, value: 12, want: []string{"hw.errors corrected = 12 {error}"}},
		"single bit errors, by function":  {query: nvml.CorrectedECC, value: 12, want: []string{"hw.errors corrected = 12 {error}"}},
		"double bit errors":               {field: nvml.FieldECCDoubleBitVolatile, value: 1, want: []string{"hw.errors uncorrected = 1 {error}"}},
		"double bit errors, by function":  {query: nvml.UncorrectedECC, value: 1, want: []string{"hw.errors uncorrected = 1 {error}"}},
		"remapped rows, corrected":        {field: nvml.FieldRemappedCorrectable, value: 2, want: []string{"hw.errors row_remap_correctable = 2 {error}"}},
		"remapped rows, uncorrected":      {field: nvml.FieldRemappedUncorrected, value: 3, want: []string{"hw.errors row_remap_uncorrectable = 3 {error}"}},
		"PCIe replays":                    {field: nvml.FieldPCIeReplays, value: 4, want: []string{"hw.errors pcie_replay = 4 {error}"}},
		"PCIe replays, by function":       {query: nvml.PCIeReplays, value: 4, want: []string{"hw.errors pcie_replay = 4 {error}"}},
		"no failed remapping":             {field: nvml.FieldRemapFailure, value: 0, want: health("ok", "hw.errors row_remap_failure = 0 {error}")},
		"a failed remapping":              {field: nvml.FieldRemapFailure, value: 1, want: health("failed", "hw.errors row_remap_failure = 1 {error}")},
		"no pending remapping":            {field: nvml.FieldRemapPending, value: 0, want: health("ok")},
		"a pending remapping":             {field: nvml.FieldRemapPending, value: 1, want: health("predicted_failure")},
		"no recovery action":              {field: nvml.FieldRecoveryAction, value: 0, want: health("ok", recovery("none")...)},
		"recovery by a reset":             {field: nvml.FieldRecoveryAction, value: 1, want: health("failed", recovery("gpu_reset")...)},
		"recovery by a reboot":            {field: nvml.FieldRecoveryAction, value: 2, want: health("failed", recovery("node_reboot")...)},
		"recovery by a drain":             {field: nvml.FieldRecoveryAction, value: 3, want: health("degraded", recovery("drain_p2p")...)},
		"recovery by drain and reset":     {field: nvml.FieldRecoveryAction, value: 4, want: health("degraded", recovery("drain_and_reset")...)},
		"an unknown recovery action":      {field: nvml.FieldRecoveryAction, value: 5, want: slices.Sorted(slices.Values(recovery(""))), dropped: 1},
		"an invalid flag":                 {field: nvml.FieldRemapFailure, value: 2, dropped: 1},
		"a fabric without health data":    {query: nvml.FabricHealth, value: 0},
		"a healthy fabric":                {query: nvml.FabricHealth, value: 0xaa, want: health("ok")},
		"a fabric with a problem":         {query: nvml.FabricHealth, value: 0xa6, want: health("degraded")},
		"NVLink replays":                  {field: nvml.FieldNVLinkReplay, value: 5, want: []string{"hw.errors nvlink_replay = 5 {error}"}},
		"NVLink recoveries":               {field: nvml.FieldNVLinkRecovery, value: 6, want: []string{"hw.errors nvlink_recovery = 6 {error}"}},
		"one of two NVLink CRC counters":  {field: nvml.FieldNVLinkCRCFlit, value: 7},
		"the other NVLink CRC counter":    {field: nvml.FieldNVLinkCRCData, value: 8},
	} {
		t.Run(name, func(t *testing.T) {
			m := &machine{}
			board := m.board("GPU-1")
			board.name, board.memory = "", nil
			if tt.field != 0 {
				board.fields = map[nvml.FieldID]float64{tt.field: float64(tt.value)}
			} else {
				board.numbers[tt.query] = tt.value
			}
			c := New(Options{Devices: true, Now: m.now})
			points, err := c.Collect(m)
			require.NoError(t, err)
			var got []string
			for _, p := range points {
				got = append(got, fmt.Sprintf("%s %s = %.13g %s", p.Metric.Name, p.Own, p.Value, p.Metric.Unit))
			}
			slices.Sort(got)
			assert.Equal(t, tt.want, got)
			assert.Equal(t, tt.dropped, c.Stats().ValuesDropped)
		})
	}
}

// The hw.status metric shows only the worst state of the board.
func TestAPendingRemappingPredictsAFailureOfAFailedBoard(t *testing.T) {
	m := &machine{}
	board := m.board("GPU-1")
	for _, pending := range []float64{0, 1, 0} {
		board.fields = map[nvml.FieldID]float64{nvml.FieldRemapFailure: 1, nvml.FieldRemapPending: pending}
		c := New(Options{Devices: true, Now: m.now})
		points, err := c.Collect(m)
		require.NoError(t, err)
		require.NotEmpty(t, points)
		assert.Equal(t, pending == 1, points[0].Device.FailurePredicted)
	}
}

// A predicted failure is not a part of a device's description. Therefore, a change to the
// prediction must not reset the error counts.
// A model name or a minor number that cannot be read once does not make the board a different one.
func TestAFailedNameOrNumberDoesNotRestartCounts(t *testing.T) {
	m := &machine{}
	board := monitored(m, map[uint32]float64{2: 25})
	board.name = "NVIDIA H100 80GB HBM3"
	c := watching(m)
	xids(t, c, m)
	m.happen(0, 31)
	assert.Equal(t, []string{"GPU-1 xid_31 = 1 in 15"}, xids(t, c, m))
	board.nameFails = nvml.ErrUnknown
	board.failsIn = map[any]error{nvml.MinorNumber: nvml.ErrUnknown}
	m.happen(0, 31)
	assert.Equal(t, []string{"GPU-1 xid_31 = 2 in 30"}, xids(t, c, m))
}

func TestAPredictedFailureDoesNotRestartCounts(t *testing.T) {
	m := &machine{}
	board := monitored(m, map[uint32]float64{2: 25})
	board.fields = map[nvml.FieldID]float64{nvml.FieldRemapPending: 1}
	c := watching(m)
	xids(t, c, m)
	m.happen(0, 31)
	assert.Equal(t, []string{"GPU-1 xid_31 = 1 in 15"}, xids(t, c, m))
	board.fields[nvml.FieldRemapPending] = 0
	m.happen(0, 31)
	assert.Equal(t, []string{"GPU-1 xid_31 = 2 in 30"}, xids(t, c, m))
	board.fields[nvml.FieldRemapPending] = 1
	for range 2 {
		points := next(t, c, m, interval)
		assert.Len(t, rendered(points, signal.GPUSMActive), 1, "performance counters are compared with the last collection")
		assert.True(t, points[0].Device.FailurePredicted)
	}
}
