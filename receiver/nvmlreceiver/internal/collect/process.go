package collect

import (
	"cmp"
	"errors"
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver/internal/nvml"
)

// ProcessMetrics returns the metrics that are computed from process lists.
func ProcessMetrics() []*signal.Metric {
	return []*signal.Metric{signal.GPUProcessCount, signal.ProcessGPUMemoryUsage, signal.ProcessGPUUtilization}
}

// listProcesses lists the processes of a board, with one entry per process and instance.
// listProcesses also records for which devices the list is complete.
func (r *reader) listProcesses(board nvml.Device, mig bool) {
	r.processes, r.boardProcesses = r.processes[:0], -1
	some, all := r.appendLists(board, mig)
	if all {
		r.boardProcesses = r.countProcesses()
	}
	if !mig {
		r.setInstance(0, nvml.NoInstance)
		r.mergeProcesses()
		return
	}
	for i := range r.instances {
		r.instances[i].listed = all
	}
	if !some || slices.ContainsFunc(r.processes, func(p nvml.Process) bool { return p.GPUInstance == nvml.NoInstance }) {
		r.listByInstance()
	}
	r.mergeProcesses()
	for i := range r.instances {
		in := &r.instances[i]
		for _, p := range r.processes {
			if p.GPUInstance == in.id {
				in.processes++
			}
		}
	}
}

// listByInstance lists the processes of each instance by listing the processes of its compute
// instances. listByInstance is needed if the caller is not permitted to list the processes of a
// board, or if the library is so old that the board's list does not contain instance IDs. If a MIG
// device could not be identified, no instance has a complete list, because the MIG device may
// belong to any instance.
func (r *reader) listByInstance() {
	r.processes = r.processes[:0]
	for i := range r.instances {
		r.instances[i].listed = r.found
	}
	complete := r.found && len(r.instances) > 0
	for i := range r.migs {
		first := len(r.processes)
		_, all := r.appendLists(r.migs[i].handle, false)
		r.setInstance(first, r.migs[i].id)
		in := r.instance(r.migs[i].id)
		in.listed = in.listed && all
		complete = complete && all
	}
	if complete && r.boardProcesses < 0 {
		r.boardProcesses = r.countProcesses()
	}
}

// countProcesses returns the number of distinct processes in the list.
func (r *reader) countProcesses() int {
	pids := map[uint32]bool{}
	for _, p := range r.processes {
		pids[p.PID] = true
	}
	return len(pids)
}

// setInstance sets the GPU instance of all listed processes, starting at the given index.
func (r *reader) setInstance(first int, id uint32) {
	for i := range r.processes[first:] {
		r.processes[first+i].GPUInstance = id
	}
}

// appendLists appends the processes of all kinds to the list. The first result reports whether at
// least one kind was listed. The second result reports whether the list is complete. A complete
// list contains the compute processes and all other kinds of processes that the library supports.
// Entries with the PID 0 are dropped, because their samples would look like samples of the device.
// For a board in MIG mode, a missing permission to list processes is not a failure, because the
// processes can be listed by instance instead.
func (r *reader) appendLists(d nvml.Device, boardInMIG bool) (some, all bool) {
	all = r.options.AllProcesses
	for kind := range nvml.NumProcessKinds {
		if r.lost {
			return false, false
		}
		list, err := r.lib.Processes(d, kind, r.processes)
		switch {
		case err == nil:
			r.processes = slices.DeleteFunc(list, func(p nvml.Process) bool { return p.PID == 0 })
			if unknown := len(list) - len(r.processes); unknown > 0 {
				r.stats.ValuesDropped += int64(unknown)
				all = false
			}
			some = true
			continue
		case boardInMIG && errors.Is(err, nvml.ErrNoPermission):
		default:
			r.failed(err)
		}
		all = all && kind != nvml.Compute && absent(err)
	}
	return some, all
}

// mergeProcesses keeps one entry per process and instance. A process with both compute and graphics
// contexts has an entry in two lists, usually with the same memory usage. If one of the entries has
// no memory usage, mergeProcesses keeps the other one.
func (r *reader) mergeProcesses() {
	slices.SortFunc(r.processes, func(a, b nvml.Process) int {
		return cmp.Or(
			cmp.Compare(a.GPUInstance, b.GPUInstance), cmp.Compare(a.PID, b.PID),
			-cmp.Compare(a.Memory+1, b.Memory+1), // NoValue becomes 0
		)
	})
	r.processes = slices.CompactFunc(r.processes, func(a, b nvml.Process) bool { return a.PID == b.PID && a.GPUInstance == b.GPUInstance })
}

