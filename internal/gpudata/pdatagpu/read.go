// Package pdatagpu converts between the Collector's metrics and frames. No other package converts
// between metrics and frames.
package pdatagpu

import (
	"math"
	"slices"
	"strconv"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/exporters"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/internal/stage"
)

// Batch is a batch of metrics, with the frames that were read from the metrics.
type Batch struct {
	stage.Batch
	Metrics pmetric.Metrics

	// The read field contains the frames that were read from the metrics.
	read   []*gpudata.Frame
	wants  func(*signal.Metric) bool
	frames map[frameKey]*gpudata.Frame
	last   *gpudata.Frame
	// The resources map contains the first Resource of each place and holder. The holders map
	// contains the holders in each place.
	resources map[resourceKey]pmetric.ResourceMetrics
	holders   map[gpudata.Place][]gpudata.Holder
	// places contains the first Resource of each place.
	places map[gpudata.Place]pmetric.ResourceMetrics
	// described[d] is true if the description of d comes from the device's own series. If the
	// description comes from a holder's series, described[d] is false.
	described map[*gpudata.DeviceFrame]bool
	// unplaced contains the processes whose device is unknown, or is nil if there are none.
	unplaced map[unplacedKey]*gpudata.Unplaced
}

type frameKey struct {
	place gpudata.Place
	time  int64
}

type resourceKey struct {
	place  gpudata.Place
	host   string // set only for Resources that this package writes, because incoming Resources match any host
	holder gpudata.Holder
}

// Read returns the frames in a batch without changing the batch. The wants function selects the
// metrics that the caller uses. From other metrics, Read reads only the devices and their
// descriptions. If a series of a device, user, or process ends, the frame contains a sample with
// Ended set.
//
// Read does not read device series that gpu_k8s has repeated for a holder.
func Read(md pmetric.Metrics, wants func(*signal.Metric) bool) *Batch {
	b := &Batch{
		Metrics: md, wants: wants,
		frames: map[frameKey]*gpudata.Frame{}, resources: map[resourceKey]pmetric.ResourceMetrics{},
		holders: map[gpudata.Place][]gpudata.Holder{}, places: map[gpudata.Place]pmetric.ResourceMetrics{},
		described: map[*gpudata.DeviceFrame]bool{},
	}
	for _, rm := range md.ResourceMetrics().All() {
		in := b.input(rm)
		for _, sm := range rm.ScopeMetrics().All() {
			for _, m := range sm.Metrics().All() {
				if s, ok := lookup(m); ok {
					in.metric(s, m)
				}
			}
		}
	}
	for _, f := range b.Frames {
		f.Sort()
		f.MarkIncoming()
	}
	slices.SortFunc(b.Frames, (*gpudata.Frame).Compare)
	b.read = b.Frames
	return b
}

// lookup returns a metric's entry in the signal table if frames can contain the metric's samples.
// Frames contain totals, so they cannot contain Sums with delta temporality.
func lookup(m pmetric.Metric) (s *signal.Metric, ok bool) {
	s, ok = lookupName(m)
	return s, ok && !points.IsDelta(m)
}

// lookupName is like lookup but does not check the temporality.
func lookupName(m pmetric.Metric) (s *signal.Metric, ok bool) {
	s, ok = signal.Lookup(m.Name())
	return s, ok && s.Stage != signal.StageWindow && s.Stage != signal.StageCluster
}

// PlaceOf returns the place that a Resource's attributes describe.
func PlaceOf(attrs pcommon.Map) gpudata.Place {
	p := gpudata.Place{Cluster: Text(attrs, signal.K8sClusterName), Node: Text(attrs, signal.K8sNodeName)}
	if p.Node == "" {
		p.Node = Text(attrs, signal.HostName)
	}
	return p
}

// HolderOf returns the holder that a Resource's attributes describe, or the zero Holder if they
// describe none.
func HolderOf(attrs pcommon.Map) gpudata.Holder {
	h := gpudata.Holder{
		Namespace: Text(attrs, signal.K8sNamespaceName), Pod: Text(attrs, signal.K8sPodName),
		UID: Text(attrs, signal.K8sPodUID), Container: Text(attrs, signal.K8sContainerName),
	}
	if h.InPod() {
		return h
	}
	return gpudata.Holder{Name: Text(attrs, signal.ContainerName), ID: Text(attrs, signal.ContainerID), Job: Text(attrs, signal.HPCJobID)}
}

