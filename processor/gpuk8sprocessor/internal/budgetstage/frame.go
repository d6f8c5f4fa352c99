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

// memoryMetrics contains the metrics that this section reads. The metrics describe memory, holders,
// and processes.
var memoryMetrics = map[*signal.Metric]bool{
	signal.HwGPUMemoryUsage: true, signal.HwGPUMemoryLimit: true, signal.HwGPUMemoryUtilization: true,
	signal.GPUSharingClients: true, signal.GPUDeviceHolder: true, signal.K8sContainerGPUMemoryUsage: true,
	signal.ProcessGPUMemoryUsage: true, signal.ProcessGPUUtilization: true, signal.GPUProcessCount: true,
}

// storeFrame stores the values that container exporters report about the users of the devices in a
// frame.
func (p *budgetBatch) storeFrame(f *gpudata.Frame, now time.Time) {
	partitioned := partitionedBoards(f)
	for _, d := range f.Devices {
		p.storeStatedValues(f, d, now, !d.Observed || partitioned[d.Device.ID()])
	}
}

// listedProcesses returns the processes in a device's process list. Processes without a memory
// value are included, because the usage of their containers is unknown.
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
			listed.Holder.ID = process.ContainerID // For a container outside Kubernetes, the ID identifies the container.
		}
		p.completeHolder(&listed.Holder, process.ContainerID)
		out = append(out, listed)
	}
	return out
}

// storeStatedValues stores the values that a container exporter, such as HAMi's monitor, reports
// about the users of a device. Budgets are always stored. Usage is stored only if withUsage is
// true. If the frame also contains the device's own samples and the device is not a partitioned
// board, withUsage is false, because the usage is read from the frame itself.
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

// partitionedBoards returns the boards for whose instances the frame contains memory data.
func partitionedBoards(f *gpudata.Frame) map[string]bool {
	partitioned := map[string]bool{}
	for _, d := range f.Devices {
		if hasMemoryData(d) {
			partitioned[d.Parent] = true
		}
	}
	return partitioned
}

// sampleBytes returns the value of a metric in bytes, or Unknown if the samples do not include the
// metric.
func sampleBytes(s *gpudata.Samples, m *signal.Metric) int64 {
	v, ok := s.Get(m, "")
	if !ok {
		return budget.Unknown
	}
	return roundBytes(v)
}

// roundBytes rounds a number of bytes to an integer. Values are capped at 1 EiB so that the result
// fits in an int64. No device has 1 EiB of memory.
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
		// If another frame contains the device's memory, the result belongs to that frame.
		if d.Frame.Observed && !d.UsedStored {
			addDevice(d)
		}
	}
}

// hasMemoryData reports whether the frame contains memory metrics, holders, or processes for the
// device.
func hasMemoryData(d *gpudata.DeviceFrame) bool {
	isMemoryMetric := func(s gpudata.Sample) bool { return memoryMetrics[s.Metric] }
	return d.HoldersKnown || d.Listed || len(d.Processes) > 0 || slices.ContainsFunc(d.Samples.All(), isMemoryMetric) || slices.ContainsFunc(d.Users, func(u *gpudata.User) bool {
		return u.Holds || slices.ContainsFunc(u.Samples.All(), isMemoryMetric)
	})
}

// newDevice returns a budget.Device with the memory values and the users that the frame contains
// for the device.
func newDevice(f *gpudata.DeviceFrame) *budget.Device {
	d := &budget.Device{
		Frame: f, ID: f.Device.ID(), Board: f.Parent, MIGUUID: f.MIGUUID, Name: f.Name, HoldersKnown: f.HoldersKnown,
		Used: sampleBytes(&f.Samples, signal.HwGPUMemoryUsage), Limit: sampleBytes(&f.Samples, signal.HwGPUMemoryLimit), Free: budget.Unknown,
	}
	if ratio, _ := f.Samples.Get(signal.HwGPUMemoryUtilization, ""); d.Used > 0 && ratio > 0 && ratio <= 1 {
		// The memory utilization equals used / (used + free). In this formula, free is FB_FREE,
		// which does not include the memory that the driver reserves.
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

// addUser adds the user's usage, budget, and budget utilization to the frame. If a value has a
// different time than the frame, addUser adds the value to a frame for that time.
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
		u.Budget, source = stated, sourceAttrs[gpushare.BudgetExporter] // The input already contains the budget.
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
		if d.UsedStored {
			return // The usage is added only to the frame that contains the device's usage.
		}
	case budget.Observed, budget.Unlisted:
		// Send the usage with the timestamp of its source. If the user is a pod whose container is
		// unknown, add the usage only to the frame that contains the device's own samples, because
		// only that frame identifies the pod's container.
		t = d.UsedAt
		if !d.Frame.Observed && u.InPod() && u.Container == "" || !p.book.MarkSent(d, u, now) {
			return
		}
		if t != f.Time {
			frameUser = p.userAt(f, d.Frame, frameUser, t)
		}
	case budget.Reported:
		// Prevent later frames from repeating the usage.
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

// userAt returns the user that corresponds to u in a frame for time t. If the frame or the user
// does not exist yet, userAt adds the frame or the user.
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

// addDevice adds the result of Reconcile to the device in the frame.
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
	// Emit one point for every reason, including the reasons that do not apply. If only the current
	// reason were emitted, a backend that does not support staleness would keep showing previous
	// reasons.
	for r := range budget.NumReasons {
		state := gpudata.Sample{Metric: signal.GPUMemoryAttributionState, Own: r.State().String(), More: reasonAttrs[r]}
		if r == d.Reason {
			state.Value = 1
		}
		d.Frame.Samples.Add(state)
	}
}

// To save memory, many samples share the attributes in sourceAttrs and reasonAttrs.
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
