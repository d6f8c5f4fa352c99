package pdatagpu

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/component"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Add writes what was added to the frames since they were read into the batch's metrics,
// but for metrics that are disabled. Of frames that were handed over it stays in the frames.
// Points go to the Resource that the batch has for their
// place and holder, and to a new one where it has none.
func (b *Batch) Add(s gpudata.Scope, disabled map[*signal.Metric]bool) {
	w := Writer{Scope: s, Disabled: disabled, batch: b}
	w.begin(b.Metrics, b.resources)
	for _, f := range b.handed {
		f.Settle(s, disabled)
	}
	for _, f := range b.read {
		for _, d := range f.Devices {
			w.device(f, d, 0, d.Samples.Added())
			for _, u := range d.Users {
				w.user(f, d, u, 0, u.Samples.Added())
			}
			for _, p := range d.Processes {
				w.process(f, d, p, 0, p.Samples.Added())
			}
		}
	}
}

// maxDescriptions bounds the devices whose description a Writer remembers.
const maxDescriptions = 100_000

// Writer makes metrics of frames. It remembers what describes devices from call to call,
// and is not safe for concurrent use.
type Writer struct {
	// Scope is who makes what names no other scope.
	Scope gpudata.Scope
	// Disabled metrics are not written.
	Disabled map[*signal.Metric]bool

	md        pmetric.Metrics
	resources map[resourceKey]pmetric.ResourceMetrics
	batch     *Batch // to which points are added, nil when all is written
	outputs   map[outputKey]*output
	last      *output
	lastKey   outputKey

	descriptions *component.Recent[gpudata.Device, description]
	sizes        map[*signal.Metric]int // points of a metric of a place in the last call
}

// outputKey is what an output is of.
type outputKey struct {
	resource resourceKey
	scope    gpudata.Scope
}

// output is the metrics of a scope in one Resource.
type output struct {
	metrics pmetric.MetricSlice
	points  map[*signal.Metric]pmetric.NumberDataPointSlice
	sizes   map[*signal.Metric]int // how many points to make room for
}

// description is what describes a device, and the attributes made of it.
type description struct {
	of    gpudata.Description
	attrs pcommon.Map
}

// Write appends all that frames hold to a batch of metrics.
func (w *Writer) Write(frames []*gpudata.Frame, md pmetric.Metrics) {
	w.begin(md, map[resourceKey]pmetric.ResourceMetrics{})
	for _, f := range frames {
		f.Each(func(s *gpudata.Series) { w.series(f, s) })
	}
	if w.sizes == nil {
		w.sizes = map[*signal.Metric]int{}
	}
	for key, o := range w.outputs {
		if key.resource.holder.IsZero() {
			for m, dps := range o.points {
				w.sizes[m] = dps.Len()
			}
		}
	}
	w.begin(pmetric.Metrics{}, nil)
}

// WriteSeries appends one series of a frame to a batch of metrics.
func (w *Writer) WriteSeries(f *gpudata.Frame, s *gpudata.Series, md pmetric.Metrics) {
	w.begin(md, map[resourceKey]pmetric.ResourceMetrics{})
	w.series(f, s)
}

func (w *Writer) begin(md pmetric.Metrics, resources map[resourceKey]pmetric.ResourceMetrics) {
	w.md, w.resources, w.last = md, resources, nil
	w.outputs = map[outputKey]*output{}
	if w.descriptions == nil {
		w.descriptions = component.NewRecent[gpudata.Device, description](maxDescriptions)
	}
	w.descriptions.Age(time.Now())
}

// series writes a series of a frame.
func (w *Writer) series(f *gpudata.Frame, s *gpudata.Series) {
	d := s.Device
	switch {
	case s.Process != nil:
		w.process(f, d, s.Process, s.Scope, s.Samples)
	case s.User == nil:
		w.device(f, d, s.Scope, s.Samples)
	case s.Repeated:
		w.repeated(f, d, s.User, s.Scope, s.Samples)
	default:
		w.user(f, d, s.User, s.Scope, s.Samples)
	}
}

