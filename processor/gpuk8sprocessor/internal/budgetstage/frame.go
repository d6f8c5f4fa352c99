package budgetstage

import (
	"math"
	"slices"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/budget"
)

// memoryMetrics contains the metrics about memory, holders, and processes that this section reads.
var memoryMetrics = map[*signal.Metric]bool{
	signal.HwGPUMemoryUsage: true, signal.HwGPUMemoryLimit: true, signal.HwGPUMemoryUtilization: true,
	signal.GPUSharingClients: true, signal.GPUDeviceHolder: true, signal.K8sContainerGPUMemoryUsage: true,
	signal.ProcessGPUMemoryUsage: true, signal.ProcessGPUUtilization: true, signal.GPUProcessCount: true,
}

// storeFrame stores the values that exporters state about the users of a frame's devices.
func (p *budgetBatch) storeFrame(f *gpudata.Frame, now time.Time) {
	partitioned := partitionedBoards(f)
	for _, d := range f.Devices {
		p.storeStatedValues(f, d, now, !d.Observed || partitioned[d.Device.ID()])
	}
}

// listedProcesses returns the processes of a device's list. It includes processes without a memory
// value, because the usage of their containers is unknown.
func (p *gpuBudget) listedProcesses(d *gpudata.DeviceFrame) (out []budget.Process) {
	if d.ProcessList == nil {
		return nil
	}
	for _, process := range d.ProcessList.Processes {
		listed := budget.Process{Holder: process.Holder, Used: budget.Unknown}
		if !math.IsNaN(process.Memory) {
			listed.Used = roundBytes(process.Memory)
		}
		if listed.Holder.IsZero() {
			listed.Holder.ID = process.ContainerID // identifies a container outside Kubernetes
		}
		p.completeHolder(&listed.Holder, process.ContainerID)
		out = append(out, listed)
	}
	return out
}

// storeStatedValues stores the values that a container exporter, such as HAMi's monitor, states
// about the users of a device: their budgets and, if withUsage is true, their usage. If the frame
// also contains the device's own samples, the usage is read from the frame instead.
func (p *budgetBatch) storeStatedValues(f *gpudata.Frame, d *gpudata.DeviceFrame, now time.Time, withUsage bool) {
	for _, u := range d.Users {
		used := int64(budget.Unknown)
		if withUsage {
			used = sampleBytes(&u.Samples, signal.K8sContainerGPUMemoryUsage)
		}
		if !p.book.AddStated(d.Device, f.Time, now, u.Holder, used, sampleBytes(&u.Samples, signal.K8sContainerGPUMemoryBudget)) {
			p.dropped[dropMaxSeries]++
		}
	}
}

// partitionedBoards returns the boards that have instances in the frame.
func partitionedBoards(f *gpudata.Frame) map[string]bool {
	partitioned := map[string]bool{}
	for _, d := range f.Devices {
		if hasMemoryData(d) {
			partitioned[d.Parent] = true
		}
	}
	return partitioned
}

// sampleBytes returns the value of a metric in bytes, or Unknown if it has no sample.
func sampleBytes(s *gpudata.Samples, m *signal.Metric) int64 {
	v, ok := s.Get(m, "")
	if !ok {
		return budget.Unknown
	}
	return roundBytes(v)
}

// roundBytes rounds a number of bytes. It limits the result to a value that is larger than any
// device, so that the result fits in an int64.
func roundBytes(v float64) int64 {
	const impossible = 1 << 60
	return int64(math.Round(min(v, impossible)))
}

// evaluateFrame evaluates the devices of a frame.
func (p *budgetBatch) evaluateFrame(f *gpudata.Frame, now time.Time) {
	partitioned := partitionedBoards(f)
	place := &budget.Place{Place: f.Place, Time: f.Time}
	for _, d := range f.Devices {
		if hasMemoryData(d) && !partitioned[d.Device.ID()] {
			device := newDevice(d)
			device.Listed = p.listedProcesses(d)
			p.book.UpdateMemory(device, f.Time, now)
			place.Devices = append(place.Devices, device)
		}
	}
	if len(place.Devices) == 0 {
		return
	}
	p.book.Fill(place)
	for _, d := range place.Devices {
		for _, u := range d.Users {
			p.declare(u)
		}
	}
	place.Declare(p.cfg.Sources.MPS)
	for _, d := range place.Devices {
		d.Reconcile(p.cfg.Tolerance)
		p.evaluated[d.Reason]++
		for _, u := range d.Users {
			p.addUser(f, d, u, now)
		}
		if d.Frame.Observed {
			addDevice(d)
		}
	}
}

