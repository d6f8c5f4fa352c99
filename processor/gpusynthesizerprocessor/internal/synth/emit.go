package synth

import (
	"strconv"

	"github.com/otelcol-gpu/otelcol-gpu/internal/dcgm"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// direct lists the metrics that are one field's value.
var direct = []struct {
	field  dcgm.ID
	metric *signal.Metric
	own    string
	ratio  bool // clamped to [0, 1]
}{
	{dcgm.FBUsed, signal.HwGPUMemoryUsage, "", false},
	{dcgm.EncUtil, signal.HwGPUUtilization, signal.TaskEncoder, true},
	{dcgm.DecUtil, signal.HwGPUUtilization, signal.TaskDecoder, true},
	{dcgm.PowerUsage, signal.HwPower, "", false},
	{dcgm.EnergyConsumption, signal.HwEnergy, "", false},
	{dcgm.GPUTemp, signal.HwTemperature, signal.LocationGPU, false},
	{dcgm.SMClock, signal.GPUClockFrequency, signal.DomainSM, false},
	{dcgm.MemClock, signal.GPUClockFrequency, signal.DomainMemory, false},
	{dcgm.EventTimeSWPowerCap, signal.GPUClockEventTime, "sw_power_cap", false},
	{dcgm.EventTimeSyncBoost, signal.GPUClockEventTime, "sync_boost", false},
	{dcgm.EventTimeSWThermal, signal.GPUClockEventTime, "sw_thermal", false},
	{dcgm.EventTimeHWThermal, signal.GPUClockEventTime, "hw_thermal", false},
	{dcgm.EventTimeHWPowerBrake, signal.GPUClockEventTime, "hw_power_brake", false},
	{dcgm.PowerViolation, signal.GPUClockThrottleTime, "power", false},
	{dcgm.ThermalViolation, signal.GPUClockThrottleTime, "thermal", false},
	{dcgm.SyncBoostViolation, signal.GPUClockThrottleTime, "sync_boost", false},
	{dcgm.BoardLimitViolation, signal.GPUClockThrottleTime, "board_limit", false},
	{dcgm.GREngineActive, signal.GPUEngineActive, "", true},
	{dcgm.SMActive, signal.GPUSMActive, "", true},
	{dcgm.SMOccupancy, signal.GPUSMOccupancy, "", true},
	{dcgm.DRAMActive, signal.GPUDRAMActive, "", true},
	{dcgm.PipeTensorActive, signal.GPUPipeActive, "tensor", true},
	{dcgm.PipeFP64Active, signal.GPUPipeActive, "fp64", true},
	{dcgm.PipeFP32Active, signal.GPUPipeActive, "fp32", true},
	{dcgm.PipeFP16Active, signal.GPUPipeActive, "fp16", true},
	{dcgm.PipeIntActive, signal.GPUPipeActive, "int", true},
	{dcgm.PipeTensorIMMAActive, signal.GPUPipeActive, "tensor_imma", true},
	{dcgm.PipeTensorHMMAActive, signal.GPUPipeActive, "tensor_hmma", true},
	{dcgm.PipeTensorDFMAActive, signal.GPUPipeActive, "tensor_dfma", true},
	{dcgm.ECCSBEVolatile, signal.HwErrors, "ecc_sbe", false},
	{dcgm.ECCDBEVolatile, signal.HwErrors, "ecc_dbe", false},
	{dcgm.RowRemapUncorrectable, signal.HwErrors, "row_remap_uncorrectable", false},
	{dcgm.RowRemapCorrectable, signal.HwErrors, "row_remap_correctable", false},
	{dcgm.PCIeReplay, signal.HwErrors, "pcie_replay", false},
}

var saturationReasons = dcgm.SaturationReasons()

// nvlinkErrors lists the errors of NVLinks with what each can be made of, the
// newest generation of counters first. Fields of one set add up.
var nvlinkErrors = [...]struct {
	own     string
	sources [][]dcgm.ID
}{
	{"nvlink_crc", [][]dcgm.ID{{dcgm.NVLinkLinkCRC}, {dcgm.NVLinkCRCFlit, dcgm.NVLinkCRCData}, {dcgm.NVLinkCRCFlit}, {dcgm.NVLinkCRCData}}},
	{"nvlink_replay", [][]dcgm.ID{{dcgm.NVLinkLinkReplay}, {dcgm.NVLinkReplay}}},
	{"nvlink_recovery", [][]dcgm.ID{
		{dcgm.NVLinkRecoveryEvents},
		{dcgm.NVLinkRecoverySuccessful, dcgm.NVLinkRecoveryFailed},
		{dcgm.NVLinkLinkRecovery},
		{dcgm.NVLinkRecovery},
	}},
}

// sum returns the sum of the first set of fields that all have a value.
func (a *accumulator) sum(sets [][]dcgm.ID) (total float64, ok bool) {
	for _, set := range sets {
		total, ok = 0, true
		for _, id := range set {
			v, has := a.get(id)
			total, ok = total+v, ok && has
		}
		if ok {
			return total, true
		}
	}
	return 0, false
}

// links lists the links: the field with their rate, the counter to derive it from,
// the field with a coarse rate for want of both, and the direction.
var links = [...]struct {
	rate, total, coarse     dcgm.ID
	throughput, utilization *signal.Metric
	direction               string
	nvlink                  bool
}{
	{dcgm.PCIeTXRate, dcgm.PCIeTXTotal, 0, signal.GPUPCIeThroughput, signal.GPUPCIeUtilization, signal.DirectionTransmit, false},
	{dcgm.PCIeRXRate, dcgm.PCIeRXTotal, 0, signal.GPUPCIeThroughput, signal.GPUPCIeUtilization, signal.DirectionReceive, false},
	{dcgm.NVLinkTXRate, dcgm.NVLinkTXTotal, dcgm.NVLinkTXBandwidth, signal.GPUNVLinkThroughput, signal.GPUNVLinkUtilization, signal.DirectionTransmit, true},
	{dcgm.NVLinkRXRate, dcgm.NVLinkRXTotal, dcgm.NVLinkRXBandwidth, signal.GPUNVLinkThroughput, signal.GPUNVLinkUtilization, signal.DirectionReceive, true},
}

const numByteCounters = len(links)

// byteCounter is the last value of a byte counter.
type byteCounter struct {
	time  int64
	value float64
}

// rate returns the mean bytes per second since the counter's last value. It
// reports false on the first value, after a reset, when time stood still and
// when the rate cannot be true.
func (c *byteCounter) rate(t int64, v float64) (float64, bool) {
	if t <= c.time {
		return 0, false
	}
	before := *c
	*c = byteCounter{t, v}
	if before.time == 0 || v < before.value {
		return 0, false
	}
	mean, verdict := dcgm.BytePerSecond.Value((v - before.value) / (float64(t-before.time) / 1e9))
	return mean, verdict == dcgm.Valid
}

// emitter adds the samples of one device to its frame.
type emitter struct {
	s    *Synthesizer
	a    *accumulator
	to   *gpudata.DeviceFrame
	time int64
}

func (e *emitter) point(m *signal.Metric, own string, start int64, v float64) {
	if e.s.disabled[m] {
		return
	}
	if start > e.time {
		start = 0 // a clock was set back since
	}
	if !e.a.device.claims.rises(e.a.device.ID, m, own, e.time, v) {
		e.s.stats.Dropped[DropSecondSource]++
		return
	}
	e.to.Samples.Add(gpudata.Sample{Metric: m, Own: own, Start: start, Value: v})
}

func (e *emitter) ratio(m *signal.Metric, own string, v float64) {
	v, clamped := dcgm.Clamp(v)
	if clamped {
		e.s.stats.Clamped++
	}
	e.point(m, own, 0, v)
}

// device writes everything that is known of the device.
func (e *emitter) device() {
	a := e.a
	for i := range direct {
		d := &direct[i]
		v, ok := a.get(d.field)
		switch {
		case !ok:
		case d.ratio:
			e.ratio(d.metric, d.own, v)
		default:
			e.point(d.metric, d.own, 0, v)
		}
	}
	// Boards with GDDR have no memory sensor and report 0.
	if v, ok := a.get(dcgm.MemoryTemp); ok && v != 0 {
		e.point(signal.HwTemperature, signal.LocationMemory, 0, v)
	}
	e.memory()
	e.utilization()
	if mask, ok := a.get(dcgm.ClocksEventReasons); ok {
		for _, r := range saturationReasons {
			v := 0.0
			if uint64(mask)&r.Bit != 0 {
				v = 1
			}
			e.point(signal.GPUClockEventActive, r.Name, 0, v)
		}
	}
	for i := range nvlinkErrors {
		if v, ok := a.sum(nvlinkErrors[i].sources); ok {
			e.point(signal.HwErrors, nvlinkErrors[i].own, 0, v)
		}
	}
	e.links()
	e.xid()
	e.holders()
}

func (e *emitter) memory() {
	used, hasUsed := e.a.get(dcgm.FBUsed)
	free, hasFree := e.a.get(dcgm.FBFree)
	reserved, _ := e.a.get(dcgm.FBReserved)
	total, hasTotal := e.a.get(dcgm.FBTotal)
	joined := hasUsed && hasFree && used+free > 0
	switch {
	case hasTotal && total > 0:
		e.point(signal.HwGPUMemoryLimit, "", 0, total)
	case joined:
		e.point(signal.HwGPUMemoryLimit, "", 0, used+free+reserved)
	}
	if joined {
		e.ratio(signal.HwGPUMemoryUtilization, "", used/(used+free))
	}
}

// utilization prefers the engine activity, which is defined on MIG too, to the
// driver's utilization, which is not.
func (e *emitter) utilization() {
	if v, ok := e.a.get(dcgm.GREngineActive); ok {
		e.ratio(signal.HwGPUUtilization, signal.TaskGeneral, v)
		return
	}
	if e.a.mig || e.a.device.Parent != nil {
		return
	}
	if v, ok := e.a.get(dcgm.GPUUtil); ok {
		e.ratio(signal.HwGPUUtilization, signal.TaskGeneral, v)
	}
}

func (e *emitter) links() {
	d := e.a.device
	model := d.model()
	pcie := model.PCIe
	generation, hasGeneration := e.a.get(dcgm.PCIeMaxLinkGen)
	width, hasWidth := e.a.get(dcgm.PCIeMaxLinkWidth)
	if hasGeneration && hasWidth {
		pcie, _ = dcgm.PCIeCapacity(generation, width)
	}
	for i := range links {
		l := &links[i]
		rate, ok := e.a.get(l.rate)
		if total, hasTotal := e.a.get(l.total); hasTotal {
			derived, derivable := d.bytes[i].rate(e.time, total)
			if !ok {
				rate, ok = derived, derivable
			}
		}
		if !ok {
			rate, ok = e.a.get(l.coarse)
		}
		if !ok {
			continue
		}
		e.point(l.throughput, l.direction, 0, rate)
		capacity := pcie
		if l.nvlink {
			capacity = model.NVLink
		}
		if capacity > 0 {
			e.ratio(l.utilization, l.direction, rate/capacity)
		}
	}
}

// xid writes the counts of XID events, or a 0 that says that they are watched.
func (e *emitter) xid() {
	if !e.a.xidSeen {
		return
	}
	s := &e.a.device.xid
	if len(s.codes) == 0 {
		e.point(signal.HwErrors, "", s.since, 0)
	}
	for _, c := range s.codes {
		e.point(signal.HwErrors, xidErrorType(c.code), c.start, float64(c.count))
	}
}

// xidErrorTypes spares an allocation a point.
var xidErrorTypes = func() (names [dcgm.MaxXID + 1]string) {
	for code := range names {
		names[code] = signal.ErrorTypeXIDPrefix + strconv.Itoa(code)
	}
	return names
}()

func xidErrorType(code int) string { return xidErrorTypes[code] }

// holders adds who holds the device according to the labels, and what their processes
// use of it.
func (e *emitter) holders() {
	a := e.a
	users := make([]*gpudata.User, len(a.holders))
	for i := range a.holders {
		h := &a.holders[i]
		u := e.to.User(holderOf(&h.Holder))
		u.Holds, u.Source, u.Allocation = !e.s.disabled[signal.GPUDeviceHolder], signal.HolderSourceLabels, h.dra.allocation()
		if h.timeSlice {
			u.Strategy = signal.SharingTimeSlicing
		}
		users[i] = u
	}
	sharing := []gpudata.Attr{{Key: signal.SharingStrategy, Value: a.sharing()}}
	for _, u := range a.usage {
		if !a.fields[u.field].bareRow {
			continue // copies of the device's value, not processes beside it
		}
		v, m := u.value, signal.K8sContainerGPUMemoryUsage
		if u.field == dcgm.GPUUtil {
			var clamped bool
			m = signal.K8sContainerGPUUtilization
			if v, clamped = dcgm.Clamp(v); clamped {
				e.s.stats.Clamped++
			}
		}
		if !e.s.disabled[m] {
			users[u.holder].Samples.Add(gpudata.Sample{Metric: m, Value: v, More: sharing})
		}
	}
}

// holderOf returns who the labels of a row name: a container of a pod, or one without, or
// a job.
func holderOf(h *dcgm.Holder) gpudata.Holder {
	if h.Pod != "" {
		return gpudata.Holder{Namespace: h.Namespace, Pod: h.Pod, UID: h.UID, Container: h.Container, Job: h.Job}
	}
	if id, ok := h.ContainerID(); ok {
		return gpudata.Holder{ID: id, Job: h.Job}
	}
	return gpudata.Holder{Name: h.Container, Job: h.Job}
}

// sharing is what labels tell of how the device's holders share it.
func (a *accumulator) sharing() string {
	replica, claimed := false, true
	for i := range a.holders {
		replica = replica || a.holders[i].timeSlice
		claimed = claimed && a.holders[i].dra.Claim != ""
	}
	switch {
	case len(a.holders) == 1 && !replica:
		return signal.SharingUnknown
	case claimed:
		return signal.SharingDRA
	}
	return signal.SharingTimeSlicing
}
