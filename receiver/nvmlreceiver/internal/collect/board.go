package collect

import (
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/dcgm"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver/internal/nvml"
)

// The numbers variable lists the samples that each require a separate query. While a board is in
// MIG mode, the driver does not measure the board's utilization.
var numbers = [...]struct {
	query     nvml.Query
	metric    *signal.Metric
	attribute string
	unit      catalogue.Unit
	factor    float64 // converts the value from NVML's unit to the unit of the metric
	noMIG     bool
}{
	{nvml.GPUUtilization, signal.HwGPUUtilization, signal.TaskGeneral, catalogue.Percent, 1, true},
	{nvml.EncoderUtilization, signal.HwGPUUtilization, signal.TaskEncoder, catalogue.Percent, 1, true},
	{nvml.DecoderUtilization, signal.HwGPUUtilization, signal.TaskDecoder, catalogue.Percent, 1, true},
	{nvml.PowerUsage, signal.HwPower, "", catalogue.Watt, 1e-3, false},
	{nvml.EnforcedPowerLimit, signal.GPUPowerLimit, "", catalogue.Watt, 1e-3, false},
	{nvml.Temperature, signal.HwTemperature, signal.LocationGPU, catalogue.Celsius, 1, false},
	{nvml.SMClock, signal.GPUClockFrequency, signal.DomainSM, catalogue.MHz, 1, false},
	{nvml.MemoryClock, signal.GPUClockFrequency, signal.DomainMemory, catalogue.MHz, 1, false},
	{nvml.PCIeLinkWidth, signal.GPUPCIeLinkWidth, "", catalogue.None, 1, false},
}

// The output type is a sample that is computed from the value of a field.
type output struct {
	metric    *signal.Metric
	attribute string
}

// noQuery means that no query returns the same value as the field.
const noQuery nvml.Query = 0

// The fields variable lists the samples that are computed from field values. One call reads all
// field values. If a driver does not support a field, the query in the same row may return the
// value instead.
//
// Policy counters are in nanoseconds. The power and sync boost counters are also used for the
// corresponding clock event reasons.
var fields = [...]struct {
	id       nvml.FieldID
	unit     catalogue.Unit
	fallback nvml.Query
	outputs  []output
}{
	{nvml.FieldTotalEnergy, catalogue.Millijoule, nvml.TotalEnergy, []output{{signal.HwEnergy, ""}}},
	{nvml.FieldMemoryTemperature, catalogue.Celsius, noQuery, []output{{signal.HwTemperature, signal.LocationMemory}}},
	{nvml.FieldPolicyPower, catalogue.Nanosecond, nvml.PowerViolation, []output{
		{signal.GPUClockThrottleTime, "power"}, {signal.GPUClockEventTime, "sw_power_cap"},
	}},
	{nvml.FieldPolicyThermal, catalogue.Nanosecond, nvml.ThermalViolation, []output{{signal.GPUClockThrottleTime, "thermal"}}},
	{nvml.FieldPolicySyncBoost, catalogue.Nanosecond, nvml.SyncBoostViolation, []output{
		{signal.GPUClockThrottleTime, "sync_boost"}, {signal.GPUClockEventTime, "sync_boost"},
	}},
	{nvml.FieldPolicyBoardLimit, catalogue.Nanosecond, nvml.BoardLimitViolation, []output{{signal.GPUClockThrottleTime, "board_limit"}}},
	{nvml.FieldReasonSWThermal, catalogue.Nanosecond, noQuery, []output{{signal.GPUClockEventTime, "sw_thermal"}}},
	{nvml.FieldReasonHWThermal, catalogue.Nanosecond, noQuery, []output{{signal.GPUClockEventTime, "hw_thermal"}}},
	{nvml.FieldReasonHWPowerBrake, catalogue.Nanosecond, noQuery, []output{{signal.GPUClockEventTime, "hw_power_brake"}}},
	{nvml.FieldECCSingleBitVolatile, catalogue.None, nvml.CorrectedECC, []output{{signal.HwErrors, "corrected"}}},
	{nvml.FieldECCDoubleBitVolatile, catalogue.None, nvml.UncorrectedECC, []output{{signal.HwErrors, "uncorrected"}}},
	{nvml.FieldRemappedCorrectable, catalogue.None, noQuery, []output{{signal.HwErrors, "row_remap_correctable"}}},
	{nvml.FieldRemappedUncorrected, catalogue.None, noQuery, []output{{signal.HwErrors, "row_remap_uncorrectable"}}},
	{nvml.FieldPCIeReplays, catalogue.None, nvml.PCIeReplays, []output{{signal.HwErrors, "pcie_replay"}}},
	{nvml.FieldRemapFailure, catalogue.Flag, noQuery, []output{{signal.HwErrors, "row_remap_failure"}}},
	{nvml.FieldRemapPending, catalogue.Flag, noQuery, nil},
	{nvml.FieldRecoveryAction, catalogue.None, noQuery, nil},
}

