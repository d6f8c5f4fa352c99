package pdatagpu

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// writeAdded writes the samples that were added to the frames after the frames were read. The data
// points are added to the batch's Resource for the place and holder, or to a new Resource.
func (b *Batch) writeAdded() {
	w := Writer{batch: b}
	w.begin(b.Metrics, b.resources)
	for _, f := range b.read {
		for _, d := range f.Devices {
			w.series(f, &gpudata.Series{Device: d, Samples: d.Samples.Added()})
			for _, u := range d.Users {
				w.series(f, &gpudata.Series{Device: d, User: u, Samples: u.Samples.Added()})
			}
			for _, p := range d.Processes {
				w.series(f, &gpudata.Series{Device: d, Process: p, Samples: p.Samples.Added()})
			}
		}
	}
}

// maxDescriptions limits the cache of device descriptions. The cache contains at most twice as many
// descriptions.
const maxDescriptions = 100_000

// Writer converts frames to metrics. A Writer caches device descriptions between calls. A Writer is
// not safe for concurrent use.
type Writer struct {
	// Scope is the scope of samples that do not have their own scope.
	Scope gpudata.Scope
	// Disabled contains metrics that are not written.
	Disabled map[*signal.Metric]bool

	md        pmetric.Metrics
	resources map[resourceKey]pmetric.ResourceMetrics
	// batch is the batch to which samples are added. In Write, batch is nil.
	batch   *Batch
	outputs map[outputKey]*output

	descriptions *descriptions
	// device is the device that was last described.
	device    *gpudata.DeviceFrame
	described pcommon.Map
	// sizes contains, for each metric, the number of data points that the last call wrote to a
	// place's Resource.
	sizes map[*signal.Metric]int
}

type outputKey struct {
	resource pmetric.ResourceMetrics
	scope    gpudata.Scope
}

// output contains the metrics of one scope in one Resource.
type output struct {
	metrics pmetric.MetricSlice
	points  map[*signal.Metric]pmetric.NumberDataPointSlice
	sizes   map[*signal.Metric]int // initial capacity for each metric; nil for a holder's output
}

// description caches the attributes that describe a device. A description is immutable.
type description struct {
	of    gpudata.Description
	attrs pcommon.Map
}

// descriptions caches the descriptions of devices. The cache is safe for concurrent use, so several
// Writers can share it.
type descriptions struct {
	mu     sync.Mutex
	recent *componenthelper.Recent[gpudata.Device, *description]
}

func newDescriptions(limit int) *descriptions {
	return &descriptions{recent: componenthelper.NewRecent[gpudata.Device, *description](limit)}
}

func (c *descriptions) age(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recent.Age(now)
}

// The of method returns the description of a device.
func (c *descriptions) of(d *gpudata.DeviceFrame) *description {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.recent.Get(d.Device)
	if !ok || known.of != d.Description {
		known = &description{d.Description, pcommon.NewMap()}
		putDevice(known.attrs, d)
		c.recent.Put(d.Device, known)
	}
	return known
}

// Write appends all series in the frames to a batch of metrics.
func (w *Writer) Write(frames []*gpudata.Frame, md pmetric.Metrics) {
	w.begin(md, map[resourceKey]pmetric.ResourceMetrics{})
	for _, f := range frames {
		f.Each(func(s *gpudata.Series) { w.series(f, s) })
		w.unplaced(f)
	}
	for _, o := range w.outputs {
		if o.sizes != nil {
			for m, dps := range o.points {
				o.sizes[m] = dps.Len()
			}
		}
	}
	w.begin(pmetric.Metrics{}, nil)
}

func (w *Writer) begin(md pmetric.Metrics, resources map[resourceKey]pmetric.ResourceMetrics) {
	w.md, w.resources, w.device = md, resources, nil
	clear(w.outputs)
	if w.outputs == nil {
		w.outputs = map[outputKey]*output{}
		w.sizes = map[*signal.Metric]int{}
	}
	if w.descriptions == nil {
		w.descriptions = newDescriptions(maxDescriptions)
	}
	w.descriptions.age(time.Now())
}

// series writes a series, except samples of disabled metrics.
func (w *Writer) series(f *gpudata.Frame, s *gpudata.Series) {
	h := whoOf(s)
	var to *output
	var by gpudata.Scope // scope of the current output
	for i := range s.Samples {
		sample := &s.Samples[i]
		if w.Disabled[sample.Metric] {
			continue
		}
		scope := cmp.Or(s.ScopeOf(sample), w.Scope)
		if to == nil || by != scope {
			to, by = w.output(f, h, scope), scope
		}
		putSeries(w.point(to, f, s, sample).Attributes(), s, sample)
	}
}

