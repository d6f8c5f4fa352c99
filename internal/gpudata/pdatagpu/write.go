package pdatagpu

import (
	"math"
	"strconv"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Scope is the instrumentation scope of what a component makes.
type Scope struct{ Name, Version string }

// Add writes what was added to the frames since they were read into the batch's metrics,
// but for metrics that are disabled. Points go to the Resource that the batch has for their
// place and holder, and to a new one where it has none.
func (b *Batch) Add(s Scope, disabled map[*signal.Metric]bool) {
	w := Writer{Scope: s, Disabled: disabled, places: b.places}
	w.begin(b.Metrics, b.resources)
	for _, f := range b.Frames {
		w.frame(f, (*gpudata.Samples).Added)
	}
}

// maxDescriptions bounds the devices whose description a Writer remembers.
const maxDescriptions = 100_000

// Writer makes metrics of frames. It remembers what describes devices from call to call,
// and is not safe for concurrent use.
type Writer struct {
	Scope Scope
	// Disabled metrics are not written.
	Disabled map[*signal.Metric]bool

	md        pmetric.Metrics
	resources map[resourceKey]pmetric.ResourceMetrics
	places    map[gpudata.Place]pmetric.ResourceMetrics // of a batch that was read
	outputs   map[resourceKey]*output
	last      *output
	lastKey   resourceKey

	descriptions map[gpudata.Device]description
	sizes        map[*signal.Metric]int // points of a metric of a place in the last call
}

// output is the metrics of our scope in one Resource.
type output struct {
	metrics pmetric.MetricSlice
	points  map[*signal.Metric]pmetric.NumberDataPointSlice
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
		w.frame(f, (*gpudata.Samples).All)
		for _, d := range f.Devices {
			w.holders(f, d)
			if d.Listed {
				w.point(f, d, gpudata.Holder{}, &gpudata.Sample{Metric: signal.GPUProcessCount, Value: float64(d.Count)})
			}
		}
	}
	if w.sizes == nil {
		w.sizes = map[*signal.Metric]int{}
	}
	for key, o := range w.outputs {
		if key.holder.IsZero() {
			for m, dps := range o.points {
				w.sizes[m] = dps.Len()
			}
		}
	}
	w.begin(pmetric.Metrics{}, nil)
}

func (w *Writer) begin(md pmetric.Metrics, resources map[resourceKey]pmetric.ResourceMetrics) {
	w.md, w.resources, w.last = md, resources, nil
	w.outputs = map[resourceKey]*output{}
	if w.descriptions == nil || len(w.descriptions) > maxDescriptions {
		w.descriptions = map[gpudata.Device]description{}
	}
}

// frame writes the samples of a frame that which returns.
func (w *Writer) frame(f *gpudata.Frame, which func(*gpudata.Samples) []gpudata.Sample) {
	for _, d := range f.Devices {
		for i, samples := 0, which(&d.Samples); i < len(samples); i++ {
			if dp, ok := w.point(f, d, gpudata.Holder{}, &samples[i]); ok {
				putAllocation(dp.Attributes(), &d.Allocation)
				putSample(dp.Attributes(), &samples[i])
			}
		}
		for _, u := range d.Users {
			for i, samples := 0, which(&u.Samples); i < len(samples); i++ {
				if dp, ok := w.point(f, d, u.Holder, &samples[i]); ok {
					putUser(dp.Attributes(), u)
					putSample(dp.Attributes(), &samples[i])
				}
			}
		}
		for _, p := range d.Processes {
			for i, samples := 0, which(&p.Samples); i < len(samples); i++ {
				if dp, ok := w.point(f, d, p.Holder, &samples[i]); ok {
					putProcess(dp.Attributes(), p)
					putSample(dp.Attributes(), &samples[i])
				}
			}
		}
	}
}

// holders writes who holds a device.
func (w *Writer) holders(f *gpudata.Frame, d *gpudata.DeviceFrame) {
	for _, u := range d.Users {
		if !u.Holds {
			continue
		}
		if dp, ok := w.point(f, d, u.Holder, &gpudata.Sample{Metric: signal.GPUDeviceHolder, Value: 1}); ok {
			putUser(dp.Attributes(), u)
			put(dp.Attributes(), signal.HolderSource, u.Source)
		}
	}
}

// point begins a point about a device, of a holder, or of the place for nobody. It returns
// false for a metric that is disabled.
func (w *Writer) point(f *gpudata.Frame, d *gpudata.DeviceFrame, h gpudata.Holder, s *gpudata.Sample) (pmetric.NumberDataPoint, bool) {
	if w.Disabled[s.Metric] {
		return pmetric.NumberDataPoint{}, false
	}
	o := w.output(f, h)
	dps, ok := o.points[s.Metric]
	if !ok {
		dps = points.Begin(o.metrics.AppendEmpty(), s.Metric)
		if h.IsZero() {
			dps.EnsureCapacity(w.sizes[s.Metric])
		}
		o.points[s.Metric] = dps
	}
	dp := dps.AppendEmpty()
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
	described := w.describe(d)
	attrs := dp.Attributes()
	attrs.EnsureCapacity(described.Len() + len(s.More) + 2) // its own, and the strategy or the PID
	described.CopyTo(attrs)
	return dp, true
}

