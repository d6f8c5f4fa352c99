package gpubudgetprocessor

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpubudgetprocessor/internal/budget"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpubudgetprocessor/internal/presets"
)

// dropReason says why a point is no observation.
type dropReason uint8

const (
	dropNoValue dropReason = iota
	dropNoTime
	dropNoDevice
	dropNoHolder
	dropOutOfRange
	dropUnidentified
	dropDeviceDuplicate
	dropNoRoom

	numDropReasons
)

func (r dropReason) String() string {
	return [...]string{
		"no_value", "no_time", "no_device", "no_holder", "out_of_range", "unidentified", "device_duplicate", "no_room",
	}[r]
}

// reservations are the namespaces of pods that hold a whole GPU for a scheduler
// which shares it out to others.
var reservations = []string{"kai-resource-reservation", "runai-reservation"}

// frameKey tells the moments of a batch apart.
type frameKey struct {
	place string
	time  int64 // nanoseconds since the epoch
}

// frame is what a batch says of one moment at one place.
type frame struct {
	frameKey
	cluster string
	devices map[string]*device
}

// device is a device in a frame.
type device struct {
	budget.Device
	utilization float64 // NaN unknown
	// attrs and resource are of a device series; without one seen is false, and
	// resource is that of a container.
	attrs    pcommon.Map
	resource pmetric.ResourceMetrics
	seen     bool
	users    map[budget.Container]*user
}

// user is a container on a device, in a batch.
type user struct {
	budget.User
	attrs      pcommon.Map // of gpu.device.holder, else of its usage
	resource   pmetric.ResourceMetrics
	allocation allocation
}

// input is one Resource of a batch while it is read.
type input struct {
	rm        pmetric.ResourceMetrics
	cluster   string
	place     string // cluster and node
	container budget.Container
	from      string // what exported it
}

func newInput(rm pmetric.ResourceMetrics) input {
	attrs := rm.Resource().Attributes()
	node := text(attrs, signal.K8sNodeName)
	if node == "" {
		node = text(attrs, signal.HostName)
	}
	cluster := text(attrs, signal.K8sClusterName)
	return input{
		rm: rm, cluster: cluster, place: cluster + "/" + node,
		container: budget.Container{
			Namespace: text(attrs, signal.K8sNamespaceName), Pod: text(attrs, signal.K8sPodName),
			UID: text(attrs, signal.K8sPodUID), Name: text(attrs, signal.K8sContainerName),
		},
		from: text(attrs, "service.name") + "/" + text(attrs, "service.instance.id"),
	}
}

// ofContainer reports whether the Resource is a container's. A device series
// under it is a repetition of the device's own.
func (in *input) ofContainer() bool { return in.container.Pod != "" || in.container.UID != "" }

// read takes over what a batch says and returns its frames, the oldest first.
func (p *gpuBudget) read(md pmetric.Metrics, now time.Time) []*frame {
	p.frames, p.lastFrame = map[frameKey]*frame{}, nil
	for _, rm := range md.ResourceMetrics().All() {
		in := newInput(rm)
		for _, sm := range rm.ScopeMetrics().All() {
			for _, m := range sm.Metrics().All() {
				if s, ok := signal.Lookup(m.Name()); ok {
					p.metric(&in, s, m, now)
				} else if s, ok := p.foreign[m.Name()]; ok {
					p.points(m, func(dp pmetric.NumberDataPoint, v float64) { p.row(&in, &s, dp, v, now) })
				}
			}
		}
	}
	frames := make([]*frame, 0, len(p.frames))
	for _, f := range p.frames {
		frames = append(frames, f)
	}
	slices.SortFunc(frames, func(a, b *frame) int {
		return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.place, b.place))
	})
	return frames
}