// putSeries writes the attributes of a series to a data point, except for the device's description.
func putSeries(attrs pcommon.Map, s *gpudata.Series, sample *gpudata.Sample) {
	d, u := s.Device, s.User
	switch {
	case s.Process != nil:
		putProcess(attrs, s.Process)
	case u == nil && sample.Metric == signal.GPUSharingClients: // the holders may have several claims for the device
		putAllocation(attrs, &gpudata.Allocation{Driver: d.Allocation.Driver, Pool: d.Allocation.Pool, Device: d.Allocation.Device})
	case u == nil:
		putAllocation(attrs, &d.Allocation)
	case s.Repeated && isAccelerator(sample.Metric):
		put(attrs, signal.SharingStrategy, u.Strategy)
	case s.Repeated:
		putAllocation(attrs, &d.Allocation)
		putHolding(attrs, d, u)
	default:
		putUser(attrs, u)
	}
	putSample(attrs, sample)
	if u != nil && sample.Metric == signal.GPUDeviceHolder {
		put(attrs, signal.HolderSource, u.Source)
		if u.Replicas > 1 {
			attrs.PutInt(signal.SharingReplicas, int64(u.Replicas))
		}
	}
}

// who contains a holder and the description of the holder's pod. The zero value means that there is
// no holder.
type who struct {
	gpudata.Holder
	owner gpudata.Owner
}

// whoOf returns the holder that a series is about.
func whoOf(s *gpudata.Series) who {
	switch {
	case s.Process != nil:
		return who{s.Process.Holder, s.Process.Owner}
	case s.User != nil:
		return who{s.User.Holder, s.User.Owner}
	}
	return who{}
}

// PutResource writes the attributes of a series' Resource.
func PutResource(attrs pcommon.Map, f *gpudata.Frame, s *gpudata.Series) {
	h := whoOf(s)
	PutPlace(attrs, f.Place, f.Host)
	putNode(attrs, f)
	PutHolder(attrs, &h.Holder)
	putOwner(attrs, h.owner)
}

// PutPoint writes the attributes of a sample's data point.
func PutPoint(attrs pcommon.Map, s *gpudata.Series, sample *gpudata.Sample) {
	if isAccelerator(sample.Metric) {
		attrs.PutStr(signal.HardwareID, s.Device.Device.ID())
	} else {
		putDevice(attrs, s.Device)
	}
	putSeries(attrs, s, sample)
}

// The point method adds a data point with its attributes to a series.
func (w *Writer) point(to *output, f *gpudata.Frame, series *gpudata.Series, s *gpudata.Sample) pmetric.NumberDataPoint {
	dp := w.points(to, MetricOf(s)).AppendEmpty()
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
		attrs.PutStr(signal.HardwareID, series.Device.Device.ID())
		return dp
	}
	described := w.describe(series.Device)
	room := described.Len() + len(s.Metric.Attributes) + len(s.More)
	if series.User != nil || series.Process != nil {
		room++ // one more for the strategy or the container
	}
	attrs.EnsureCapacity(room)
	described.CopyTo(attrs)
	return dp
}