// output returns what is written under the Resource of a holder, or of the place.
func (w *Writer) output(f *gpudata.Frame, h gpudata.Holder) *output {
	key := resourceKey{f.Place, f.Host, h}
	if w.places != nil {
		key.host = "" // Resources of a place that was read are one place's, whoever names its host
	}
	if w.last != nil && w.lastKey == key {
		return w.last
	}
	o, ok := w.outputs[key]
	if !ok {
		sm := w.resource(key).ScopeMetrics().AppendEmpty()
		sm.Scope().SetName(w.Scope.Name)
		sm.Scope().SetVersion(w.Scope.Version)
		o = &output{metrics: sm.Metrics(), points: map[*signal.Metric]pmetric.NumberDataPointSlice{}}
		w.outputs[key] = o
	}
	w.last, w.lastKey = o, key
	return o
}

// resource returns the Resource of a holder, or of the place for nobody. A new Resource of a
// holder gets all attributes of the place's Resource.
func (w *Writer) resource(key resourceKey) pmetric.ResourceMetrics {
	rm, ok := w.resources[key]
	if ok {
		return rm
	}
	rm = w.md.ResourceMetrics().AppendEmpty()
	attrs := rm.Resource().Attributes()
	if of, known := w.resources[resourceKey{place: key.place, host: key.host}]; known {
		of.Resource().Attributes().CopyTo(attrs)
	} else if first, known := w.places[key.place]; known {
		for _, k := range [...]string{signal.HostName, signal.K8sNodeName, signal.K8sClusterName} {
			put(attrs, k, text(first.Resource().Attributes(), k))
		}
	} else {
		put(attrs, signal.HostName, key.host)
		put(attrs, signal.K8sNodeName, key.place.Node)
		put(attrs, signal.K8sClusterName, key.place.Cluster)
	}
	putHolder(attrs, &key.holder)
	w.resources[key] = rm
	return rm
}

// describe returns what describes a device on each of its points, without an allocation.
func (w *Writer) describe(d *gpudata.DeviceFrame) pcommon.Map {
	known, ok := w.descriptions[d.Device]
	if ok && known.of == d.Description {
		return known.attrs
	}
	known = description{d.Description, pcommon.NewMap()}
	putDevice(known.attrs, d)
	w.descriptions[d.Device] = known
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

// putDevice writes the identity and description of a device, without an allocation.
func putDevice(attrs pcommon.Map, d *gpudata.DeviceFrame) {
	attrs.PutStr(signal.HardwareID, d.Device.ID())
	put(attrs, signal.HardwareParent, d.Parent)
	put(attrs, signal.HardwareName, d.Name)
	put(attrs, signal.HardwareModel, d.Model)
	put(attrs, signal.HardwareVendor, d.Vendor)
	if d.Vendor != "" {
		attrs.PutStr(signal.HardwareType, signal.TypeGPU)
	}
	put(attrs, signal.HardwareSerialNumber, d.Serial)
	put(attrs, signal.HardwareDriverVersion, d.Driver)
	put(attrs, signal.MIGProfile, d.Profile)
	put(attrs, signal.MIGInstanceID, d.Instance)
	put(attrs, signal.MIGUUID, d.MIGUUID)
}

// putUser writes how a user has the device.
func putUser(attrs pcommon.Map, u *gpudata.User) {
	put(attrs, signal.SharingStrategy, u.Strategy)
	putAllocation(attrs, &u.Allocation)
}

func putAllocation(attrs pcommon.Map, a *gpudata.Allocation) {
	if *a == (gpudata.Allocation{}) {
		return
	}
	put(attrs, signal.ResourceClaimName, a.Claim)
	put(attrs, signal.ResourceClaimUID, a.ClaimUID)
	put(attrs, signal.DeviceClassName, a.Class)
	put(attrs, signal.DRADriver, a.Driver)
	put(attrs, signal.DRAPool, a.Pool)
	put(attrs, signal.DRADevice, a.Device)
	put(attrs, signal.DRARequest, a.Request)
	put(attrs, signal.DRAShareID, a.ShareID)
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
		if a := &s.More[i]; a.True {
			attrs.PutBool(a.Key, true)
		} else {
			put(attrs, a.Key, a.Text)
		}
	}
}

// put sets an attribute that is known.
func put(attrs pcommon.Map, key, value string) {
	if value != "" {
		attrs.PutStr(key, value)
	}
}
