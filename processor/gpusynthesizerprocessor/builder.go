package gpusynthesizerprocessor

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/dcgm"
	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor/internal/synth"
)

const scopeName = "github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor"

// builder writes points into a batch, one Resource per place and holder, one
// metric per name within it.
type builder struct {
	md        pmetric.Metrics
	cluster   string
	version   string
	resources map[resourceKey]*output
	free      []*output
	// last is the output written last: points of a device follow each other.
	last    *output
	lastKey resourceKey
	// devices holds what describes each device on its points, of one epoch.
	devices map[*synth.Device]*template
	epoch   uint64
	// sizes remembers how many points a metric had in the last batch.
	sizes map[*signal.Metric]int
}

type resourceKey struct {
	place  synth.Place
	holder dcgm.Holder
}

// output is one Resource under construction.
type output struct {
	metrics pmetric.MetricSlice
	points  map[*signal.Metric]pmetric.NumberDataPointSlice
	device  bool // no holder
}

// template is the identity and description of a device as attributes.
type template struct {
	version uint64
	attrs   pcommon.Map
}

// begin starts a batch. epoch changes when devices were forgotten.
func (b *builder) begin(md pmetric.Metrics, epoch uint64, cluster, version string) {
	b.md, b.cluster, b.version = md, cluster, version
	if b.resources == nil {
		b.resources = map[resourceKey]*output{}
		b.devices = map[*synth.Device]*template{}
		b.sizes = map[*signal.Metric]int{}
	}
	if b.epoch != epoch {
		clear(b.devices)
		b.epoch = epoch
	}
}

// end lets go of the batch.
func (b *builder) end() {
	for k, o := range b.resources {
		if o.device {
			for m, dps := range o.points {
				b.sizes[m] = dps.Len()
			}
		}
		clear(o.points)
		b.free = append(b.free, o)
		delete(b.resources, k)
	}
	b.last = nil
	b.md = pmetric.Metrics{}
}

// add writes one point.
func (b *builder) add(p *synth.Point) {
	o := b.output(p)
	dps, ok := o.points[p.Metric]
	if !ok {
		dps = b.metric(o, p.Metric)
	}
	dp := dps.AppendEmpty()
	dp.SetTimestamp(pcommon.Timestamp(p.Time))
	if p.Start != 0 {
		dp.SetStartTimestamp(pcommon.Timestamp(p.Start))
	}
	if p.Metric.Int {
		dp.SetIntValue(p.Int)
	} else {
		dp.SetDoubleValue(p.Double)
	}
	t := b.template(p.Device)
	attrs := dp.Attributes()
	attrs.EnsureCapacity(t.attrs.Len() + added(p))
	t.attrs.CopyTo(attrs)
	if p.Holder != nil {
		putDRA(attrs, p.DRA)
		if p.Metric == signal.GPUDeviceHolder {
			attrs.PutStr(signal.HolderSource, signal.HolderSourceLabels)
		}
		put(attrs, signal.SharingStrategy, p.Sharing)
	}
	if p.Own != "" {
		attrs.PutStr(p.Metric.Attributes[0], p.Own)
	}
	put(attrs, signal.Reason, p.Reason)
}

// added returns how many attributes a point has at most beside its device's.
func added(p *synth.Point) int {
	n := 0
	if p.Metric == signal.GPUDeviceHolder {
		n++
	}
	for _, v := range [...]string{p.Own, p.Reason, p.Sharing, p.DRA.Claim, p.DRA.Driver, p.DRA.Pool, p.DRA.Device} {
		if v != "" {
			n++
		}
	}
	return n
}

// output returns the Resource that a point belongs to.
func (b *builder) output(p *synth.Point) *output {
	key := resourceKey{place: p.Device.Place}
	if p.Holder != nil {
		key.holder = *p.Holder
	}
	if b.last != nil && b.lastKey == key {
		return b.last
	}
	o, ok := b.resources[key]
	if !ok {
		o = b.resource(key)
		b.resources[key] = o
	}
	b.last, b.lastKey = o, key
	return o
}

func (b *builder) resource(key resourceKey) *output {
	var o *output
	if n := len(b.free); n > 0 {
		o, b.free = b.free[n-1], b.free[:n-1]
	} else {
		o = &output{points: map[*signal.Metric]pmetric.NumberDataPointSlice{}}
	}
	rm := b.md.ResourceMetrics().AppendEmpty()
	attrs := rm.Resource().Attributes()
	put(attrs, signal.HostName, key.place.Host)
	put(attrs, signal.K8sNodeName, key.place.Node)
	put(attrs, signal.K8sClusterName, b.cluster)
	putHolder(attrs, &key.holder)
	sm := rm.ScopeMetrics().AppendEmpty()
	sm.Scope().SetName(scopeName)
	sm.Scope().SetVersion(b.version)
	o.metrics = sm.Metrics()
	o.device = key.holder == dcgm.Holder{}
	return o
}

// metric begins a metric in a Resource.
func (b *builder) metric(o *output, s *signal.Metric) pmetric.NumberDataPointSlice {
	dps := points.Begin(o.metrics.AppendEmpty(), s)
	if o.device {
		dps.EnsureCapacity(b.sizes[s])
	}
	o.points[s] = dps
	return dps
}

// template returns what describes a device on its points.
func (b *builder) template(d *synth.Device) *template {
	t, ok := b.devices[d]
	if ok && t.version == d.Version {
		return t
	}
	t = &template{version: d.Version, attrs: pcommon.NewMap()}
	t.attrs.PutStr(signal.HardwareID, d.ID)
	if d.Parent != nil {
		t.attrs.PutStr(signal.HardwareParent, d.Parent.ID)
	}
	put(t.attrs, signal.HardwareName, d.Name)
	put(t.attrs, signal.HardwareModel, d.Model)
	t.attrs.PutStr(signal.HardwareVendor, signal.VendorNVIDIA)
	t.attrs.PutStr(signal.HardwareType, signal.TypeGPU)
	put(t.attrs, signal.HardwareDriverVersion, d.Driver)
	if d.Parent == nil {
		put(t.attrs, signal.HardwareSerialNumber, d.Serial)
	}
	put(t.attrs, signal.MIGProfile, d.Profile)
	put(t.attrs, signal.MIGInstanceID, d.Instance)
	put(t.attrs, signal.MIGUUID, d.MIGUUID)
	putDRA(t.attrs, d.DRA)
	b.devices[d] = t
	return t
}

// putHolder writes who holds a device: a container of a pod, or one without, or a job.
func putHolder(attrs pcommon.Map, h *dcgm.Holder) {
	put(attrs, signal.HPCJobID, h.Job)
	if h.Pod == "" {
		if id, ok := h.ContainerID(); ok {
			attrs.PutStr(signal.ContainerID, id)
		} else {
			put(attrs, signal.ContainerName, h.Container)
		}
		return
	}
	put(attrs, signal.K8sNamespaceName, h.Namespace)
	put(attrs, signal.K8sPodName, h.Pod)
	put(attrs, signal.K8sPodUID, h.UID)
	put(attrs, signal.K8sContainerName, h.Container)
}

func putDRA(attrs pcommon.Map, d synth.DRA) {
	put(attrs, signal.ResourceClaimName, d.Claim)
	put(attrs, signal.DRADriver, d.Driver)
	put(attrs, signal.DRAPool, d.Pool)
	put(attrs, signal.DRADevice, d.Device)
}

// put sets an attribute that is known.
func put(attrs pcommon.Map, key, value string) {
	if value != "" {
		attrs.PutStr(key, value)
	}
}