// Text returns the string value of an attribute, or "" if the attribute does not exist.
func Text(m pcommon.Map, key string) string {
	if v, ok := m.Get(key); ok {
		return v.AsString()
	}
	return ""
}

// nodeOf returns the node description in a Resource's attributes.
func nodeOf(attrs pcommon.Map) (hostType string, labels map[string]string) {
	return Text(attrs, signal.HostType), withPrefix(attrs, signal.K8sNodeLabelPrefix)
}

// input is the Resource that is currently being read.
type input struct {
	batch  *Batch
	rm     pmetric.ResourceMetrics
	place  gpudata.Place
	host   string
	holder gpudata.Holder
	owner  gpudata.Owner
	known  bool // true if addSeries was called
}

func (b *Batch) input(rm pmetric.ResourceMetrics) input {
	attrs := rm.Resource().Attributes()
	return input{batch: b, rm: rm, place: PlaceOf(attrs), host: Text(attrs, signal.HostName), holder: HolderOf(attrs), owner: ownerOf(attrs)}
}

// addSeries records that the Resource contains GPU series. New data points for the Resource's place
// and holder are added to the Resource, unless the batch contains an earlier Resource with the same
// place and holder.
func (in *input) addSeries() {
	b, key := in.batch, resourceKey{place: in.place, holder: in.holder}
	if _, known := b.resources[key]; !known {
		b.resources[key] = in.rm
		if !in.holder.IsZero() {
			b.holders[in.place] = append(b.holders[in.place], in.holder)
		}
	}
	if _, known := b.places[in.place]; !known {
		b.places[in.place] = in.rm
	}
	in.known = true
}

// role is the kind of object that a metric describes. The role determines where the metric's
// samples are stored.
type role uint8

const (
	ofDevice role = iota
	// ofLedger metrics describe a board, even if the board is not observed.
	ofLedger
	ofUser
	ofProcess
	ofHolding
	ofClients
	ofProcessCount
	// ofPresence metrics describe a device that exists, even if the device is not observed.
	ofPresence
	ofNothing
)

// roles contains the roles of metrics that do not describe a device itself.
var roles = map[*signal.Metric]role{
	signal.GPUUnallocatedTime:                     ofLedger,
	signal.GPUUnobservedTime:                      ofLedger,
	signal.GPUUnallocatedCost:                     ofLedger,
	signal.K8sContainerGPUMemoryUsage:             ofUser,
	signal.K8sContainerGPUUtilization:             ofUser,
	signal.K8sContainerGPUMemoryBudget:            ofUser,
	signal.K8sContainerGPUMemoryBudgetUtilization: ofUser,
	signal.K8sContainerGPUPower:                   ofUser,
	signal.K8sContainerGPUEnergy:                  ofUser,
	signal.K8sContainerGPUAllocatedTime:           ofUser,
	signal.K8sContainerGPUActiveTime:              ofUser,
	signal.K8sContainerGPUIdleTime:                ofUser,
	signal.K8sContainerGPUCost:                    ofUser,
	signal.K8sContainerGPUCostIdle:                ofUser,
	signal.ContainerAcceleratorMemoryTotal:        ofNothing, // copies of device series in cAdvisor's format
	signal.ContainerAcceleratorMemoryUsed:         ofNothing,
	signal.ContainerAcceleratorDutyCycle:          ofNothing,
	signal.ProcessGPUMemoryUsage:                  ofProcess,
	signal.ProcessGPUUtilization:                  ofProcess,
	signal.ProcessGPUPower:                        ofProcess,
	signal.GPUDeviceHolder:                        ofHolding,
	signal.GPUSharingClients:                      ofClients,
	signal.GPUProcessCount:                        ofProcessCount,
	signal.GPUExporterUp:                          ofNothing,
	signal.GPUSignalAvailable:                     ofPresence,
}

// metric reads the data points of a metric in the signal table.
func (in *input) metric(s *signal.Metric, m pmetric.Metric) {
	r := roles[s]
	switch r {
	case ofNothing:
		return
	case ofDevice, ofLedger, ofClients, ofProcessCount:
		if !in.holder.IsZero() {
			return // the data points repeat the device's own series
		}
	case ofPresence:
		if in.holder.IsZero() {
			for _, dp := range points.Of(m).All() {
				in.exists(dp)
			}
		}
		return
	case ofUser, ofHolding:
	case ofProcess:
	}
	wanted := in.batch.wants(s)
	for _, dp := range points.Of(m).All() {
		drop, ok := in.point(r, s, dp, wanted)
		if !ok && wanted {
			in.batch.CountsOf(s).Dropped[drop]++
		}
	}
}

