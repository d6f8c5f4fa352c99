package findings_test

import (
	"fmt"
	"math"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// generator_test.go generates timelines. The code in this file computes what the exporter exposes
// during a timeline.

var start = time.Date(2026, time.November, 1, 0, 0, 0, 0, time.UTC)

// The frames method calls the visit function with each frame of the timeline. The visit function
// must not retain the frame.
func (w *world) frames(visit func(t float64, f *gpudata.Frame)) {
	restarts := w.restarts
	for t := 0.0; t < w.length; t += w.every {
		down := w.down(t)
		restarted := len(restarts) > 0 && t >= restarts[0]
		if restarted {
			restarts = restarts[1:]
		}
		f := &gpudata.Frame{Place: w.place, Time: start.Add(time.Duration(t * float64(time.Second))).UnixNano()}
		for i, b := range w.boards {
			if restarted {
				b.energy, b.corrected, b.throttled, b.shownAt = 0, 0, 0, 0
			}
			w.step(f, b, i, t, down)
		}
		if !down {
			f.MarkIncoming()
			visit(t, f)
		}
	}
}

// step advances a device to time t. If the exporter responds, step adds the device's exposed values
// to the frame.
func (w *world) step(f *gpudata.Frame, b *board, i int, t float64, down bool) {
	l := w.does(b, i, t)
	reason, share := "", 0.0
	if w.withProbability(0.0005) {
		b.hot = t + w.between(15, 100)
	}
	if t < b.hot && l.util > 0 {
		l.clock, reason, share = w.between(0.6, 0.85), "sw_thermal", 0.9
	}
	if x := w.has("spinning", i, t); x != nil {
		l = w.waits(x.strength)
	} else if x := w.has("latched_utilization", i, t); x != nil {
		l = w.idles(b, 0.17)
		l.util, l.power = 1-0.045*(1-x.strength)*w.rng.Float64(), b.idle/b.limit*w.between(0.96, 1.09)
	} else if x := w.has("slow_device", i, t); x != nil {
		l.clock, reason, share = 0.83-0.4*x.strength, []string{"hw_thermal", "sw_power_cap", "hw_power_brake"}[x.variant], w.between(0.3, 0.95)
	} else if len(w.faults) > 0 && w.faults[0].rule == "spinning" && t >= w.faults[0].begin && t < w.faults[0].end {
		if j, _ := w.jobOn(i, t); j == w.jobs[0] {
			l = w.idles(b, 1) // the rank that hangs
		}
	}
	if w.withProbability(0.001) {
		l.util, l.tensor = 0, 0 // the sample was taken between two kernels
	}
	watts := l.power * b.limit * w.between(0.995, 1.005)
	b.energy += watts * w.every
	b.throttled += share * w.every
	if w.withProbability(b.noise * w.every / 3600 / 3) {
		b.corrected += float64(1 + w.rng.IntN(5))
	}
	if w.withProbability(1e-5) {
		b.corrected += float64(w.rng.IntN(300))
	}
	b.pending = false
	if x := w.has("memory_degrading", i, t); x != nil {
		switch x.variant {
		case 0:
			b.corrected += math.Ceil(w.every / 3600 * math.Pow(10, 3.3+5*x.strength))
		case 1:
			b.pending = true
		default:
			if math.Mod(t-x.begin, 1200) < w.every {
				b.rows++
			}
		}
	}
	if down {
		return
	}
	if frozen := w.has("frozen_telemetry", i, t) != nil; b.shownAt == 0 || !frozen && t-b.shownAt >= w.refresh {
		b.shownAt = t
		b.shown = shown{
			load: l, watts: math.Round(watts*1000) / 1000, energy: math.Round(b.energy*1000) / 1000,
			sm: math.Round(l.clock*b.clock/15e6) * 15e6, temp: math.Round(30 + 45*l.power), throttled: b.throttled, corrected: b.corrected, rows: b.rows,
		}
		if w.integerWatts {
			b.shown.watts = math.Round(watts)
		}
	}
	w.show(f, b, i, t, reason)
}

// show adds the device and its samples to the frame.
func (w *world) show(f *gpudata.Frame, b *board, i int, t float64, reason string) {
	v := &b.shown
	add := func(d *gpudata.DeviceFrame, m *signal.Metric, own string, value float64) {
		d.Samples.Add(gpudata.Sample{Metric: m, Own: own, Value: value})
	}
	if w.withProbability(0.0003) {
		b.quiet = t + w.between(30, 200)
	}
	profile := func(d *gpudata.DeviceFrame) {
		add(d, signal.HwGPUUtilization, signal.TaskGeneral, v.util)
		if t < b.quiet {
			return
		}
		add(d, signal.GPUPipeActive, "tensor", v.tensor)
		add(d, signal.GPUDRAMActive, "", v.dram)
		add(d, signal.GPUPCIeUtilization, signal.DirectionReceive, v.pcie)
		if w.nvlink {
			add(d, signal.GPUNVLinkThroughput, signal.DirectionTransmit, v.nvlink*450e9)
			add(d, signal.GPUNVLinkUtilization, signal.DirectionTransmit, v.nvlink)
		}
	}
	hold := func(d *gpudata.DeviceFrame) {
		j, _ := w.jobOn(i, t)
		if j == nil {
			d.HoldersKnown = w.holders // labels cannot prove that a device has no holder
			d.Listed = w.processes
			return
		}
		d.HoldersKnown = true
		for _, u := range j.users {
			d.AddUser(u)
		}
		if d.Listed = w.processes; d.Listed && w.has("latched_utilization", i, t) == nil {
			d.Count = len(j.users)
		}
	}
	if b.frame == nil {
		b.frame = &gpudata.DeviceFrame{Device: gpudata.NewDevice(w.place, b.id), Description: gpudata.Description{Model: "H100", Vendor: "NVIDIA"}}
		for n := range b.instances {
			b.parts = append(b.parts, &gpudata.DeviceFrame{
				Device:      gpudata.NewDevice(w.place, fmt.Sprintf("%s/gi%d", b.id, n)),
				Description: gpudata.Description{Parent: b.id, Model: "H100", Profile: "1g.10gb"},
			})
		}
	}
	d := b.frame
	*d = gpudata.DeviceFrame{Device: d.Device, Description: d.Description}
	d.Observed = true
	f.Append(d)
	if b.instances == 0 {
		profile(d)
		hold(d)
	}
	for _, part := range b.parts {
		*part = gpudata.DeviceFrame{Device: part.Device, Description: part.Description}
		part.Observed = true
		f.Append(part)
		profile(part)
		hold(part)
	}
	add(d, signal.HwPower, "", v.watts)
	add(d, signal.GPUPowerLimit, "", b.limit)
	add(d, signal.GPUPowerIdle, "", min(v.watts, b.idle*1.01))
	add(d, signal.HwTemperature, signal.LocationGPU, v.temp)
	add(d, signal.GPUClockFrequency, signal.DomainSM, v.sm)
	add(d, signal.GPUClockFrequency, signal.DomainMemory, 2.619e9)
	if w.energyCounter {
		add(d, signal.HwEnergy, "", v.energy)
	}
	add(d, signal.HwErrors, "corrected", v.corrected)
	add(d, signal.HwErrors, "row_remap_uncorrectable", v.rows)
	pending := 0.0
	if b.pending {
		pending = 1
	}
	add(d, signal.HwStatus, signal.StatusPredictedFailure, pending)
	for _, r := range []string{"hw_thermal", "sw_thermal", "sw_power_cap", "hw_power_brake"} {
		if w.reasons {
			active := 0.0
			if r == reason {
				active = 1
			}
			add(d, signal.GPUClockEventActive, r, active)
		}
	}
	if w.exactTimes {
		add(d, signal.GPUClockEventTime, "sw_power_cap", v.throttled)
	} else {
		add(d, signal.GPUClockThrottleTime, "thermal", v.throttled)
	}
}
