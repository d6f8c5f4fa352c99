package nvmlreceiver

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver/internal/cgroup"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver/internal/collect"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver/internal/metadata"
)

// batchBuilder turns the points of a collection into one batch of metrics.
type batchBuilder struct {
	version string // of the collector, for the scope
	node    string // k8s.node.name and host.name
	cluster string // k8s.cluster.name
}

// batch is one batch under construction.
type batch struct {
	*batchBuilder
	md        pmetric.Metrics
	resources map[string]*output // by pod UID; devices and processes of no pod have none
	devices   map[*collect.Device]pcommon.Map
	owners    map[uint32]cgroup.Owner
}

// output is one Resource under construction.
type output struct {
	metrics pmetric.MetricSlice
	points  map[*signal.Metric]pmetric.NumberDataPointSlice
}

// build makes a batch of points at ts: one Resource for the devices and the
// processes of no pod, and one for each pod with processes. It returns how many
// processes there were, by kind of owner.
func (b *batchBuilder) build(
	samples []collect.Point,
	ts pcommon.Timestamp,
	owner func(pid uint32) cgroup.Owner,
) (pmetric.Metrics, [cgroup.NumKinds]int64) {
	batch := batch{
		batchBuilder: b,
		md:           pmetric.NewMetrics(),
		resources:    map[string]*output{},
		devices:      map[*collect.Device]pcommon.Map{},
		owners:       map[uint32]cgroup.Owner{},
	}
	var kinds [cgroup.NumKinds]int64
	for i := range samples {
		p := &samples[i]
		if p.PID == 0 {
			batch.point("", p, ts)
			continue
		}
		// A process on several devices is looked up once.
		o, ok := batch.owners[p.PID]
		if !ok {
			o = owner(p.PID)
			batch.owners[p.PID] = o
			kinds[o.Kind]++
		}
		attrs := batch.point(o.PodUID, p, ts)
		attrs.PutInt(signal.ProcessPID, int64(p.PID))
		put(attrs, signal.ContainerID, o.ContainerID)
	}
	return batch.md, kinds
}

// point writes a point with what describes its device, and returns its
// attributes.
func (b *batch) point(podUID string, p *collect.Point, ts pcommon.Timestamp) pcommon.Map {
	dp := b.metric(b.resource(podUID), p.Metric).AppendEmpty()
	dp.SetTimestamp(ts)
	if p.Metric.Int {
		dp.SetIntValue(int64(p.Value))
	} else {
		dp.SetDoubleValue(p.Value)
	}
	attrs := dp.Attributes()
	described := b.device(p.Device)
	attrs.EnsureCapacity(described.Len() + 2) // the metric's own, or those of a process
	described.CopyTo(attrs)
	if p.Own != "" {
		attrs.PutStr(p.Metric.Attributes[0], p.Own)
	}
	return attrs
}

// resource returns the Resource of a pod, or of none.
func (b *batch) resource(podUID string) *output {
	if o, ok := b.resources[podUID]; ok {
		return o
	}
	rm := b.md.ResourceMetrics().AppendEmpty()
	attrs := rm.Resource().Attributes()
	put(attrs, signal.HostName, b.node)
	put(attrs, signal.K8sNodeName, b.node)
	put(attrs, signal.K8sClusterName, b.cluster)
	put(attrs, signal.K8sPodUID, podUID)
	sm := rm.ScopeMetrics().AppendEmpty()
	sm.Scope().SetName(metadata.ScopeName)
	sm.Scope().SetVersion(b.version)
	o := &output{metrics: sm.Metrics(), points: map[*signal.Metric]pmetric.NumberDataPointSlice{}}
	b.resources[podUID] = o
	return o
}

// metric returns the points of a metric in a Resource.
func (b *batch) metric(o *output, s *signal.Metric) pmetric.NumberDataPointSlice {
	dps, ok := o.points[s]
	if !ok {
		dps = points.Begin(o.metrics.AppendEmpty(), s)
		o.points[s] = dps
	}
	return dps
}

// device returns what describes a device on its points.
func (b *batch) device(d *collect.Device) pcommon.Map {
	if attrs, ok := b.devices[d]; ok {
		return attrs
	}
	attrs := pcommon.NewMap()
	attrs.PutStr(signal.HardwareID, d.ID)
	put(attrs, signal.HardwareParent, d.Parent)
	put(attrs, signal.HardwareName, d.Name)
	put(attrs, signal.HardwareModel, d.Model)
	attrs.PutStr(signal.HardwareVendor, signal.VendorNVIDIA)
	attrs.PutStr(signal.HardwareType, signal.TypeGPU)
	put(attrs, signal.HardwareDriverVersion, d.Driver)
	put(attrs, signal.HardwareSerialNumber, d.Serial)
	put(attrs, signal.MIGProfile, d.Profile)
	put(attrs, signal.MIGInstanceID, d.Instance)
	put(attrs, signal.MIGUUID, d.MIGUUID)
	b.devices[d] = attrs
	return attrs
}

// put sets an attribute that is known.
func put(attrs pcommon.Map, key, value string) {
	if value != "" {
		attrs.PutStr(key, value)
	}
}