// The exists method adds a device even if none of its values are observed.
func (in *input) exists(dp pmetric.NumberDataPoint) {
	if !hasTime(dp) || dp.Flags().NoRecordedValue() {
		return
	}
	d := in.device(int64(dp.Timestamp()), dp.Attributes())
	if d == nil {
		return
	}
	if !in.known {
		in.addSeries()
	}
	in.describe(d, ofPresence, dp.Attributes())
	d.Unread = !d.Observed
}

// The point method reads a data point. If the data point is not an observation, the method returns
// false and the reason.
func (in *input) point(r role, s *signal.Metric, dp pmetric.NumberDataPoint, wanted bool) (why stage.Drop, ok bool) {
	v, clamped, why, ok := in.observes(r, s, dp)
	if !ok {
		if r == ofDevice && why == stage.Implausible {
			in.exists(dp) // the value is invalid
		}
		return why, false
	}
	attrs := dp.Attributes()
	if r == ofProcess && Text(attrs, signal.ProcessPID) == "" {
		return stage.NoDevice, false
	}
	if r == ofProcess && isUnplaced(attrs) {
		if wanted && !dp.Flags().NoRecordedValue() {
			in.unplaced(s, dp, v)
		}
		return 0, true
	}
	d := in.device(int64(dp.Timestamp()), attrs)
	if d == nil {
		return stage.NoDevice, false
	}
	if !in.known {
		in.addSeries()
	}
	in.describe(d, r, attrs)
	ended := dp.Flags().NoRecordedValue()
	d.Observed = d.Observed || r == ofDevice && !ended
	d.Unread = !d.Observed && (d.Unread || r == ofLedger && !ended)
	if !wanted {
		return 0, true
	}
	if clamped {
		in.batch.CountsOf(s).Clamped++
	}
	sample := gpudata.Sample{Metric: s, Start: int64(dp.StartTimestamp()), Ended: ended, Value: v}
	if len(s.Attributes) > 0 && r != ofProcess { // for process metrics, this attribute is the PID, which Process already contains
		sample.Own = Text(attrs, s.Attributes[0])
	}
	switch r {
	case ofDevice, ofLedger:
		if s == signal.HwErrors {
			sample.More = eventSources[Text(attrs, signal.EventSource)]
		}
		d.Samples.Add(sample)
	case ofUser:
		u := d.User(in.holder)
		u.Owner = in.owner
		if !u.Holds {
			u.Strategy, u.Allocation = Text(attrs, signal.SharingStrategy), allocationOf(attrs)
		}
		sample.More = more(s, attrs)
		u.Samples.Add(sample)
	case ofProcess:
		p := d.Process(Text(attrs, signal.ProcessPID))
		p.ContainerID, p.Holder, p.Owner = Text(attrs, signal.ContainerID), in.holder, in.owner
		p.Samples.Add(sample)
	case ofHolding:
		in.holds(d, attrs)
	case ofClients:
		d.HoldersKnown = true
	case ofProcessCount:
		d.Listed, d.Count = true, max(d.Count, int(min(sample.Value, math.MaxInt32)))
	case ofPresence, ofNothing:
	}
	return 0, true
}

// observes checks the time, the value, and the holder of a data point. The first result is the
// value, which is 0 if the series ends. Ratios are clamped to [0, 1]. If the data point is not an
// observation, observes returns false and the reason.
func (in *input) observes(r role, s *signal.Metric, dp pmetric.NumberDataPoint) (v float64, clamped bool, why stage.Drop, ok bool) {
	ended := dp.Flags().NoRecordedValue() && (r == ofDevice || r == ofLedger || r == ofUser || r == ofProcess)
	v, why, ok = Observation(dp)
	plausible := true
	if !ended && ok && s.IsRatio() {
		v, clamped, plausible = signal.Clamp(v)
	}
	switch {
	case ended && !hasTime(dp):
		return 0, false, stage.NoTime, false
	case !ended && !ok:
		return 0, false, why, false
	case !plausible:
		return 0, false, stage.Implausible, false
	case !ended && v < 0 && s != signal.HwTemperature:
		return 0, false, stage.OutOfRange, false
	case (r == ofUser || r == ofHolding) && in.holder.IsZero():
		return 0, false, stage.NoHolder, false
	case r == ofHolding && v != 1:
		return 0, false, stage.OutOfRange, false
	}
	return v, clamped, 0, true
}

