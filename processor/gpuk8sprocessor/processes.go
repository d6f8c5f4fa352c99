package gpuk8sprocessor

import (
	"cmp"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/attribution"
)

// processPoint is a point of a process whose container, or at least pod, is known.
type processPoint struct {
	place    *place
	resource pcommon.Map
	user     attribution.Identity
	metric   *signal.Metric
	point    pmetric.NumberDataPoint
}

// moment is when and where processes were listed.
type moment struct {
	node nodeKey
	time int64 // nanoseconds since the epoch
}

// nodeKey is the node that lists of processes and samples of devices have in
// common. Two sources may call its host by different names.
type nodeKey struct {
	node, cluster string
}

func (pl *place) node() nodeKey {
	return nodeKey{cmp.Or(pl.key.node, pl.key.host), pl.key.cluster}
}

// processMetric returns the metric of that name if it is of a process, else nil.
func processMetric(name string) *signal.Metric {
	for _, m := range [...]*signal.Metric{signal.ProcessGPUMemoryUsage, signal.ProcessGPUUtilization} {
		if m.Name == name {
			return m
		}
	}
	return nil
}

// readProcesses takes the points of processes whose pod is known out of a
// Resource that names none, and reports whether nothing is left of it. Processes
// of the host, of containers outside of Kubernetes and of unknown pods stay.
func (b *batch) readProcesses(pl *place, resource pcommon.Map, rm pmetric.ResourceMetrics) (emptied bool) {
	pod := text(resource, signal.K8sPodUID)
	taken := false
	rm.ScopeMetrics().RemoveIf(func(sm pmetric.ScopeMetrics) bool {
		before := sm.Metrics().Len()
		sm.Metrics().RemoveIf(func(m pmetric.Metric) bool {
			of := processMetric(m.Name())
			if of == nil {
				if m.Name() == signal.GPUProcessCount.Name {
					// A list without processes has no other point.
					for _, dp := range points.Of(m).All() {
						b.list(pl, dp, attribution.Identity{}, false)
					}
				}
				return false
			}
			dps := points.Of(m)
			before := dps.Len()
			dps.RemoveIf(func(dp pmetric.NumberDataPoint) bool {
				user, known := b.p.tracker.Container(pod, text(dp.Attributes(), signal.ContainerID))
				b.list(pl, dp, user, known)
				if !known {
					if pod != "" {
						b.unknown++
					}
					return false
				}
				// Copies: what is taken out of a batch may be used again.
				p := processPoint{pl, pcommon.NewMap(), user, of, pmetric.NewNumberDataPoint()}
				resource.CopyTo(p.resource)
				dp.CopyTo(p.point)
				b.processes = append(b.processes, p)
				return true
			})
			return before > 0 && dps.Len() == 0
		})
		removed := sm.Metrics().Len() < before
		taken = taken || removed
		return removed && sm.Metrics().Len() == 0
	})
	return taken && rm.ScopeMetrics().Len() == 0
}

// list notes that a process was seen, also one that is nobody's: a list that names
// no container of a device says that none is on it.
func (b *batch) list(pl *place, dp pmetric.NumberDataPoint, user attribution.Identity, known bool) {
	id := text(dp.Attributes(), signal.HardwareID)
	if id == "" || dp.Flags().NoRecordedValue() {
		return
	}
	k := moment{pl.node(), int64(dp.Timestamp())}
	l := b.lists[k]
	if l == nil {
		l = &attribution.ProcessList{Time: k.time, Users: map[string][]attribution.Holder{}}
		b.lists[k] = l
	}
	if _, listed := l.Users[id]; !listed {
		l.Users[id] = nil
	}
	if known && !attribution.Exporter(user.Namespace, user.Pod, user.Container) {
		l.Users[id] = append(l.Users[id], attribution.NewHolder(user, attribution.Allocation{}))
	}
}

// users returns the containers that were seen to use a device.
func (b *batch) users(d *device) []attribution.Holder {
	var users []attribution.Holder
	for i := range d.usage {
		if u := &d.usage[i]; !u.ended() && !u.gone && u.value() > 0 {
			users = append(users, u.holder)
		}
	}
	for _, h := range b.p.processes.On(d.place.node(), d.id, int64(d.time)) {
		if !b.p.tracker.Gone(h.UID, int64(d.time)) {
			users = append(users, h)
		}
	}
	return users
}

// writeProcesses writes the points of processes under their complete identity.
func (b *batch) writeProcesses(out pmetric.Metrics) {
	for i := range b.processes {
		p := &b.processes[i]
		o := b.output(out, p.place, p.user, &p.resource)
		p.point.CopyTo(o.contract(p.metric).AppendEmpty())
	}
}