func (p *gpuBudget) metric(in *input, s *signal.Metric, m pmetric.Metric, now time.Time) {
	switch s {
	case signal.ProcessGPUMemoryUsage, signal.ProcessGPUUtilization:
		p.points(m, func(dp pmetric.NumberDataPoint, v float64) { p.process(in, s, dp, v, now) })
	case signal.GPUProcessCount:
		p.points(m, func(dp pmetric.NumberDataPoint, v float64) { p.processCount(in, dp, v, now) })
	case signal.GPUDeviceHolder:
		p.points(m, func(dp pmetric.NumberDataPoint, v float64) { p.holder(in, dp, v) })
	case signal.K8sContainerGPUMemoryUsage:
		p.points(m, func(dp pmetric.NumberDataPoint, v float64) { p.usage(in, dp, v) })
	case signal.HwGPUMemoryUsage, signal.HwGPUMemoryLimit, signal.HwGPUMemoryUtilization, signal.GPUSharingClients:
		if !in.ofContainer() {
			p.points(m, func(dp pmetric.NumberDataPoint, v float64) { p.ofDevice(in, s, dp, v) })
		}
	}
}

// points hands on the points that have a value, which is not negative.
func (p *gpuBudget) points(m pmetric.Metric, f func(pmetric.NumberDataPoint, float64)) {
	for _, dp := range points.Of(m).All() {
		// The flag comes first: a point with it has no value, and reads as 0.
		if dp.Flags().NoRecordedValue() || dp.ValueType() == pmetric.NumberDataPointValueTypeEmpty {
			p.dropped[dropNoValue]++
			continue
		}
		if dp.Timestamp() == 0 || dp.Timestamp() > math.MaxInt64 {
			p.dropped[dropNoTime]++
			continue
		}
		v := dp.DoubleValue()
		if dp.ValueType() == pmetric.NumberDataPointValueTypeInt {
			v = float64(dp.IntValue())
		}
		if !(v >= 0) || math.IsInf(v, 1) {
			p.dropped[dropOutOfRange]++
			continue
		}
		f(dp, v)
	}
}

// device returns the device of a point, nil for one without a GPU.
func (p *gpuBudget) device(in *input, dp pmetric.NumberDataPoint) *device {
	attrs := dp.Attributes()
	id := text(attrs, signal.HardwareID)
	if kind := text(attrs, signal.HardwareType); id == "" || kind != "" && kind != signal.TypeGPU {
		p.dropped[dropNoDevice]++
		return nil
	}
	key := frameKey{in.place, int64(dp.Timestamp())}
	f := p.lastFrame
	if f == nil || f.frameKey != key {
		if f = p.frames[key]; f == nil {
			f = &frame{frameKey: key, cluster: in.cluster, devices: map[string]*device{}}
			p.frames[key] = f
		}
		p.lastFrame = f
	}
	d, ok := f.devices[id]
	if !ok {
		board, instance, _ := strings.Cut(id, "/gi")
		if instance == "" {
			board = ""
		}
		d = &device{
			Device:      budget.Device{ID: id, Board: board, Instance: instance, Minor: -1, Used: budget.Unknown, Limit: budget.Unknown, Free: budget.Unknown},
			utilization: math.NaN(), resource: in.rm, users: map[budget.Container]*user{},
		}
		f.devices[id] = d
	}
	if d.MIGUUID == "" {
		d.MIGUUID = text(attrs, signal.MIGUUID)
	}
	if d.Minor < 0 {
		if number, ok := strings.CutPrefix(text(attrs, signal.HardwareName), "nvidia"); ok {
			if n, err := strconv.Atoi(number); err == nil && n >= 0 {
				d.Minor = n
			}
		}
	}
	return d
}

// ofDevice reads a series of a device.
func (p *gpuBudget) ofDevice(in *input, s *signal.Metric, dp pmetric.NumberDataPoint, v float64) {
	d := p.device(in, dp)
	if d == nil {
		return
	}
	if !d.seen || s == signal.HwGPUMemoryUsage {
		d.attrs, d.resource, d.seen = dp.Attributes(), in.rm, true
	}
	switch s {
	case signal.HwGPUMemoryUsage:
		d.Used = whole(v)
	case signal.HwGPUMemoryLimit:
		d.Limit = whole(v)
	case signal.HwGPUMemoryUtilization:
		d.utilization = v
	case signal.GPUSharingClients:
		d.Known = true
	}
}

// whole returns a number of bytes; numbers that no device has are one of them.
func whole(v float64) int64 {
	const impossible = 1 << 60
	return int64(math.Round(min(v, impossible)))
}

func (d *device) user(in *input, dp pmetric.NumberDataPoint) *user {
	u, ok := d.users[in.container]
	if !ok {
		u = &user{attrs: dp.Attributes(), resource: in.rm}
		u.Container = in.container
		d.users[in.container] = u
	}
	return u
}