// device writes samples of a device itself.
func (w *Writer) device(f *gpudata.Frame, d *gpudata.DeviceFrame, by gpudata.Scope, samples []gpudata.Sample) {
	for i := range samples {
		if dp, ok := w.point(f, d, who{}, cmp.Or(samples[i].Scope, by), &samples[i]); ok {
			if samples[i].Metric == signal.GPUSharingClients { // who may hold it by several claims
				putAllocation(dp.Attributes(), &gpudata.Allocation{Driver: d.Allocation.Driver, Pool: d.Allocation.Pool, Device: d.Allocation.Device})
			} else {
				putAllocation(dp.Attributes(), &d.Allocation)
			}
			putSample(dp.Attributes(), &samples[i])
		}
	}
}

// user writes samples of a user, who has the device in some way.
func (w *Writer) user(f *gpudata.Frame, d *gpudata.DeviceFrame, u *gpudata.User, by gpudata.Scope, samples []gpudata.Sample) {
	for i := range samples {
		if dp, ok := w.point(f, d, who{u.Holder, u.Owner}, cmp.Or(samples[i].Scope, by), &samples[i]); ok {
			putUser(dp.Attributes(), u)
			putSample(dp.Attributes(), &samples[i])
			if samples[i].Metric == signal.GPUDeviceHolder {
				put(dp.Attributes(), signal.HolderSource, u.Source)
				if u.Replicas > 1 {
					dp.Attributes().PutInt(signal.SharingReplicas, int64(u.Replicas))
				}
			}
		}
	}
}

// repeated writes samples of a device under a user who shares it.
func (w *Writer) repeated(f *gpudata.Frame, d *gpudata.DeviceFrame, u *gpudata.User, by gpudata.Scope, samples []gpudata.Sample) {
	for i := range samples {
		dp, ok := w.point(f, d, who{u.Holder, u.Owner}, by, &samples[i])
		if !ok {
			continue
		}
		if attrs := dp.Attributes(); isAccelerator(samples[i].Metric) {
			put(attrs, signal.SharingStrategy, u.Strategy)
		} else {
			putAllocation(attrs, &d.Allocation)
			putHolding(attrs, d, u)
		}
		putSample(dp.Attributes(), &samples[i])
	}
}

// process writes samples of a process.
func (w *Writer) process(f *gpudata.Frame, d *gpudata.DeviceFrame, p *gpudata.Process, by gpudata.Scope, samples []gpudata.Sample) {
	for i := range samples {
		if dp, ok := w.point(f, d, who{p.Holder, p.Owner}, cmp.Or(samples[i].Scope, by), &samples[i]); ok {
			putProcess(dp.Attributes(), p)
			putSample(dp.Attributes(), &samples[i])
		}
	}
}

// who is a holder with what describes its pod, zero for nobody.
type who struct {
	gpudata.Holder
	owner gpudata.Owner
}

// point begins a point about a device, of a holder, or of the place for nobody. It returns
// false for a metric that is disabled.
func (w *Writer) point(f *gpudata.Frame, d *gpudata.DeviceFrame, h who, scope gpudata.Scope, s *gpudata.Sample) (pmetric.NumberDataPoint, bool) {
	if w.Disabled[s.Metric] {
		return pmetric.NumberDataPoint{}, false
	}
	dp := w.points(w.output(f, h, cmp.Or(scope, w.Scope)), inCurrency(s)).AppendEmpty()
	dp.SetTimestamp(pcommon.Timestamp(f.Time))
	dp.SetStartTimestamp(pcommon.Timestamp(s.Start))
	switch {
	case s.Ended:
		dp.SetFlags(pmetric.DefaultDataPointFlags.WithNoRecordedValue(true))
	case s.Metric.Int:
		dp.SetIntValue(int64(math.Round(s.Value)))
	default:
		dp.SetDoubleValue(s.Value)
	}
	attrs := dp.Attributes()
	if isAccelerator(s.Metric) {
		attrs.PutStr(signal.HardwareID, d.Device.ID())
		return dp, true
	}
	described := w.describe(d)
	attrs.EnsureCapacity(described.Len() + len(s.More) + 2) // its own, and the strategy or the PID
	described.CopyTo(attrs)
	return dp, true
}

