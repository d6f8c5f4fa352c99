package gpupowerprocessor

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/dcgm"
	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpupowerprocessor/internal/split"
)

// dropReason says why a point was no observation.
type dropReason uint8

const (
	dropNoValue dropReason = iota
	dropOutOfRange
	dropNoDevice
	dropNoHolder
	dropNoTime

	numDropReasons
)

func (r dropReason) String() string {
	return [...]string{"no_value", "out_of_range", "no_device", "no_holder", "no_time"}[r]
}

// frameKey tells the moments of a batch apart.
type frameKey struct {
	place string
	time  int64 // nanoseconds since the epoch
}

// frame is what a batch says of one moment at one place.
type frame struct {
	frameKey
	boards map[string]*board
	lists  map[string]*processList // by hw.id
}

// board is a board in a frame.
type board struct {
	split.Board
	device
	model string
	// power says that Measured was observed; resource is where.
	power     bool
	resource  pmetric.ResourceMetrics
	instances map[string]*instance
}

// instance is a MIG instance in a frame.
type instance struct {
	split.Instance
	device
	profile string
}

// device is what boards and instances have in common.
type device struct {
	id string
	// attrs are those of a point of the device; not set when there was none.
	attrs pcommon.Map
	seen  bool
	// holders are parallel to the split's.
	holders []heldBy
	// list is the newest list of the device's processes; nil when there is none.
	list *processList
	// codec says that the encoder or the decoder was busy.
	codec bool
}

// heldBy is a gpu.device.holder point.
type heldBy struct {
	attrs    pcommon.Map
	resource pmetric.ResourceMetrics
}

// processList is what was said of the processes of a device at one moment.
type processList struct {
	time      int64
	processes []*process
	byPID     map[string]*process
	// counted says that all processes are known, and how many they are: more than
	// the list has where some had no value.
	counted bool
	count   float64
}

// process is a process on a device. It owns what it refers to, because it
// outlives its batch.
type process struct {
	split.Process
	pid      string
	attrs    pcommon.Map
	resource *processResource
}

// processResource is the Resource of processes.
type processResource struct{ attrs pcommon.Map }

// reader reads a batch.
type reader struct {
	frames  map[frameKey]*frame
	last    *frame
	slices  map[string]int // of MIG profiles
	dropped [numDropReasons]int64
	clamped int64
}

// maxProfiles bounds the names of MIG profiles that are remembered.
const maxProfiles = 1024

// read returns the frames of the batch, the oldest first.
func (r *reader) read(md pmetric.Metrics) []*frame {
	r.frames, r.last = map[frameKey]*frame{}, nil
	for _, rm := range md.ResourceMetrics().All() {
		in := newInput(rm)
		for _, sm := range rm.ScopeMetrics().All() {
			for _, m := range sm.Metrics().All() {
				if s, ok := signal.Lookup(m.Name()); ok {
					r.metric(&in, s, m)
				}
			}
		}
	}
	frames := make([]*frame, 0, len(r.frames))
	for _, f := range r.frames {
		frames = append(frames, f)
	}
	slices.SortFunc(frames, func(a, b *frame) int {
		return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.place, b.place))
	})
	return frames
}

// input is one Resource of a batch while it is read.
type input struct {
	rm        pmetric.ResourceMetrics
	place     string
	container split.Container
	process   *processResource // made when a process is read
}

func newInput(rm pmetric.ResourceMetrics) input {
	attrs := rm.Resource().Attributes()
	node := text(attrs, signal.K8sNodeName)
	if node == "" {
		node = text(attrs, signal.HostName)
	}
	return input{
		rm:    rm,
		place: text(attrs, signal.K8sClusterName) + "/" + node,
		container: split.Container{
			Namespace: text(attrs, signal.K8sNamespaceName), Pod: text(attrs, signal.K8sPodName),
			UID: text(attrs, signal.K8sPodUID), Name: text(attrs, signal.K8sContainerName),
		},
	}
}

// ofContainer reports whether the Resource is a container's. A device series
// under it is a repetition of the device's own.
func (in *input) ofContainer() bool { return in.container.Pod != "" || in.container.UID != "" }