// Observation returns the value of a data point. If the data point has no value or no sample time,
// Observation returns false and the reason.
func Observation(dp pmetric.NumberDataPoint) (v float64, why stage.Drop, ok bool) {
	v = points.Value(dp)
	switch {
	// The NoRecordedValue flag is checked first, because the value of a data point with this flag
	// is read as 0.
	case dp.Flags().NoRecordedValue(), dp.ValueType() == pmetric.NumberDataPointValueTypeEmpty:
		return 0, stage.NoValue, false
	case !hasTime(dp):
		return 0, stage.NoTime, false
	case math.IsNaN(v) || math.IsInf(v, 0):
		return 0, stage.OutOfRange, false
	}
	return v, 0, true
}

func hasTime(dp pmetric.NumberDataPoint) bool {
	return dp.Timestamp() > 0 && dp.Timestamp() <= math.MaxInt64
}

// The holds method reads a data point of gpu.device.holder. A holder can have several data points,
// in any order, for example one for each replica that it holds. The result does not depend on the
// order of their allocations.
func (in *input) holds(d *gpudata.DeviceFrame, attrs pcommon.Map) {
	u, strategy, a := d.User(in.holder), Text(attrs, signal.SharingStrategy), allocationOf(attrs)
	if !u.Holds || a.Compare(u.Allocation) < 0 {
		u.Allocation = a
	}
	if !u.Holds || strategy != "" {
		u.Strategy = strategy
	}
	if n, err := strconv.ParseInt(Text(attrs, signal.SharingReplicas), 10, 32); err == nil {
		u.Replicas = max(u.Replicas, int(n))
	}
	u.Source, u.Owner, u.Holds, d.HoldersKnown = Text(attrs, signal.HolderSource), in.owner, true, true
}

// frame returns the frame with the given place and sample time, or nil if there is none.
func (b *Batch) frame(place gpudata.Place, time int64) *gpudata.Frame {
	if b.last == nil || b.last.Time != time || b.last.Place != place {
		f := b.frames[frameKey{place, time}]
		if f == nil {
			return nil
		}
		b.last = f
	}
	return b.last
}

// device returns the device of a data point, and adds the device to the frame if necessary. If the
// data point does not name a GPU, device returns nil.
func (in *input) device(time int64, attrs pcommon.Map) *gpudata.DeviceFrame {
	b, id := in.batch, Text(attrs, signal.HardwareID)
	f := b.frame(in.place, time)
	if f != nil {
		if d := f.Find(id); d != nil {
			return d
		}
	}
	if kind := Text(attrs, signal.HardwareType); id == "" || kind != "" && kind != signal.TypeGPU {
		return nil
	}
	if f == nil {
		f = in.frame(time)
	}
	return f.Device(id)
}

// frame returns the frame with the Resource's place and the given sample time, and adds the frame
// to the batch if necessary.
func (in *input) frame(time int64) *gpudata.Frame {
	b := in.batch
	f := b.frame(in.place, time)
	if f == nil {
		f = &gpudata.Frame{Place: in.place, Host: in.host, Time: time}
		f.HostType, f.NodeLabels = nodeOf(in.rm.Resource().Attributes())
		b.frames[frameKey{in.place, time}] = f
		b.Frames = append(b.Frames, f)
	}
	return f
}

// describe reads a device's description from a data point. The description is read only once per
// frame, because all data points of a device contain the same description. The device's own series
// take precedence, because a holder's data points contain the holder's allocation.
func (in *input) describe(d *gpudata.DeviceFrame, r role, attrs pcommon.Map) {
	if d.Observed {
		return
	}
	own := r == ofDevice || r == ofLedger || r == ofClients || r == ofProcessCount || r == ofPresence
	if byItself, described := in.batch.described[d]; byItself || described && !own {
		return
	}
	in.batch.described[d] = own
	description := descriptionOf(attrs)
	if own {
		d.Description, description = description, d.Description
	} else {
		description.Allocation = gpudata.Allocation{}
	}
	d.Complete(&description)
	if d.Parent == "" {
		d.Parent = exporters.BoardOf(d.Device.ID())
	}
}
