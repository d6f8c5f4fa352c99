// Package pdatagpu turns the Collector's metrics into frames and frames into metrics.
// Nothing else does, so that components know only the model.
package pdatagpu

import (
	"math"
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/dcgm"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Drop says why a point is no observation.
type Drop uint8

const (
	// NoValue points are stale markers or empty.
	NoValue Drop = iota
	// NoTime points have no sample time.
	NoTime
	// OutOfRange points have a value that cannot be: negative, NaN, infinite, or none
	// that the metric has.
	OutOfRange
	// NoDevice points name no GPU.
	NoDevice
	// NoHolder points are about a holder and name none.
	NoHolder
	// Drops is their number.
	Drops
)

// String returns the reason as self-metrics spell it.
func (d Drop) String() string {
	return [...]string{"no_value", "no_time", "out_of_range", "no_device", "no_holder"}[d]
}

// Batch is a batch of metrics and the frames that it holds.
type Batch struct {
	Metrics pmetric.Metrics
	// Frames are sorted, the oldest first; their devices by id.
	Frames []*gpudata.Frame
	// Dropped counts the points of wanted metrics that are no observation.
	Dropped [Drops]int64

	wants     func(*signal.Metric) bool
	frames    map[frameKey]*gpudata.Frame
	last      *gpudata.Frame
	resources map[resourceKey]pmetric.ResourceMetrics
	places    map[gpudata.Place]pmetric.ResourceMetrics // the first Resource of each
	described map[*gpudata.DeviceFrame]bool             // by somebody who uses the device
}

type frameKey struct {
	place gpudata.Place
	time  int64
}

type resourceKey struct {
	place  gpudata.Place
	host   string
	holder gpudata.Holder
}

// Read returns the frames of a batch and does not change the batch. wants selects the metrics
// whose samples the caller uses; other metrics only tell which devices there are and describe
// them.
//
// The device series that gpu_k8s repeats under a holder are not read again.
func Read(md pmetric.Metrics, wants func(*signal.Metric) bool) *Batch {
	b := &Batch{
		Metrics: md, wants: wants,
		frames:    map[frameKey]*gpudata.Frame{},
		resources: map[resourceKey]pmetric.ResourceMetrics{}, places: map[gpudata.Place]pmetric.ResourceMetrics{},
		described: map[*gpudata.DeviceFrame]bool{},
	}
	for _, rm := range md.ResourceMetrics().All() {
		attrs := rm.Resource().Attributes()
		in := input{batch: b, rm: rm, place: placeOf(attrs), host: text(attrs, signal.HostName), holder: holderOf(attrs)}
		for _, sm := range rm.ScopeMetrics().All() {
			for _, m := range sm.Metrics().All() {
				if s, ok := signal.Lookup(m.Name()); ok && s.Stage != signal.StageWindow && s.Stage != signal.StageCluster {
					in.metric(s, m)
				}
			}
		}
	}
	for _, f := range b.Frames {
		f.Sort()
		came(f)
	}
	slices.SortFunc(b.Frames, (*gpudata.Frame).Compare)
	return b
}

// came marks everything in a frame as read, so that what components add is told from it.
func came(f *gpudata.Frame) {
	for _, d := range f.Devices {
		d.Samples.Came()
		for _, u := range d.Users {
			u.Samples.Came()
		}
		for _, p := range d.Processes {
			p.Samples.Came()
		}
	}
}

func placeOf(attrs pcommon.Map) gpudata.Place {
	p := gpudata.Place{Cluster: text(attrs, signal.K8sClusterName), Node: text(attrs, signal.K8sNodeName)}
	if p.Node == "" {
		p.Node = text(attrs, signal.HostName)
	}
	return p
}

func holderOf(attrs pcommon.Map) gpudata.Holder {
	h := gpudata.Holder{
		Namespace: text(attrs, signal.K8sNamespaceName), Pod: text(attrs, signal.K8sPodName),
		UID: text(attrs, signal.K8sPodUID), Container: text(attrs, signal.K8sContainerName),
	}
	if !h.InPod() {
		h.Name, h.ID, h.Job = text(attrs, signal.ContainerName), text(attrs, signal.ContainerID), text(attrs, signal.HPCJobID)
	}
	return h
}

// text returns an attribute's text, empty when there is none.
func text(m pcommon.Map, key string) string {
	if v, ok := m.Get(key); ok {
		return v.AsString()
	}
	return ""
}

// input is one Resource of a batch while it is read.
type input struct {
	batch  *Batch
	rm     pmetric.ResourceMetrics
	place  gpudata.Place
	host   string
	holder gpudata.Holder
	known  bool // the batch has its Resource
}

// role is what a metric is about, which says where its points go.
type role uint8

const (
	ofDevice role = iota
	ofUser
	ofProcess
	ofHolding
	ofClients
	ofProcessCount
	ofNothing
)

// roles are those of metrics that are not about a device itself.
var roles = map[*signal.Metric]role{
	signal.K8sContainerGPUMemoryUsage:             ofUser,
	signal.K8sContainerGPUUtilization:             ofUser,
	signal.K8sContainerGPUMemoryBudget:            ofUser,
	signal.K8sContainerGPUMemoryBudgetUtilization: ofUser,
	signal.K8sContainerGPUMemoryBudgetDriftRatio:  ofUser,
	signal.K8sContainerGPUPower:                   ofUser,
	signal.K8sContainerGPUEnergy:                  ofUser,
	signal.ContainerAcceleratorMemoryTotal:        ofNothing, // copies, as cAdvisor had them
	signal.ContainerAcceleratorMemoryUsed:         ofNothing,
	signal.ContainerAcceleratorDutyCycle:          ofNothing,
	signal.ProcessGPUMemoryUsage:                  ofProcess,
	signal.ProcessGPUUtilization:                  ofProcess,
	signal.ProcessGPUPower:                        ofProcess,
	signal.GPUDeviceHolder:                        ofHolding,
	signal.GPUSharingClients:                      ofClients,
	signal.GPUProcessCount:                        ofProcessCount,
	signal.GPUExporterUp:                          ofNothing,
}

// metric reads the points of a metric of the table.
func (in *input) metric(s *signal.Metric, m pmetric.Metric) {
	r := roles[s]
	switch r {
	case ofNothing:
		return
	case ofDevice, ofClients, ofProcessCount:
		if !in.holder.IsZero() {
			return // a repetition of the device's own
		}
	case ofUser, ofHolding:
	case ofProcess:
	}
	wanted := in.batch.wants(s)
	for _, dp := range points.Of(m).All() {
		drop, ok := in.point(r, s, dp, wanted)
		if !ok && wanted {
			in.batch.Dropped[drop]++
		}
	}
}

// point reads a point. It returns false, and why, when it is no observation.
func (in *input) point(r role, s *signal.Metric, dp pmetric.NumberDataPoint, wanted bool) (why Drop, ok bool) {
	v, why, ok := Observation(dp)
	switch {
	case !ok:
		return why, false
	case v < 0 && s != signal.HwTemperature:
		return OutOfRange, false
	case (r == ofUser || r == ofHolding) && in.holder.IsZero():
		return NoHolder, false
	case r == ofHolding && v != 1:
		return OutOfRange, false
	}
	attrs := dp.Attributes()
	id := text(attrs, signal.HardwareID)
	if kind := text(attrs, signal.HardwareType); id == "" || kind != "" && kind != signal.TypeGPU {
		return NoDevice, false
	}
	if r == ofProcess && text(attrs, signal.ProcessPID) == "" {
		return NoDevice, false
	}
	in.keep()
	f := in.frame(int64(dp.Timestamp()))
	d := f.Device(id)
	in.describe(d, r, attrs)
	if !wanted {
		return 0, true
	}
	sample := gpudata.Sample{Metric: s, Start: int64(dp.StartTimestamp()), Value: v}
	if len(s.Attributes) > 0 && r != ofProcess { // whose own attribute is the PID
		sample.Own = text(attrs, s.Attributes[0])
	}
	switch r {
	case ofDevice:
		d.Samples.Add(sample)
	case ofUser:
		d.User(in.holder).Samples.Add(sample)
	case ofProcess:
		p := d.Process(text(attrs, signal.ProcessPID))
		p.ContainerID, p.Holder = text(attrs, signal.ContainerID), in.holder
		p.Samples.Add(sample)
	case ofHolding:
		in.holds(d, attrs)
	case ofClients:
		d.HoldersKnown = true
	case ofProcessCount:
		d.Listed, d.Count = true, max(d.Count, int(min(v, math.MaxInt32)))
	case ofNothing:
	}
	return 0, true
}

// Observation returns the value of a point that has one and a sample time. It returns
// false, and why, for another one.
func Observation(dp pmetric.NumberDataPoint) (v float64, why Drop, ok bool) {
	v = points.Value(dp)
	switch {
	// The flag comes first: a point with it has no value, and reads as 0.
	case dp.Flags().NoRecordedValue(), dp.ValueType() == pmetric.NumberDataPointValueTypeEmpty:
		return 0, NoValue, false
	case dp.Timestamp() == 0 || dp.Timestamp() > math.MaxInt64:
		return 0, NoTime, false
	case math.IsNaN(v) || math.IsInf(v, 0):
		return 0, OutOfRange, false
	}
	return v, 0, true
}

// keep makes the Resource, which has series of devices, the one to which points of its
// place and holder are added, unless the batch has another one.
func (in *input) keep() {
	if in.known {
		return
	}
	in.known = true
	key := resourceKey{place: in.place, holder: in.holder}
	if _, ok := in.batch.resources[key]; !ok {
		in.batch.resources[key] = in.rm
	}
	if _, ok := in.batch.places[in.place]; !ok {
		in.batch.places[in.place] = in.rm
	}
}

// holds takes over a gpu.device.holder point.
func (in *input) holds(d *gpudata.DeviceFrame, attrs pcommon.Map) {
	u := d.User(in.holder)
	u.Holds, d.HoldersKnown = true, true
	u.Source, u.Strategy = text(attrs, signal.HolderSource), text(attrs, signal.SharingStrategy)
	u.Allocation = allocationOf(attrs)
}

// frame returns the frame of a sample time.
func (in *input) frame(time int64) *gpudata.Frame {
	b := in.batch
	key := frameKey{in.place, time}
	if b.last != nil && b.last.Time == time && b.last.Place == in.place {
		return b.last
	}
	f, ok := b.frames[key]
	if !ok {
		f = &gpudata.Frame{Place: in.place, Host: in.host, Time: time}
		b.frames[key] = f
		b.Frames = append(b.Frames, f)
	}
	b.last = f
	return f
}

// describe reads the description of a device from a point, once a frame: all points of a
// device have the same one. A series of the device itself goes before one of a holder, whose
// allocation is the holder's.
func (in *input) describe(d *gpudata.DeviceFrame, r role, attrs pcommon.Map) {
	own := r == ofDevice || r == ofClients || r == ofProcessCount
	if d.Observed || !own && in.batch.described[d] {
		return
	}
	said := descriptionOf(attrs)
	if own {
		d.Observed = true
		d.Description, said = said, d.Description
	} else {
		said.Allocation = gpudata.Allocation{}
		in.batch.described[d] = true
	}
	d.Complete(&said)
	if d.Parent == "" {
		d.Parent = dcgm.BoardOf(d.Device.ID())
	}
}

func descriptionOf(attrs pcommon.Map) (d gpudata.Description) {
	for k, v := range attrs.All() {
		switch k {
		case signal.HardwareParent:
			d.Parent = v.AsString()
		case signal.HardwareName:
			d.Name = v.AsString()
		case signal.HardwareModel:
			d.Model = v.AsString()
		case signal.HardwareVendor:
			d.Vendor = v.AsString()
		case signal.HardwareSerialNumber:
			d.Serial = v.AsString()
		case signal.HardwareDriverVersion:
			d.Driver = v.AsString()
		case signal.MIGProfile:
			d.Profile = v.AsString()
		case signal.MIGInstanceID:
			d.Instance = v.AsString()
		case signal.MIGUUID:
			d.MIGUUID = v.AsString()
		}
	}
	d.Allocation = allocationOf(attrs)
	return d
}

func allocationOf(attrs pcommon.Map) gpudata.Allocation {
	return gpudata.Allocation{
		Claim: text(attrs, signal.ResourceClaimName), ClaimUID: text(attrs, signal.ResourceClaimUID), Class: text(attrs, signal.DeviceClassName),
		Driver: text(attrs, signal.DRADriver), Pool: text(attrs, signal.DRAPool), Device: text(attrs, signal.DRADevice),
		Request: text(attrs, signal.DRARequest), ShareID: text(attrs, signal.DRAShareID),
	}
}