// The healths map contains the functions that derive the health of a board from field values.
var healths = map[nvml.FieldID]func(v float64) (catalogue.Health, bool){
	nvml.FieldRemapFailure:   catalogue.Flagged(catalogue.HealthFailed),
	nvml.FieldRemapPending:   catalogue.Flagged(catalogue.HealthPredictedFailure),
	nvml.FieldRecoveryAction: dcgm.RecoveryHealth,
}

// linkErrors lists the NVLink error types and the fields that count these errors.
var linkErrors = [...]struct {
	attribute string
	// The total slice lists the fields that each cover all links of a board. The collector adds up
	// the values of the fields in total. Hopper and later boards do not support the fields in
	// total.
	total []nvml.FieldID
	// The single slice lists the fields that each cover a single link, starting with the field of
	// the newest GPU generation.
	single []nvml.FieldID
}{
	{"nvlink_replay", []nvml.FieldID{nvml.FieldNVLinkReplay}, []nvml.FieldID{nvml.FieldNVLinkErrorReplay}},
	{
		"nvlink_recovery",
		[]nvml.FieldID{nvml.FieldNVLinkRecovery},
		[]nvml.FieldID{nvml.FieldNVLinkRecoveryEvents, nvml.FieldNVLinkErrorRecovery},
	},
	{
		"nvlink_crc",
		[]nvml.FieldID{nvml.FieldNVLinkCRCFlit, nvml.FieldNVLinkCRCData},
		[]nvml.FieldID{nvml.FieldNVLinkErrorCRC},
	},
}

// maxLinks is the value of NVML_NVLINK_MAX_LINKS in driver 610. If a board reports more links, the
// collector does not read the links.
const maxLinks = 36

// queriedFields lists the field values that a single call reads: those in the fields variable, the
// totals in linkErrors, and the number of links.
var queriedFields = func() (values []nvml.FieldValue) {
	for i := range fields {
		values = append(values, nvml.FieldValue{ID: fields[i].id})
	}
	for i := range linkErrors {
		for _, id := range linkErrors[i].total {
			values = append(values, nvml.FieldValue{ID: id})
		}
	}
	return append(values, nvml.FieldValue{ID: nvml.FieldNVLinkCount})
}()

// derivedMetrics lists the metrics that are computed from several queries or fields.
var derivedMetrics = []*signal.Metric{
	signal.HwGPUMemoryUsage, signal.HwGPUMemoryLimit, signal.HwGPUMemoryUtilization, signal.HwErrors,
	signal.GPUClockEventActive, signal.GPUPCIeThroughput, signal.GPUPCIeUtilization, signal.HwStatus, signal.GPURecoveryAction,
	signal.GPUNVLinkUtilization,
}