// MetricOf returns the metric of a sample. If the sample is an amount of money, the metric depends
// on the currency.
func MetricOf(s *gpudata.Sample) *signal.Metric {
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

// The points method returns the data points of a metric in an output.
func (w *Writer) points(o *output, m *signal.Metric) pmetric.NumberDataPointSlice {
	dps, ok := o.points[m]
	if !ok {
		dps = points.Begin(o.metrics.AppendEmpty(), m)
		dps.EnsureCapacity(o.sizes[m])
		o.points[m] = dps
	}
	return dps
}

// output returns the output for the Resource of a holder or of the place.
func (w *Writer) output(f *gpudata.Frame, h who, scope gpudata.Scope) *output {
	of := resourceKey{f.Place, f.Host, h.Holder}
	if w.batch != nil {
		of.host = ""
	}
	key := outputKey{w.resource(f, of, h.owner), scope}
	o, ok := w.outputs[key]
	if !ok {
		sm := key.resource.ScopeMetrics().AppendEmpty()
		putScope(sm.Scope(), scope)
		o = &output{metrics: sm.Metrics(), points: map[*signal.Metric]pmetric.NumberDataPointSlice{}}
		if h.IsZero() {
			o.sizes = w.sizes
		}
		w.outputs[key] = o
	}
	return o
}

func putScope(to pcommon.InstrumentationScope, s gpudata.Scope) {
	name, version := s.Text()
	to.SetName(name)
	to.SetVersion(version)
}

// resource returns the Resource of a holder, or of the place if there is no holder. A holder's new
// Resource gets all attributes of the place's Resource. The new Resource also gets the attributes
// of incoming Resources whose attributes identify the same holder less completely.
func (w *Writer) resource(f *gpudata.Frame, key resourceKey, owner gpudata.Owner) pmetric.ResourceMetrics {
	rm, ok := w.resources[key]
	if ok {
		return rm
	}
	rm = w.md.ResourceMetrics().AppendEmpty()
	attrs := rm.Resource().Attributes()
	attrs.EnsureCapacity(8) // most Resources have at most 8 attributes
	if of, known := w.resources[resourceKey{place: key.place, host: key.host}]; known {
		of.Resource().Attributes().CopyTo(attrs)
	} else if w.batch != nil {
		w.batch.describe(key.place, attrs)
	} else {
		PutPlace(attrs, key.place, key.host)
	}
	putNode(attrs, f)
	if w.batch != nil {
		w.batch.complete(key.place, key.holder, attrs)
	}
	PutHolder(attrs, &key.holder)
	putOwner(attrs, owner)
	w.resources[key] = rm
	return rm
}

// describe copies the attributes of a place. If the batch contains the place's own Resource, all
// attributes of that Resource are copied. If the place has no Resource of its own, the place
// attributes of another Resource in the place are copied.
func (b *Batch) describe(p gpudata.Place, attrs pcommon.Map) {
	if of, known := b.resources[resourceKey{place: p}]; known {
		of.Resource().Attributes().CopyTo(attrs)
	} else if first, known := b.places[p]; known {
		for _, k := range [...]string{signal.HostName, signal.K8sNodeName, signal.K8sClusterName} {
			put(attrs, k, Text(first.Resource().Attributes(), k))
		}
	}
}

// complete adds missing attributes from Resources that identify the same holder less completely.
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

// describe returns the attributes that describe a device on each of its data points.
func (w *Writer) describe(d *gpudata.DeviceFrame) pcommon.Map {
	if w.device != d {
		w.device, w.described = d, w.descriptions.of(d).attrs
	}
	return w.described
}

// PutPlace writes the attributes of a place.
func PutPlace(attrs pcommon.Map, p gpudata.Place, host string) {
	put(attrs, signal.HostName, host)
	put(attrs, signal.K8sNodeName, p.Node)
	put(attrs, signal.K8sClusterName, p.Cluster)
}

// PutHolder writes the attributes of a holder.
func PutHolder(attrs pcommon.Map, h *gpudata.Holder) {
	put(attrs, signal.K8sNamespaceName, h.Namespace)
	put(attrs, signal.K8sPodName, h.Pod)
	put(attrs, signal.K8sPodUID, h.UID)
	put(attrs, signal.K8sContainerName, h.Container)
	put(attrs, signal.ContainerName, h.Name)
	put(attrs, signal.ContainerID, h.ID)
	put(attrs, signal.HPCJobID, h.Job)
}

// putNode writes the description of a frame's node.
func putNode(attrs pcommon.Map, f *gpudata.Frame) {
	put(attrs, signal.HostType, f.HostType)
	if len(f.NodeLabels) == 0 {
		return // avoids a memory allocation
	}
	for _, key := range slices.Sorted(maps.Keys(f.NodeLabels)) {
		put(attrs, signal.K8sNodeLabelPrefix+key, f.NodeLabels[key])
	}
}

func putOwner(attrs pcommon.Map, o gpudata.Owner) {
	if o == (gpudata.Owner{}) {
		return // avoids a memory allocation
	}
	known := o.Ownership()
	for _, f := range ownerFields(&known) {
		put(attrs, f.key, *f.text)
	}
	for key, value := range known.Labels.All() {
		put(attrs, signal.K8sPodLabelPrefix+key, value)
	}
}

// putDevice writes the identity and description of a device, but no allocation.
func putDevice(attrs pcommon.Map, d *gpudata.DeviceFrame) {
	attrs.PutStr(signal.HardwareID, d.Device.ID())
	for _, f := range descriptionFields(&d.Description) {
		put(attrs, f.key, *f.text)
	}
	if d.Vendor != "" {
		attrs.PutStr(signal.HardwareType, signal.TypeGPU)
	}
}

// putUser writes a user's sharing strategy and allocation.
func putUser(attrs pcommon.Map, u *gpudata.User) {
	put(attrs, signal.SharingStrategy, u.Strategy)
	putAllocation(attrs, &u.Allocation)
}

// putHolding writes a user's sharing strategy and allocation to a device's repeated data point.
func putHolding(attrs pcommon.Map, d *gpudata.DeviceFrame, u *gpudata.User) {
	if u.Holds && u.Allocation.Claim == "" && d.Allocation.Claim != "" {
		attrs.Remove(signal.ResourceClaimName) // the user holds the device through a different claim or without a claim
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
		// FromRaw fails only for types that attributes of a sample cannot have.
		_ = attrs.PutEmpty(s.More[i].Key).FromRaw(s.More[i].Value)
	}
}

// put sets an attribute unless the value is empty.
func put(attrs pcommon.Map, key, value string) {
	if value != "" {
		attrs.PutStr(key, value)
	}
}
