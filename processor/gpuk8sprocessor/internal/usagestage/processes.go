package usagestage

import (
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/usage"
)

// setUtilization sets the utilization of each holder to the sum of the utilization of the holder's
// processes. If the process list is incomplete, no utilization is set. If the utilization of one of
// the holder's processes is unknown, the holder's utilization is also unknown. If only the ID of a
// process's container is known, the process could belong to any holder, so no utilization is set.
// If nothing is known about a process's container, the process could belong to any holder without
// processes, so the utilization of holders without processes is not set.
func setUtilization(holders []usage.Holder, l *gpudata.ProcessList) {
	if !l.IsComplete() {
		return
	}
	unplaced := false
	for i := range l.Processes {
		p := &l.Processes[i]
		if p.Holder.IsZero() && p.ContainerID != "" {
			return
		}
		unplaced = unplaced || p.Holder.IsZero()
	}
	for i := range holders {
		count := 0
		sum := 0.0
		for k := range l.Processes {
			p := &l.Processes[k]
			if !p.Holder.MayBeSame(holders[i].Holder) {
				continue
			}
			count++
			sum += p.Utilization
			if slices.ContainsFunc(holders, func(o usage.Holder) bool { return o.Holder != holders[i].Holder && p.Holder.MayBeSame(o.Holder) }) {
				sum = usage.Unknown() // The process could also belong to another holder.
			}
		}
		if count > 0 || !unplaced {
			holders[i].Utilization = sum
		}
	}
}