// DeviceMetrics returns the metrics of boards and instances, in the order of the signal table.
func DeviceMetrics() []*signal.Metric {
	metrics := slices.Clone(derivedMetrics)
	for i := range numbers {
		metrics = append(metrics, numbers[i].metric)
	}
	for i := range fields {
		for _, o := range fields[i].outputs {
			metrics = append(metrics, o.metric)
		}
	}
	for i := range gpm {
		for _, o := range gpm[i].outputs {
			metrics = append(metrics, o.metric)
		}
	}
	return slices.DeleteFunc(signal.All(), func(m *signal.Metric) bool { return !slices.Contains(metrics, m) })
}

var directions = [...]struct {
	query     nvml.Query
	attribute string
}{
	{nvml.PCIeTransmit, signal.DirectionTransmit},
	{nvml.PCIeReceive, signal.DirectionReceive},
}

// boardSamples reads the values that the driver measures for the board as a whole, even in MIG
// mode.
func (r *reader) boardSamples(handle nvml.Device, m *deviceCache, mig bool) {
	d := m.device
	gpm := r.readGPM(handle, m, nvml.NoInstance, mig)
	for i := range numbers {
		n := &numbers[i]
		if n.noMIG && mig || !r.isEnabled(n.metric) || n.attribute == signal.TaskGeneral && gpm[n.metric] {
			continue
		}
		if v, ok := r.query(handle, n.query); ok {
			r.sample(n.metric, d, n.attribute, n.unit, v*n.factor)
		}
	}
	if r.isEnabled(signal.GPUClockEventActive) {
		if mask, ok := r.query(handle, nvml.ClockEventReasons); ok {
			r.eventReasons(d, mask)
		}
	}
	r.fieldSamples(handle, m)
	if !gpm[signal.GPUPCIeThroughput] {
		r.pcieSamples(handle, m)
	}
}

// eventReasons adds a sample for each clock event reason that the signal table contains.
func (r *reader) eventReasons(d *Device, mask float64) {
	if _, verdict := catalogue.Mask.Value(mask); verdict != catalogue.Valid {
		r.stats.ValuesDropped++
		return
	}
	for _, reason := range dcgm.SaturationReasons {
		active := 0.0
		if uint64(mask)&reason.Mask != 0 {
			active = 1
		}
		r.point(d, gpudata.Sample{Metric: signal.GPUClockEventActive, Own: reason.Part, Value: active})
	}
}

func (r *reader) fieldSamples(handle nvml.Device, m *deviceCache) {
	m.device.FailurePredicted = false
	if r.lost {
		return
	}
	if r.failed(r.lib.FieldValues(handle, r.values)) {
		for i := range r.values {
			r.values[i].OK = false
		}
	}
	worst, known := catalogue.HealthOK, false
	addHealth := func(health catalogue.Health, ok bool) {
		if ok {
			worst, known = max(worst, health), true
			m.device.FailurePredicted = m.device.FailurePredicted || health == catalogue.HealthPredictedFailure
		}
	}
	for i := range fields {
		f, v := &fields[i], r.values[i]
		if !v.OK && f.fallback != noQuery {
			v.Value, v.OK = r.query(handle, f.fallback)
		}
		switch {
		case !v.OK:
		case f.id == nvml.FieldMemoryTemperature && v.Value == 0:
			// The value 0 means that the board has no memory temperature sensor.
		default:
			for _, o := range f.outputs {
				r.sample(o.metric, m.device, o.attribute, f.unit, v.Value)
			}
			if health := healths[f.id]; health != nil {
				addHealth(health(v.Value))
			}
			if f.id == nvml.FieldRecoveryAction {
				r.recoveryAction(m.device, v.Value)
			}
		}
	}
	if r.isEnabled(signal.HwStatus) {
		if mask, ok := r.query(handle, nvml.FabricHealth); ok {
			addHealth(dcgm.FabricHealth(mask))
		}
	}
	if known {
		r.states(signal.HwStatus, m.device, signal.HardwareState, worst.String())
	}
	r.linkErrorSamples(handle, m, r.values[len(fields):])
}