// metric reads the points of a metric that says something about power, activity
// or users, and the identity of MIG instances from every other one.
func (r *reader) metric(in *input, s *signal.Metric, m pmetric.Metric) {
	switch s {
	case signal.ProcessGPUUtilization, signal.ProcessGPUMemoryUsage:
		r.points(m, func(dp pmetric.NumberDataPoint, v float64) { r.process(in, s, dp, v) })
		return
	case signal.GPUDeviceHolder:
		r.points(m, func(dp pmetric.NumberDataPoint, v float64) { r.holder(in, dp, v) })
		return
	case signal.GPUProcessCount:
		if !in.ofContainer() {
			r.points(m, func(dp pmetric.NumberDataPoint, v float64) { r.count(in, dp, v) })
		}
		return
	}
	if in.ofContainer() || s.Stage != signal.StageSample {
		return
	}
	switch s {
	case signal.HwPower:
		r.points(m, func(dp pmetric.NumberDataPoint, v float64) { r.power(in, dp, v) })
	case signal.GPUEngineActive, signal.GPUSMActive, signal.GPUDRAMActive, signal.GPUPipeActive, signal.HwGPUUtilization:
		r.points(m, func(dp pmetric.NumberDataPoint, v float64) { r.activity(in, s, dp, v) })
	default:
		for _, dp := range points.Of(m).All() {
			if _, ok := dp.Attributes().Get(signal.HardwareParent); ok && validTime(dp) && !dp.Flags().NoRecordedValue() {
				r.device(in, dp)
			}
		}
	}
}

// points hands on the points that have a value.
func (r *reader) points(m pmetric.Metric, f func(pmetric.NumberDataPoint, float64)) {
	for _, dp := range points.Of(m).All() {
		// The flag comes first: a point with it has no value, and reads as 0.
		switch {
		case dp.Flags().NoRecordedValue(), dp.ValueType() == pmetric.NumberDataPointValueTypeEmpty:
			r.dropped[dropNoValue]++
		case !validTime(dp):
			r.dropped[dropNoTime]++
		case dp.ValueType() == pmetric.NumberDataPointValueTypeInt:
			f(dp, float64(dp.IntValue()))
		default:
			f(dp, dp.DoubleValue())
		}
	}
}

func validTime(dp pmetric.NumberDataPoint) bool {
	return dp.Timestamp() > 0 && dp.Timestamp() <= math.MaxInt64
}

// frame returns the moment of a point.
func (r *reader) frame(in *input, dp pmetric.NumberDataPoint) *frame {
	key := frameKey{in.place, int64(dp.Timestamp())}
	if r.last != nil && r.last.frameKey == key {
		return r.last
	}
	f, ok := r.frames[key]
	if !ok {
		f = &frame{frameKey: key, boards: map[string]*board{}, lists: map[string]*processList{}}
		r.frames[key] = f
	}
	r.last = f
	return f
}

// measured returns the device of a point that has a value up to most. Other points, and
// those without a GPU, are counted and have none.
func (r *reader) measured(in *input, dp pmetric.NumberDataPoint, v, most float64) (*board, *instance) {
	if !(v >= 0 && v <= most) {
		r.dropped[dropOutOfRange]++
		return nil, nil
	}
	b, i := r.device(in, dp)
	if b == nil {
		r.dropped[dropNoDevice]++
	}
	return b, i
}

// device returns the device of a point: its board, and its instance unless the
// point is the board's own. Both are nil for a point without a GPU.
func (r *reader) device(in *input, dp pmetric.NumberDataPoint) (*board, *instance) {
	attrs := dp.Attributes()
	id, parent := text(attrs, signal.HardwareID), text(attrs, signal.HardwareParent)
	if kind := text(attrs, signal.HardwareType); id == "" || kind != "" && kind != signal.TypeGPU {
		return nil, nil
	}
	if parent == "" {
		parent, _, _ = strings.Cut(id, "/gi")
	}
	f := r.frame(in, dp)
	b, ok := f.boards[parent]
	if !ok {
		b = &board{device: device{id: parent}, instances: map[string]*instance{}}
		b.Activity = split.Unknown()
		f.boards[parent] = b
	}
	if b.model == "" {
		b.model = text(attrs, signal.HardwareModel)
	}
	if id == parent {
		return b, nil
	}
	i, ok := b.instances[id]
	if !ok {
		i = &instance{device: device{id: id}}
		i.Activity = split.Unknown()
		b.instances[id] = i
	}
	if i.profile == "" {
		i.profile = text(attrs, signal.MIGProfile)
		i.Slices = r.slicesOf(i.profile)
	}
	if !in.ofContainer() && !i.seen {
		i.attrs, i.seen = dp.Attributes(), true
	}
	return b, i
}

// slicesOf returns the compute slices of a MIG profile, 0 when it is none.
func (r *reader) slicesOf(profile string) int {
	n, ok := r.slices[profile]
	if !ok && profile != "" {
		p, _ := dcgm.ParseProfile(profile)
		n = p.Compute
		if r.slices == nil || len(r.slices) >= maxProfiles {
			r.slices = map[string]int{}
		}
		r.slices[strings.Clone(profile)] = n
	}
	return n
}