// hasMemoryData reports whether the frame contains memory, holders, or processes of the device.
func hasMemoryData(d *gpudata.DeviceFrame) bool {
	isMemoryMetric := func(s gpudata.Sample) bool { return memoryMetrics[s.Metric] }
	return d.HoldersKnown || d.Listed || len(d.Processes) > 0 || slices.ContainsFunc(d.Samples.All(), isMemoryMetric) || slices.ContainsFunc(d.Users, func(u *gpudata.User) bool {
		return u.Holds || slices.ContainsFunc(u.Samples.All(), isMemoryMetric)
	})
}

// newDevice returns a device with its memory and its users from the frame.
func newDevice(f *gpudata.DeviceFrame) *budget.Device {
	d := &budget.Device{
		Frame: f, ID: f.Device.ID(), Board: f.Parent, MIGUUID: f.MIGUUID, Name: f.Name, HoldersKnown: f.HoldersKnown,
		Used: sampleBytes(&f.Samples, signal.HwGPUMemoryUsage), Limit: sampleBytes(&f.Samples, signal.HwGPUMemoryLimit), Free: budget.Unknown,
	}
	if ratio, _ := f.Samples.Get(signal.HwGPUMemoryUtilization, ""); d.Used > 0 && ratio > 0 && ratio <= 1 {
		// The ratio is used / (used + free). Free is FB_FREE, which excludes the memory that the
		// driver reserves.
		d.Free = int64(math.Round(float64(d.Used)/ratio)) - d.Used
	}
	for _, frameUser := range f.Users {
		u := &budget.User{FrameUser: frameUser, Holder: frameUser.Holder, Holds: frameUser.Holds && !catalogue.IsReservation(frameUser.Holder)}
		bytes := sampleBytes(&frameUser.Samples, signal.K8sContainerGPUMemoryUsage)
		switch {
		case bytes == budget.Unknown && !u.Holds:
			continue
		case bytes == budget.Unknown:
		case d.Possible(bytes):
			u.Used, u.Origin = bytes, budget.Reported
		default:
			d.Impossible = true
		}
		d.Users = append(d.Users, u)
	}
	for _, u := range d.Users {
		fromAllocation := u.FrameUser.Source == signal.HolderSourcePodResources || u.FrameUser.Source == signal.HolderSourceDRA || u.FrameUser.Source == signal.HolderSourceAnnotation
		u.Exclusive = u.Holds && fromAllocation && u.FrameUser.Strategy == signal.SharingNone && len(d.Users) == 1
		d.HoldersFromLabels = d.HoldersFromLabels || u.Holds && u.FrameUser.Source == signal.HolderSourceLabels
		u.MPS = u.Holds && u.FrameUser.Strategy == signal.SharingMPS
	}
	return d
}

