package nvmlreceiver

import (
	"strconv"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver/internal/cgroup"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver/internal/collect"
)

// frameOf returns a frame that contains the points of a collection, and the number of processes for
// each kind of owner.
func frameOf(place gpudata.Place, at time.Time, collected []collect.Point, owner func(pid uint32) cgroup.Owner) (*gpudata.Frame, [cgroup.NumKinds]int64) {
	f := &gpudata.Frame{Place: place, Host: place.Node, Time: at.UnixNano()}
	owners := map[uint32]cgroup.Owner{} // caches the owner of each process, because a process may use several devices
	var kinds [cgroup.NumKinds]int64
	for i := range collected {
		p := &collected[i]
		d := f.Device(p.Device.ID)
		if !d.Observed { // the device of a point at the end of the list may already exist
			d.Observed, d.Description, d.FailurePredicted = true, p.Device.Description, p.Device.FailurePredicted
		}
		switch {
		case p.PID != 0:
			o, ok := owners[p.PID]
			if !ok {
				o = owner(p.PID)
				owners[p.PID] = o
				kinds[o.Kind]++
			}
			process := d.Process(strconv.FormatUint(uint64(p.PID), 10))
			process.Holder.UID, process.Holder.Job, process.Holder.Name, process.ContainerID = o.PodUID, o.Job, o.Service, o.ContainerID
			if o.Alone {
				process.Holder.ID = o.ContainerID
			}
			process.Samples.Add(p.Sample)
		case p.Metric == signal.GPUProcessCount:
			d.Listed, d.Count = true, int(p.Value)
		default:
			d.Samples.Add(p.Sample)
		}
	}
	return f, kinds
}
