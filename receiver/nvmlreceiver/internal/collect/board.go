package collect

import (
	"github.com/otelcol-gpu/otelcol-gpu/internal/dcgm"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver/internal/nvml"
)

// numbers are the samples made of one query. Utilisation is not measured while a
// board is in MIG mode.
var numbers = [...]struct {
	query  nvml.Query
	metric *signal.Metric
	own    string
	unit   dcgm.Unit
	factor float64 // from NVML's unit to the given one
	noMIG  bool
}{
	{nvml.GPUUtilization, signal.HwGPUUtilization, signal.TaskGeneral, dcgm.Percent, 1, true},
	{nvml.EncoderUtilization, signal.HwGPUUtilization, signal.TaskEncoder, dcgm.Percent, 1, true},
	{nvml.DecoderUtilization, signal.HwGPUUtilization, signal.TaskDecoder, dcgm.Percent, 1, true},
	{nvml.PowerUsage, signal.HwPower, "", dcgm.Watt, 1e-3, false},
	{nvml.Temperature, signal.HwTemperature, signal.LocationGPU, dcgm.Celsius, 1, false},
	{nvml.SMClock, signal.GPUClockFrequency, signal.DomainSM, dcgm.MHz, 1, false},
	{nvml.MemoryClock, signal.GPUClockFrequency, signal.DomainMemory, dcgm.MHz, 1, false},
}

// output is a sample that a field's value is one of.
type output struct {
	metric *signal.Metric
	own    string
}

// noQuery stands for "no query gives the same value as the field".
const noQuery = nvml.NumQueries

// fields are the samples made of field values, which one call gives together.
// Where a driver does not know a field, an older function may have the value.
//
// Policy counters are nanoseconds; those of power and sync boost are the
// counters of the clock event reasons of these names as well.
var fields = [...]struct {
	id       nvml.FieldID
	unit     dcgm.Unit
	fallback nvml.Query
	outputs  []output
}{
	{nvml.FieldTotalEnergy, dcgm.Millijoule, nvml.TotalEnergy, []output{{signal.HwEnergy, ""}}},
	{nvml.FieldMemoryTemperature, dcgm.Celsius, noQuery, []output{{signal.HwTemperature, signal.LocationMemory}}},
	{nvml.FieldPolicyPower, dcgm.Nanosecond, nvml.PowerViolation, []output{
		{signal.GPUClockThrottleTime, "power"}, {signal.GPUClockEventTime, "sw_power_cap"},
	}},
	{nvml.FieldPolicyThermal, dcgm.Nanosecond, nvml.ThermalViolation, []output{{signal.GPUClockThrottleTime, "thermal"}}},
	{nvml.FieldPolicySyncBoost, dcgm.Nanosecond, nvml.SyncBoostViolation, []output{
		{signal.GPUClockThrottleTime, "sync_boost"}, {signal.GPUClockEventTime, "sync_boost"},
	}},
	{nvml.FieldPolicyBoardLimit, dcgm.Nanosecond, nvml.BoardLimitViolation, []output{{signal.GPUClockThrottleTime, "board_limit"}}},
	{nvml.FieldReasonSWThermal, dcgm.Nanosecond, noQuery, []output{{signal.GPUClockEventTime, "sw_thermal"}}},
	{nvml.FieldReasonHWThermal, dcgm.Nanosecond, noQuery, []output{{signal.GPUClockEventTime, "hw_thermal"}}},
	{nvml.FieldReasonHWPowerBrake, dcgm.Nanosecond, noQuery, []output{{signal.GPUClockEventTime, "hw_power_brake"}}},
	{nvml.FieldECCSingleBitVolatile, dcgm.None, nvml.CorrectedECC, []output{{signal.HwErrors, "ecc_sbe"}}},
	{nvml.FieldECCDoubleBitVolatile, dcgm.None, nvml.UncorrectedECC, []output{{signal.HwErrors, "ecc_dbe"}}},
	{nvml.FieldRemappedCorrectable, dcgm.None, noQuery, []output{{signal.HwErrors, "row_remap_correctable"}}},
	{nvml.FieldRemappedUncorrected, dcgm.None, noQuery, []output{{signal.HwErrors, "row_remap_uncorrectable"}}},
	{nvml.FieldPCIeReplays, dcgm.None, nvml.PCIeReplays, []output{{signal.HwErrors, "pcie_replay"}}},
	{nvml.FieldNVLinkReplay, dcgm.None, noQuery, []output{{signal.HwErrors, "nvlink_replay"}}},
	{nvml.FieldNVLinkRecovery, dcgm.None, noQuery, []output{{signal.HwErrors, "nvlink_recovery"}}},
	// These two are one sample together.
	{nvml.FieldNVLinkCRCFlit, dcgm.None, noQuery, nil},
	{nvml.FieldNVLinkCRCData, dcgm.None, noQuery, nil},
}

