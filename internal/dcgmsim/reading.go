package dcgmsim

import (
	"math"
	"time"
)

// notSupported is DCGM's integer sentinel for "not supported", which the oldest exporters print.
const notSupported = 0x7ffffffffffffff2

// idlePCIeTx and idlePCIeRx are the bytes per second that the driver itself sends and receives on
// an idle GPU. Both rates are from recordings.
const idlePCIeTx, idlePCIeRx = 110e3, 18e3

// reading contains the values of one entity at one time. If a quantity was not observed, the
// quantity's number is not valid.
type reading [quantities]number

// readBoard reads the values of the board at time t.
func (s *Simulation) readBoard(r *reading, g *gpu, t time.Duration) {
	t = g.shown(t)
	u := g.phase + t
	hw, st := g.hardware, g.story
	load := st.load.at(u)
	moves := load // utilization of the memory and the links
	if st.waits.at(u) {
		moves = 0
	}
	since := s.restarted(t)

	// NVML changes the SM clock in steps of 15 MHz.
	r[smClock] = integer(int64(math.Round(hw.smMHz*st.clock.at(u)/15) * 15))
	r[memClock] = integer(int64(hw.memMHz))
	var mask Reason
	for reason, gate := range st.reasons {
		if gate.at(u) {
			mask |= reason
		}
	}
	r[eventReasons] = integer(int64(mask))
	celsius := st.temperature.at(u)
	r[gpuTemp] = integer(int64(math.Round(celsius)))
	// Idle HBM is as warm as the GPU. Under load, HBM is warmer than the GPU.
	r[memTemp] = integer(int64(math.Round(celsius + 12*st.power.at(u))))
	r[enforcedLimit] = double(hw.limitWatts)
	millijoules := (g.joules(t) - g.joules(since)) * 1000
	if since == 0 {
		millijoules += g.energyBase
	}
	r[energy] = integer(int64(millijoules))

	tx, rx := idlePCIeTx+.17*moves*hw.pcieBytes, idlePCIeRx+.43*moves*hw.pcieBytes
	r[profPCIeTx], r[profPCIeRx] = integer(int64(tx)), integer(int64(rx))
	r[pcieTxKB], r[pcieRxKB] = integer(int64(tx/1000)), integer(int64(rx/1000))
	r[pcieReplay] = integer(0)
	r[pcieMaxGen] = integer(hw.pcieGen)
	r[pcieMaxWidth] = integer(16)
	r[pcieWidth] = integer(16)
	r[pcieGen] = integer(hw.pcieGen)
	if load == 0 {
		// An idle link falls back to PCIe generation 1.
		r[pcieGen] = integer(1)
	}
	r[profNVLinkTx] = integer(int64(.42 * moves * hw.nvlinkBytes))
	r[profNVLinkRx] = integer(int64(.4 * moves * hw.nvlinkBytes))
	r[linkBandwidth] = integer(int64(.82 * moves * hw.nvlinkBytes / 1e6))
	r[linkCRCErrors], r[linkReplays], r[linkRecoveries] = integer(0), integer(0), integer(0)

	r[gpuUtil] = integer(int64(math.Round(100 * load)))
	r[memCopyUtil] = integer(int64(math.Round(50 * moves)))
	r[encUtil], r[decUtil] = integer(0), integer(0)
	r[vgpuLicense] = integer(0)

	for q, v := range map[quantity]Violation{
		powerViolation: ViolationPower, thermalViolation: ViolationThermal,
		syncBoostViolation: ViolationSyncBoost, lowUtilViolation: ViolationLowUtil,
	} {
		total := g.timeOn(st.violations[v], since, t)
		if since == 0 {
			total += g.violationBase[v]
		}
		r[q] = integer(int64(total))
	}
	r[boardLimitViolation], r[reliabilityViolation] = integer(0), integer(0)
	for q, reason := range map[quantity]Reason{
		swPowerCapTime: ReasonSWPowerCap, syncBoostTime: ReasonSyncBoost, swThermalTime: ReasonSWThermal,
		hwThermalTime: ReasonHWThermal, hwPowerBrakeTime: ReasonHWPowerBrake,
	} {
		r[q] = integer(int64(g.timeOn(st.reasons[reason], since, t)))
	}

	occurred := func(e events) int64 { return e.count(g.phase+t) - e.count(g.phase+since) }
	r[eccSBE] = integer(occurred(st.sbe))
	r[eccDBE] = integer(occurred(st.xidEvents[48]))
	r[remapUncorrectable], r[remapCorrectable], r[remapFailed] = integer(occurred(st.xidEvents[63])), integer(0), integer(0)
	r[remapPending], r[recoveryAction] = integer(0), integer(0)
	if st.remaps.at(u) {
		r[remapPending] = integer(1)
	}
	if st.resetWanted.at(u) {
		r[recoveryAction] = integer(1)
	}
	r[fabricHealth] = integer(0x1aa) // all four conditions are false, and the configuration is correct
	if !hw.rowRemapping {
		for _, q := range []quantity{remapUncorrectable, remapCorrectable, remapFailed, remapPending} {
			r[q] = integer(notSupported)
		}
	}
}

// readEntity reads the values of the GPU or the MIG instance itself.
func (s *Simulation) readEntity(r *reading, e *entity, t time.Duration) {
	t = e.gpu.shown(t)
	// NVML reports milliwatts.
	r[powerUsage] = double(math.Round(e.gpu.watts(max(t-e.lag, 0))*1000) / 1000)

	usable, reserved := e.memoryMiB()
	used := int64(math.Round(e.occupancy(t) * float64(usable)))
	r[fbUsed], r[fbFree] = integer(used), integer(usable-used)
	r[fbReserved], r[fbTotal] = integer(reserved), integer(usable+reserved)

	load := e.story.load.at(e.phase + t)
	r[grEngine] = double(load)
	r[smActive] = double(.9 * load)
	r[smOccupancy] = double(.42 * load)
	computes := load
	if e.story.waits.at(e.phase + t) {
		computes = 0
	}
	r[pipeTensor] = double(.48 * computes)
	r[dramActive] = double(.55 * computes)
	r[pipeFP64] = double(.01 * computes)
	r[pipeFP32] = double(.12 * computes)
	r[pipeFP16] = double(.08 * computes)

	last := e.lastXID(s.restarted(t), t)
	r[xidLast] = integer(int64(last))
	if last == 0 && s.config.Style.in(since45) {
		// Exporter 4.5 and later omit the sentinel that DCGM returns before the first XID.
		r[xidLast] = number{}
	}
}

// clockEventCounts returns, for each reason, the number of samples in which the reason was active.
// The samples are from the window that ends at time t. The results are in the order of clockEvents.
// DCGM takes one sample per collect interval. The simulation takes at most one sample per second.
func (s *Simulation) clockEventCounts(g *gpu, t time.Duration) [9]int64 {
	var counts [9]int64
	step := max(s.config.CollectInterval, time.Second)
	begin := max(s.restarted(t), t-windowSize+step)
	for i, c := range clockEvents {
		gate, known := g.story.reasons[c.reason]
		if !known {
			continue
		}
		for at := t; at >= begin; at -= step {
			if gate.at(g.phase + at) {
				counts[i]++
			}
		}
	}
	return counts
}

// xidTexts maps the XID codes in the stories to the values of the err_msg label.
var xidTexts = map[int]string{
	0:  "No Error",
	13: "Graphics Engine Exception",
	31: "GPU memory page fault",
	43: "GPU stopped processing",
	48: "Double Bit ECC Error",
	63: "ECC page retirement or row remapping recording event",
	94: "Contained ECC error",
}
