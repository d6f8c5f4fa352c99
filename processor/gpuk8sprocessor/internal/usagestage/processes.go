package usagestage

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/usage"
)

// processList is the newest list of a device's processes. It may arrive in a different batch from
// the device's own samples.
type processList struct {
	clock     gpudata.Clock // its newest time is the time of the list
	lastSeen  time.Time
	listed    bool
	count     int
	processes map[string]listedProcess // by PID
}

type listedProcess struct {
	holder      gpudata.Holder
	inContainer bool
	utilization float64
}

// storeProcessLists stores the process lists of a frame. One list can arrive in several batches.
func (p *usageBatch) storeProcessLists(f *gpudata.Frame, now time.Time) {
	for _, d := range f.Devices {
		if !d.Listed && !slices.ContainsFunc(d.Processes, (*gpudata.Process).IsListed) {
			continue
		}
		l := p.lists[d.Device]
		if l == nil {
			if !p.listed.Take() {
				p.series.Refuse(1)
				continue
			}
			l = &processList{}
			p.lists[d.Device] = l
		}
		before := l.clock.Newest
		if l.clock.Observe(f.Time, now, p.cfg.MaxGap) == gpudata.Behind {
			continue
		}
		if l.processes == nil || before != f.Time {
			*l = processList{clock: l.clock, processes: map[string]listedProcess{}}
		}
		l.lastSeen = now
		l.listed = l.listed || d.Listed
		l.count = max(l.count, d.Count)
		for _, listed := range d.Processes {
			if !listed.IsListed() {
				continue
			}
			v := utilization(&listed.Samples, signal.ProcessGPUUtilization, "")
			if previous, ok := l.processes[listed.PID]; ok && math.IsNaN(v) {
				v = previous.utilization
			}
			l.processes[strings.Clone(listed.PID)] = listedProcess{listed.Holder.Clone(), listed.ContainerID != "", v}
		}
	}
}

// setUtilization sets the utilization of each holder to that of its processes, if the list is complete and
// all of the holder's processes have a utilization. A process in an unknown container may belong to
// any holder. A process that could not be matched to a container may belong to any holder without
// processes.
func (l *processList) setUtilization(holders []usage.Holder) {
	if !l.listed || len(l.processes) < l.count {
		return
	}
	unplaced := false
	for _, p := range l.processes {
		if p.holder.IsZero() && p.inContainer {
			return
		}
		unplaced = unplaced || p.holder.IsZero()
	}
	for i := range holders {
		count := 0
		sum := 0.0
		for _, p := range l.processes {
			if !p.holder.MayBeSame(holders[i].Holder) {
				continue
			}
			count++
			sum += p.utilization
			if slices.ContainsFunc(holders, func(o usage.Holder) bool { return o.Holder != holders[i].Holder && p.holder.MayBeSame(o.Holder) }) {
				sum = usage.Unknown() // the process may belong to this holder
			}
		}
		if count > 0 || !unplaced {
			holders[i].Utilization = sum
		}
	}
}