// processSamples adds the samples of the listed processes and the samples for the number of
// processes.
func (r *reader) processSamples(board nvml.Device, m *deviceCache, mig bool) {
	r.counts(m)
	measured := !mig && len(r.processes) > 0 && r.isEnabled(signal.ProcessGPUUtilization) && r.readUtilization(board, m)
	for _, p := range r.processes {
		d := m.device
		if p.GPUInstance != nvml.NoInstance {
			d = r.instanceDevice(d, p.GPUInstance)
		}
		// If the memory usage of a process is unknown, the process has no memory sample.
		if p.Memory != nvml.NoValue {
			if v, verdict := catalogue.Byte.Value(float64(p.Memory)); verdict == catalogue.Valid {
				r.processPoint(d, p.PID, gpudata.Sample{Metric: signal.ProcessGPUMemoryUsage, Value: v})
			} else {
				r.stats.ValuesDropped++
			}
		}
		if v, known := r.utilization(p.PID); measured && known {
			r.processPoint(d, p.PID, gpudata.Sample{Metric: signal.ProcessGPUUtilization, Value: v})
		}
	}
}

// The counts method adds samples for the number of processes on the board and on each instance
// whose process list is complete.
func (r *reader) counts(m *deviceCache) {
	if r.boardProcesses >= 0 {
		r.point(m.device, gpudata.Sample{Metric: signal.GPUProcessCount, Value: float64(r.boardProcesses)})
	}
	for i := range r.instances {
		if in := &r.instances[i]; in.listed {
			r.point(in.device, gpudata.Sample{Metric: signal.GPUProcessCount, Value: float64(in.processes)})
		}
	}
}

// instanceDevice returns the device for a GPU instance, even if the instance was created after the
// instances were listed.
func (r *reader) instanceDevice(board *Device, id uint32) *Device {
	if in := r.instance(id); in != nil {
		return in.device
	}
	d := instanceOf(board, id)
	r.instances = append(r.instances, instance{identity: identity{id: id}, deviceCache: &deviceCache{device: &d}})
	return &d
}

// readUtilization reads the process utilization samples that the driver has taken since the last
// collection. If the utilization cannot be read, readUtilization returns false.
func (r *reader) readUtilization(board nvml.Device, m *deviceCache) bool {
	clear(r.usage)
	clear(r.sampleTimes)
	if r.lost {
		return false
	}
	samples, err := r.lib.ProcessUtilization(board, m.sampled, r.samples[:0])
	r.samples = samples
	if errors.Is(err, nvml.ErrNotFound) {
		return true
	}
	if r.failed(err) {
		return false
	}
	slices.SortFunc(samples, func(a, b nvml.ProcessSample) int {
		return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.Time, b.Time), cmp.Compare(a.SM, b.SM))
	})
	for i := 0; i < len(samples); {
		pid, t := samples[i].PID, samples[i].Time
		highest, known := uint32(0), false // the highest utilization in the entries for this process and time
		for ; i < len(samples) && samples[i].PID == pid && samples[i].Time == t; i++ {
			// Some drivers write invalid entries.
			if samples[i].SM > 100 {
				r.stats.ValuesDropped++
			} else {
				highest, known = samples[i].SM, true
			}
		}
		m.sampled = max(m.sampled, t)
		r.sampleTimes[t] = true
		u := r.usage[pid]
		if known {
			u.sum += float64(highest) / 100
		} else {
			u.unknown++
		}
		r.usage[pid] = u
	}
	return true
}

// The utilization method returns the mean utilization of a process over all sample times of its
// device. The driver writes no entry for an idle process. Therefore, if a process has no entry for
// a sample time, its utilization at that time counts as 0. The method ignores sample times for
// which all entries of the process are invalid. If all sample times are ignored, the second result
// is false.
func (r *reader) utilization(pid uint32) (mean float64, known bool) {
	u := r.usage[pid]
	times := len(r.sampleTimes) - u.unknown
	if times == 0 {
		return 0, u.unknown == 0
	}
	return u.sum / float64(times), true
}