// addUser adds the user's usage, budget, and utilization to the frame, or to a frame for another
// time.
func (p *budgetBatch) addUser(f *gpudata.Frame, d *budget.Device, u *budget.User, now time.Time) {
	frameUser := u.FrameUser
	if frameUser == nil {
		frameUser = d.Frame.User(u.Holder)
	}
	add := func(m *signal.Metric, v float64, attrs []gpudata.Attr) {
		frameUser.Samples.Add(gpudata.Sample{Metric: m, Value: v, More: attrs})
	}
	source := sourceAttrs[u.Source]
	if stated := sampleBytes(&frameUser.Samples, signal.K8sContainerGPUMemoryBudget); stated > 0 {
		u.Budget, source = stated, sourceAttrs[gpushare.BudgetExporter] // already in the input
	} else if u.Budget > 0 {
		add(signal.K8sContainerGPUMemoryBudget, float64(u.Budget), source)
	}
	state := d.Reason.State()
	usageKnown := u.Origin != budget.None && (u.Origin != budget.Unlisted || state == budget.Valid)
	if state == budget.Invalid || !usageKnown {
		return
	}
	t := f.Time
	switch u.Origin {
	case budget.FromDevice:
		if !d.Frame.Observed {
			return // the frame with the device's own samples gets the usage
		}
	case budget.Observed, budget.Unlisted:
		// The usage keeps the time of its source. If the user has no container, the usage is added
		// only to the frame with the device's holders, because only that frame identifies the pod's
		// container.
		t = d.UsedAt
		if !d.Frame.Observed && u.InPod() && u.Container == "" || !p.book.MarkSent(d, u, now) {
			return
		}
		if t != f.Time {
			frameUser = p.userAt(f, d.Frame, frameUser, t)
		}
	case budget.Reported:
		// Later frames of the device must not repeat the usage.
		d.UsedAt = t
		p.book.MarkSent(d, u, now)
	case budget.None:
	}
	if u.Origin != budget.Reported {
		add(signal.K8sContainerGPUMemoryUsage, float64(u.Used), nil)
	}
	if u.Budget > 0 {
		add(signal.K8sContainerGPUMemoryBudgetUtilization, float64(u.Used)/float64(u.Budget), source)
	}
}

// userAt returns the same user in a frame for time t, so that values for that time can be added.
func (p *budgetBatch) userAt(f *gpudata.Frame, d *gpudata.DeviceFrame, u *gpudata.User, t int64) *gpudata.User {
	i := slices.IndexFunc(p.otherFrames, func(o *gpudata.Frame) bool { return o.Place == f.Place && o.Time == t })
	if i < 0 {
		i = len(p.otherFrames)
		p.otherFrames = append(p.otherFrames, &gpudata.Frame{
			Place: f.Place, Host: f.Host, HostType: f.HostType, NodeLabels: f.NodeLabels, Time: t, Scope: p.scope,
		})
	}
	id := d.Device.ID()
	device := p.otherFrames[i].Find(id)
	if device == nil {
		device = &gpudata.DeviceFrame{Device: d.Device, Description: d.Description}
		p.otherFrames[i].Append(device)
	}
	user := device.SameUser(u.Holder)
	user.Owner, user.Strategy, user.Allocation = u.Owner, u.Strategy, u.Allocation
	return user
}

// addDevice adds the device's result to the frame.
func addDevice(d *budget.Device) {
	d.Frame.Samples.Grow(3 + int(budget.NumReasons))
	for _, m := range []struct {
		metric *signal.Metric
		bytes  int64
	}{
		{signal.GPUMemoryBudgetDeclared, d.Declared},
		{signal.GPUMemoryHeadroom, d.Headroom},
		{signal.GPUMemoryUsageUnbudgeted, d.Unbudgeted},
	} {
		if m.bytes != budget.Unknown {
			d.Frame.Samples.Add(gpudata.Sample{Metric: m.metric, Value: float64(m.bytes)})
		}
	}
	// Every reason has a point. Otherwise, backends without staleness support would keep showing a
	// reason after it ended.
	for r := range budget.NumReasons {
		state := gpudata.Sample{Metric: signal.GPUMemoryAttributionState, Own: r.State().String(), More: reasonAttrs[r]}
		if r == d.Reason {
			state.Value = 1
		}
		d.Frame.Samples.Add(state)
	}
}

// sourceAttrs and reasonAttrs are attributes that samples share, to save memory.
var (
	sourceAttrs = map[gpushare.BudgetSource][]gpudata.Attr{}
	reasonAttrs [budget.NumReasons][]gpudata.Attr
)

func init() {
	for _, s := range gpushare.BudgetSources() {
		sourceAttrs[s] = []gpudata.Attr{{Key: signal.BudgetSource, Value: string(s)}}
	}
	for r := range reasonAttrs {
		reasonAttrs[r] = []gpudata.Attr{{Key: signal.Reason, Value: budget.Reason(r).String()}}
	}
}