var directions = [...]struct {
	query nvml.Query
	own   string
}{
	{nvml.PCIeTransmit, signal.DirectionTransmit},
	{nvml.PCIeReceive, signal.DirectionReceive},
}

// boardSamples reads what a board measures as a whole, also in MIG mode.
func (r *reader) boardSamples(handle nvml.Device, m *memo, mig bool) {
	d := m.device
	for i := range numbers {
		n := &numbers[i]
		if n.noMIG && mig || !r.wants(n.metric) {
			continue
		}
		if v, ok := r.query(handle, n.query); ok {
			r.sample(n.metric, d, n.own, n.unit, v*n.factor)
		}
	}
	if r.wants(signal.GPUClockEventActive) {
		if mask, ok := r.query(handle, nvml.ClockEventReasons); ok {
			r.eventReasons(d, mask)
		}
	}
	r.fieldSamples(handle, d)
	r.pcieSamples(handle, m)
}

// eventReasons adds a sample for each reason that signals are made of.
func (r *reader) eventReasons(d *Device, mask float64) {
	if _, verdict := dcgm.Mask.Value(mask); verdict != dcgm.Valid {
		r.stats.ValuesDropped++
		return
	}
	for _, reason := range saturationReasons {
		active := 0.0
		if uint64(mask)&reason.Bit != 0 {
			active = 1
		}
		r.point(Point{Metric: signal.GPUClockEventActive, Device: d, Own: reason.Name, Value: active})
	}
}

var saturationReasons = dcgm.SaturationReasons()

func (r *reader) fieldSamples(handle nvml.Device, d *Device) {
	if r.lost {
		return
	}
	if r.failed(r.lib.FieldValues(handle, r.values)) {
		for i := range r.values {
			r.values[i].OK = false
		}
	}
	var crc float64
	parts := 0
	for i := range fields {
		f, v := &fields[i], r.values[i]
		if !v.OK && f.fallback != noQuery {
			v.Value, v.OK = r.query(handle, f.fallback)
		}
		switch {
		case !v.OK:
		case f.outputs == nil:
			crc += v.Value
			parts++
		case f.id == nvml.FieldMemoryTemperature && v.Value == 0:
			// A board without the sensor.
		default:
			for _, o := range f.outputs {
				r.sample(o.metric, d, o.own, f.unit, v.Value)
			}
		}
	}
	if parts == 2 {
		r.sample(signal.HwErrors, d, "nvlink_crc", dcgm.None, crc)
	}
}

// pcieSamples reads the throughput of the PCIe link, which takes 20 ms for each
// direction because the driver measures for so long.
func (r *reader) pcieSamples(handle nvml.Device, m *memo) {
	if !r.wants(signal.GPUPCIeThroughput) && !r.wants(signal.GPUPCIeUtilization) {
		return
	}
	if m.capacity == 0 {
		generation, _ := r.query(handle, nvml.MaxPCIeLinkGeneration)
		lanes, _ := r.query(handle, nvml.MaxPCIeLinkWidth)
		if capacity, ok := dcgm.PCIeCapacity(generation, lanes); ok {
			m.capacity = capacity
		} else {
			m.capacity = dcgm.LookupModel(m.device.Model).PCIe
		}
	}
	for _, direction := range directions {
		kilobytes, ok := r.query(handle, direction.query)
		if !ok {
			continue
		}
		rate, verdict := dcgm.BytePerSecond.Value(kilobytes * 1e3)
		if verdict != dcgm.Valid {
			r.stats.ValuesDropped++
			continue
		}
		r.point(Point{Metric: signal.GPUPCIeThroughput, Device: m.device, Own: direction.own, Value: rate})
		if m.capacity > 0 {
			r.point(Point{Metric: signal.GPUPCIeUtilization, Device: m.device, Own: direction.own, Value: r.clamp(rate / m.capacity)})
		}
	}
}