// recoveryAction adds a sample for each known recovery action. The sample is 1 for the action that
// the driver recommends. If the driver recommends an unknown action, all samples are 0.
func (r *reader) recoveryAction(d *Device, number float64) {
	actions, action := signal.Values(signal.RecoveryAction), ""
	if number >= 0 && number < float64(len(actions)) {
		action = actions[int(number)]
	} else {
		r.stats.ValuesDropped++
	}
	r.states(signal.GPURecoveryAction, d, signal.RecoveryAction, action)
}

// The states method adds a sample for each possible value of an attribute. The sample is 1 for the
// current value of the attribute and 0 for all other values.
func (r *reader) states(m *signal.Metric, d *Device, attribute, now string) {
	for _, state := range signal.Values(attribute) {
		is := 0.0
		if state == now {
			is = 1
		}
		r.point(d, gpudata.Sample{Metric: m, Own: state, Value: is})
	}
}

// linkErrorSamples adds a sample for each type of NVLink error that the board counts. The values
// argument contains the totals and the number of links.
func (r *reader) linkErrorSamples(handle nvml.Device, m *deviceCache, values []nvml.FieldValue) {
	links := values[len(values)-1]
	if links.OK && links.Value > maxLinks {
		r.stats.ValuesDropped++
		links.OK = false
	}
	for i := range linkErrors {
		e := &linkErrors[i]
		sum, ok := 0.0, true
		for _, v := range values[:len(e.total)] {
			sum, ok = sum+v.Value, ok && v.OK
		}
		values = values[len(e.total):]
		for _, id := range e.single {
			if !ok && links.OK && r.isEnabled(signal.HwErrors) {
				sum, ok = r.linkSum(handle, m, id, int(links.Value))
			}
		}
		if ok {
			r.sample(signal.HwErrors, m.device, e.attribute, catalogue.None, sum)
		}
	}
}

// linkSum returns the sum of a field over all links. If a link has no value, for example because it
// failed, linkSum uses the link's last known value, because a decreasing sum would look like a
// counter reset. If no link has a value, linkSum returns false.
func (r *reader) linkSum(handle nvml.Device, m *deviceCache, id nvml.FieldID, links int) (sum float64, ok bool) {
	if r.lost {
		return 0, false
	}
	r.links = r.links[:0]
	for link := range links {
		r.links = append(r.links, nvml.FieldValue{ID: id, Link: uint32(link)})
	}
	if r.failed(r.lib.FieldValues(handle, r.links)) {
		return 0, false
	}
	if m.links == nil {
		m.links = map[nvml.FieldID][maxLinks]float64{}
	}
	last := m.links[id]
	for link, v := range r.links {
		if v.OK {
			last[link], ok = v.Value, true
		}
	}
	for _, v := range last {
		sum += v
	}
	if ok {
		m.links[id] = last
	}
	return sum, ok
}

// pcieSamples reads the throughput of the PCIe link. The driver measures each direction for 20 ms,
// and each call blocks during the measurement.
func (r *reader) pcieSamples(handle nvml.Device, m *deviceCache) {
	if !r.isEnabled(signal.GPUPCIeThroughput) && !r.isEnabled(signal.GPUPCIeUtilization) {
		return
	}
	for _, direction := range directions {
		if kilobytes, ok := r.query(handle, direction.query); ok {
			r.linkSample(handle, output{signal.GPUPCIeThroughput, direction.attribute}, m, kilobytes*1e3)
		}
	}
}

// pcieCapacity returns the capacity of the board's PCIe link in bytes per second, or 0 if the
// capacity is unknown.
func (r *reader) pcieCapacity(handle nvml.Device, m *deviceCache) float64 {
	if m.capacity == 0 {
		generation, _ := r.query(handle, nvml.MaxPCIeLinkGeneration)
		lanes, _ := r.query(handle, nvml.MaxPCIeLinkWidth)
		if capacity, ok := catalogue.PCIeCapacity(generation, lanes); ok {
			m.capacity = capacity
		} else {
			m.capacity = dcgm.LookupModel(m.device.Model).PCIe
		}
	}
	return m.capacity
}