// holder reads gpu.device.holder.
func (p *gpuBudget) holder(in *input, dp pmetric.NumberDataPoint, v float64) {
	switch {
	case !in.ofContainer():
		p.dropped[dropNoHolder]++
		return
	case v != 1:
		p.dropped[dropOutOfRange]++
		return
	}
	d := p.device(in, dp)
	if d == nil {
		return
	}
	d.Known = true
	if slices.Contains(reservations, in.container.Namespace) {
		return
	}
	attrs := dp.Attributes()
	u := d.user(in, dp)
	u.attrs, u.resource, u.Holder = attrs, in.rm, true
	strategy, source := text(attrs, signal.SharingStrategy), text(attrs, signal.HolderSource)
	given := source == signal.HolderSourcePodResources || source == signal.HolderSourceDRA
	u.Exclusive = given && strategy == signal.SharingNone
	u.MPS = strategy == signal.SharingMPS
	u.allocation = allocation{
		claim: text(attrs, signal.ResourceClaimName), driver: text(attrs, signal.DRADriver),
		pool: text(attrs, signal.DRAPool), device: text(attrs, signal.DRADevice),
	}
}

// usage reads k8s.container.gpu.memory.usage.
func (p *gpuBudget) usage(in *input, dp pmetric.NumberDataPoint, v float64) {
	if !in.ofContainer() {
		p.dropped[dropNoHolder]++
		return
	}
	d := p.device(in, dp)
	if d == nil {
		return
	}
	u := d.user(in, dp)
	u.Used, u.Origin = max(u.Used, whole(v)), budget.Reported
}

// process reads a point of a process. One without memory says whose its PID is.
func (p *gpuBudget) process(in *input, s *signal.Metric, dp pmetric.NumberDataPoint, v float64, now time.Time) {
	attrs := dp.Attributes()
	pr := budget.Process{Device: text(attrs, signal.HardwareID), PID: text(attrs, signal.ProcessPID), Container: in.container, Used: budget.Unknown}
	if pr.Device == "" || pr.PID == "" {
		p.dropped[dropNoDevice]++
		return
	}
	if s == signal.ProcessGPUMemoryUsage {
		pr.Used = whole(v)
	}
	p.pods.complete(&pr.Container, text(attrs, signal.ContainerID))
	if !p.book.AddProcess(in.place, int64(dp.Timestamp()), now, pr) {
		p.dropped[dropNoRoom]++
	}
}

// processCount reads how many processes are on a device.
func (p *gpuBudget) processCount(in *input, dp pmetric.NumberDataPoint, v float64, now time.Time) {
	id := text(dp.Attributes(), signal.HardwareID)
	if id == "" {
		p.dropped[dropNoDevice]++
		return
	}
	if !p.book.AddCount(in.place, int64(dp.Timestamp()), now, id, int(whole(v))) {
		p.dropped[dropNoRoom]++
	}
}

// row reads a point of another exporter.
func (p *gpuBudget) row(in *input, s *ranked, dp pmetric.NumberDataPoint, v float64, now time.Time) {
	if s.Scope == presets.DeviceDuplicate {
		p.dropped[dropDeviceDuplicate]++
		return
	}
	attrs, resource := dp.Attributes(), in.rm.Resource().Attributes()
	// The dcgm receiver puts an exporter's labels on the Resource.
	label := func(name string) string { return cmp.Or(text(attrs, name), text(resource, name)) }
	r, ok := s.Row(label)
	if !ok {
		p.dropped[dropUnidentified]++
		return
	}
	// Several nodes can come through one collector between.
	node := cmp.Or(label("node"), label("NodeName"), text(resource, signal.K8sNodeName))
	key := budget.FrameKey{Order: s.order, Cluster: in.cluster, From: in.from + "/" + node}
	if !p.book.AddRow(key, s.Scope, int64(dp.Timestamp()), now, r, whole(v*s.Bytes)) {
		p.dropped[dropNoRoom]++
	}
}

// text returns an attribute's text, empty when there is none.
func text(m pcommon.Map, key string) string {
	v, ok := m.Get(key)
	if !ok {
		return ""
	}
	return v.AsString()
}