// inCurrency returns the metric of a sample, an amount of money in the currency that the sample
// names.
func inCurrency(s *gpudata.Sample) *signal.Metric {
	if s.Metric.Unit != signal.UnitCurrency {
		return s.Metric
	}
	code := s.Own
	for _, a := range s.More {
		if a.Key == signal.CostCurrency {
			code, _ = a.Value.(string)
		}
	}
	return signal.InCurrency(s.Metric, code)
}

// points returns the points of a metric in an output.
func (w *Writer) points(o *output, m *signal.Metric) pmetric.NumberDataPointSlice {
	dps, ok := o.points[m]
	if !ok {
		dps = points.Begin(o.metrics.AppendEmpty(), m)
		dps.EnsureCapacity(o.sizes[m])
		o.points[m] = dps
	}
	return dps
}

// output returns what is written under the Resource of a holder, or of the place.
func (w *Writer) output(f *gpudata.Frame, h who, scope gpudata.Scope) *output {
	key := outputKey{resourceKey{f.Place, f.Host, h.Holder}, scope}
	if w.batch != nil {
		key.resource.host = ""
	}
	if w.last != nil && w.lastKey == key {
		return w.last
	}
	o, ok := w.outputs[key]
	if !ok {
		sm := w.resource(f, key.resource, h.owner).ScopeMetrics().AppendEmpty()
		putScope(sm.Scope(), scope)
		o = &output{metrics: sm.Metrics(), points: map[*signal.Metric]pmetric.NumberDataPointSlice{}}
		if h.IsZero() {
			o.sizes = w.sizes
		}
		w.outputs[key] = o
	}
	w.last, w.lastKey = o, key
	return o
}

func putScope(to pcommon.InstrumentationScope, s gpudata.Scope) {
	name, version := s.Text()
	to.SetName(name)
	to.SetVersion(version)
}

// resource returns the Resource of a holder, or of the place for nobody. A new Resource of a
// holder gets all attributes of the place's Resource, and of those that came in and say less of
// the same holder.
func (w *Writer) resource(f *gpudata.Frame, key resourceKey, owner gpudata.Owner) pmetric.ResourceMetrics {
	rm, ok := w.resources[key]
	if ok {
		return rm
	}
	rm = w.md.ResourceMetrics().AppendEmpty()
	attrs := rm.Resource().Attributes()
	if of, known := w.resources[resourceKey{place: key.place, host: key.host}]; known {
		of.Resource().Attributes().CopyTo(attrs)
	} else if w.batch != nil {
		w.batch.describe(key.place, attrs)
	} else {
		put(attrs, signal.HostName, key.host)
		put(attrs, signal.K8sNodeName, key.place.Node)
		put(attrs, signal.K8sClusterName, key.place.Cluster)
	}
	putNode(attrs, f)
	if w.batch != nil {
		w.batch.complete(key.place, key.holder, attrs)
	}
	putHolder(attrs, &key.holder)
	putOwner(attrs, owner)
	w.resources[key] = rm
	return rm
}

// describe copies what the batch says of a place: the attributes of its Resource, or the
// place's own of another one there.
func (b *Batch) describe(p gpudata.Place, attrs pcommon.Map) {
	if of, known := b.resources[resourceKey{place: p}]; known {
		of.Resource().Attributes().CopyTo(attrs)
	} else if first, known := b.places[p]; known {
		for _, k := range [...]string{signal.HostName, signal.K8sNodeName, signal.K8sClusterName} {
			put(attrs, k, Text(first.Resource().Attributes(), k))
		}
	}
}

// complete copies the attributes of Resources that say less of a holder.
func (b *Batch) complete(p gpudata.Place, h gpudata.Holder, attrs pcommon.Map) {
	for _, less := range b.holders[p] {
		if !less.PartOf(h) {
			continue
		}
		for k, v := range b.resources[resourceKey{place: p, holder: less}].Resource().Attributes().All() {
			if into, exists := attrs.GetOrPutEmpty(k); !exists {
				v.CopyTo(into)
			}
		}
	}
}

