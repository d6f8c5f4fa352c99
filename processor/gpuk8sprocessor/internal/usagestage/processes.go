package usagestage

import (
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/usage"
)

// setUtilization sets the utilization of each holder to that of its processes, if the list is complete and
// all of the holder's processes have a utilization. A process in an unknown container may belong to
// any holder. A process that could not be matched to a container may belong to any holder without
// processes.
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
				sum = usage.Unknown() // the process may belong to this holder
			}
		}
		if count > 0 || !unplaced {
			holders[i].Utilization = sum
		}
	}
}
