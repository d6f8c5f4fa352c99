package nvmlreceiver

import (
	"strconv"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver/internal/cgroup"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver/internal/collect"
)

// frameOf returns the frame of a collection, and the number of processes for each kind of owner.
func frameOf(place gpudata.Place, at time.Time, collected []collect.Point, owner func(pid uint32) cgroup.Owner) (*gpudata.Frame, [cgroup.NumKinds]int64) {
	f := &gpudata.Frame{Place: place, Host: place.Node, Time: at.UnixNano()}
	owners := map[uint32]cgroup.Owner{} // determine the owner of a process only once, even if the process uses several devices
	var kinds [cgroup.NumKinds]int64
	for i := range collected {
		p := &collected[i]
		d := f.Device(p.Device.ID)
		if !d.Observed { // The points of a device that was lost during the collection are at the end of the list.
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