// describe returns what describes a device on each of its points, without an allocation.
func (w *Writer) describe(d *gpudata.DeviceFrame) pcommon.Map {
	known, ok := w.descriptions.Get(d.Device)
	if ok && known.of == d.Description {
		return known.attrs
	}
	known = description{d.Description, pcommon.NewMap()}
	putDevice(known.attrs, d)
	w.descriptions.Put(d.Device, known)
	return known.attrs
}

func putHolder(attrs pcommon.Map, h *gpudata.Holder) {
	put(attrs, signal.K8sNamespaceName, h.Namespace)
	put(attrs, signal.K8sPodName, h.Pod)
	put(attrs, signal.K8sPodUID, h.UID)
	put(attrs, signal.K8sContainerName, h.Container)
	put(attrs, signal.ContainerName, h.Name)
	put(attrs, signal.ContainerID, h.ID)
	put(attrs, signal.HPCJobID, h.Job)
}

// putNode writes what describes the node of a frame.
func putNode(attrs pcommon.Map, f *gpudata.Frame) {
	put(attrs, signal.HostType, f.HostType)
	for _, key := range slices.Sorted(maps.Keys(f.NodeLabels)) {
		put(attrs, signal.K8sNodeLabelPrefix+key, f.NodeLabels[key])
	}
}

func putOwner(attrs pcommon.Map, o gpudata.Owner) {
	known := o.Known()
	for _, f := range ownerFields(&known) {
		put(attrs, f.key, *f.text)
	}
	for key, value := range known.Labels.All() {
		put(attrs, signal.K8sPodLabelPrefix+key, value)
	}
}

// putDevice writes the identity and description of a device, without an allocation.
func putDevice(attrs pcommon.Map, d *gpudata.DeviceFrame) {
	attrs.PutStr(signal.HardwareID, d.Device.ID())
	for _, f := range descriptionFields(&d.Description) {
		put(attrs, f.key, *f.text)
	}
	if d.Vendor != "" {
		attrs.PutStr(signal.HardwareType, signal.TypeGPU)
	}
}

// putUser writes how a user has the device.
func putUser(attrs pcommon.Map, u *gpudata.User) {
	put(attrs, signal.SharingStrategy, u.Strategy)
	putAllocation(attrs, &u.Allocation)
}

// putHolding writes on a repeated point of a device how a user has it.
func putHolding(attrs pcommon.Map, d *gpudata.DeviceFrame, u *gpudata.User) {
	if u.Holds && u.Allocation.Claim == "" && d.Allocation.Claim != "" {
		attrs.Remove(signal.ResourceClaimName) // it is by another claim, or by none, that this one holds it
	}
	putUser(attrs, u)
}

func putAllocation(attrs pcommon.Map, a *gpudata.Allocation) {
	if *a == (gpudata.Allocation{}) {
		return
	}
	for _, f := range allocationFields(a) {
		put(attrs, f.key, *f.text)
	}
}

func putProcess(attrs pcommon.Map, p *gpudata.Process) {
	if pid, err := strconv.ParseInt(p.PID, 10, 64); err == nil {
		attrs.PutInt(signal.ProcessPID, pid)
	} else {
		attrs.PutStr(signal.ProcessPID, p.PID)
	}
	put(attrs, signal.ContainerID, p.ContainerID)
}

// putSample writes the sample's own attributes.
func putSample(attrs pcommon.Map, s *gpudata.Sample) {
	if s.Own != "" {
		put(attrs, s.Metric.Attributes[0], s.Own)
	}
	for i := range s.More {
		// A value that no attribute can have stays away.
		_ = attrs.PutEmpty(s.More[i].Key).FromRaw(s.More[i].Value)
	}
}

// put sets an attribute that is known.
func put(attrs pcommon.Map, key, value string) {
	if value != "" {
		attrs.PutStr(key, value)
	}
}