// power reads hw.power. Rows that repeat the board's power, also those of its
// instances, are one value: the highest.
func (r *reader) power(in *input, dp pmetric.NumberDataPoint, v float64) {
	b, i := r.measured(in, dp, v, maxWatts)
	if b == nil {
		return
	}
	if own := i == nil; !b.power || own && !b.seen {
		b.resource, b.attrs, b.seen = in.rm, dp.Attributes(), own
	}
	b.Measured, b.power = max(b.Measured, v), true
}

// activity reads a measure of how busy a device was.
func (r *reader) activity(in *input, s *signal.Metric, dp pmetric.NumberDataPoint, v float64) {
	b, i := r.measured(in, dp, v, math.MaxFloat64)
	if b == nil {
		return
	}
	if v > 1 {
		v = 1
		r.clamped++
	}
	d, a := &b.device, &b.Activity
	if i != nil {
		d, a = &i.device, &i.Activity
	}
	var into *float64
	switch s {
	case signal.GPUEngineActive:
		into = &a.Engine
	case signal.GPUSMActive:
		into = &a.SM
	case signal.GPUDRAMActive:
		into = &a.DRAM
	case signal.GPUPipeActive:
		if text(dp.Attributes(), signal.Pipe) != pipeTensor {
			return
		}
		into = &a.Tensor
	default:
		if task := text(dp.Attributes(), signal.GPUTask); task != "" && task != signal.TaskGeneral {
			d.codec = d.codec || v > quietActivity
			return
		}
		into = &a.Utilization
	}
	if !(*into >= v) { // NaN is unknown
		*into = v
	}
}

// pipeTensor is the value of gpu.pipe of all tensor pipes together.
const pipeTensor = "tensor"

// holder reads gpu.device.holder.
func (r *reader) holder(in *input, dp pmetric.NumberDataPoint, v float64) {
	switch {
	case !in.ofContainer():
		r.dropped[dropNoHolder]++
		return
	case v != 1:
		r.dropped[dropOutOfRange]++
		return
	}
	b, i := r.measured(in, dp, v, 1)
	if b == nil {
		return
	}
	d, users := &b.device, &b.Device
	if i != nil {
		d, users = &i.device, &i.Device
	}
	for k := range users.Holders {
		if users.Holders[k].Container == in.container {
			return
		}
	}
	users.Holders = append(users.Holders, split.Holder{Container: in.container})
	d.holders = append(d.holders, heldBy{dp.Attributes(), in.rm})
}

// count reads gpu.process.count.
func (r *reader) count(in *input, dp pmetric.NumberDataPoint, v float64) {
	b, i := r.measured(in, dp, v, math.MaxFloat64)
	if b == nil {
		return
	}
	id := b.id
	if i != nil {
		id = i.id
	}
	l := r.frame(in, dp).list(id)
	l.counted, l.count = true, max(l.count, v)
}

// list returns the list of a device, by its hw.id.
func (f *frame) list(id string) *processList {
	l, ok := f.lists[id]
	if !ok {
		l = &processList{time: f.time, byPID: map[string]*process{}}
		f.lists[strings.Clone(id)] = l
	}
	return l
}

// process reads a point of a process. One without utilization says that the
// process is there.
func (r *reader) process(in *input, s *signal.Metric, dp pmetric.NumberDataPoint, v float64) {
	id, pid := text(dp.Attributes(), signal.HardwareID), text(dp.Attributes(), signal.ProcessPID)
	switch {
	case id == "" || pid == "":
		r.dropped[dropNoDevice]++
		return
	case !(v >= 0) || math.IsInf(v, 1):
		r.dropped[dropOutOfRange]++
		return
	}
	l := r.frame(in, dp).list(id)
	p, ok := l.byPID[pid]
	if !ok {
		if in.process == nil {
			in.process = &processResource{pcommon.NewMap()}
			in.rm.Resource().Attributes().CopyTo(in.process.attrs)
		}
		p = &process{
			Process:  split.Process{Container: in.container, Utilization: math.NaN()},
			pid:      pid,
			attrs:    pcommon.NewMap(),
			resource: in.process,
		}
		dp.Attributes().CopyTo(p.attrs)
		l.add(p)
	}
	if s != signal.ProcessGPUUtilization {
		return
	}
	if v > 1 {
		v = 1
		r.clamped++
	}
	if !(p.Utilization >= v) { // NaN is unknown
		p.Utilization = v
	}
}

// add puts a process on the list.
func (l *processList) add(p *process) {
	l.processes = append(l.processes, p)
	l.byPID[p.pid] = p
}

// text returns an attribute's text, empty when there is none.
func text(m pcommon.Map, key string) string {
	v, ok := m.Get(key)
	if !ok {
		return ""
	}
	return v.AsString()
}
