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

// used are the metrics that say something about memory, holders or processes.
var used = map[*signal.Metric]bool{
	signal.HwGPUMemoryUsage: true, signal.HwGPUMemoryLimit: true, signal.HwGPUMemoryUtilization: true,
	signal.GPUSharingClients: true, signal.GPUDeviceHolder: true, signal.K8sContainerGPUMemoryUsage: true,
	signal.ProcessGPUMemoryUsage: true, signal.ProcessGPUUtilization: true, signal.GPUProcessCount: true,
}

// lists takes over the lists of processes of a frame. A process without memory shows whose its PID is.
func (p *gpuBudget) lists(f *gpudata.Frame, now time.Time) {
	cut := cutBoards(f)
	for _, d := range f.Devices {
		for _, process := range d.Processes {
			if !process.IsListed() {
				continue
			}
			listed := budget.Process{PID: process.PID, Holder: process.Holder, Used: bytesOf(&process.Samples, signal.ProcessGPUMemoryUsage)}
			if listed.Holder.IsZero() {
				listed.Holder.ID = process.ContainerID // as a container outside Kubernetes is known
			}
			p.pods.complete(&listed.Holder, process.ContainerID)
			if !p.book.AddProcess(d.Device, f.Time, now, listed) {
				p.dropped[noRoom] += int64(len(process.Samples.All()))
			}
		}
		if d.Listed && !p.book.AddCount(d.Device, f.Time, now, d.Count) {
			p.dropped[noRoom]++
		}
		p.stated(f, d, now, !d.Observed || cut[d.Device.ID()])
	}
}

// stated takes over what an exporter of containers, such as HAMi's monitor, states about the users of a
// device: their budgets and, if the frame does not have the device's own samples, their usage.
func (p *gpuBudget) stated(f *gpudata.Frame, d *gpudata.DeviceFrame, now time.Time, apart bool) {
	for _, u := range d.Users {
		used := int64(budget.Unknown)
		if apart {
			used = bytesOf(&u.Samples, signal.K8sContainerGPUMemoryUsage)
		}
		if !p.book.AddStated(d.Device, f.Time, now, u.Holder, used, bytesOf(&u.Samples, signal.K8sContainerGPUMemoryBudget)) {
			p.dropped[noRoom]++
		}
	}
}

// cutBoards returns the boards that a frame shows as cut into instances.
func cutBoards(f *gpudata.Frame) map[string]bool {
	cut := map[string]bool{}
	for _, d := range f.Devices {
		if speaksOfMemory(d) {
			cut[d.Parent] = true
		}
	}
	return cut
}

// bytesOf returns the value of a metric in bytes, Unknown where there is none.
func bytesOf(s *gpudata.Samples, m *signal.Metric) int64 {
	v, ok := s.Get(m, "")
	if !ok {
		return budget.Unknown
	}
	return whole(v)
}

// whole returns a number of bytes; numbers that no device has are one of them.
func whole(v float64) int64 {
	const impossible = 1 << 60
	return int64(math.Round(min(v, impossible)))
}

// frame evaluates the devices of a place at one moment.
func (p *gpuBudget) frame(f *gpudata.Frame, now time.Time) {
	cut := cutBoards(f)
	place := &budget.Place{Place: f.Place, Time: f.Time}
	for _, d := range f.Devices {
		if speaksOfMemory(d) && !cut[d.Device.ID()] {
			of := deviceOf(d)
			p.book.Memory(of, f.Time, now)
			place.Devices = append(place.Devices, of)
		}
	}
	if len(place.Devices) == 0 {
		return
	}
	p.book.Fill(place)
	for _, d := range place.Devices {
		for _, u := range d.Users {
			p.pods.declare(u)
		}
	}
	place.Declare(p.cfg.Sources.MPS)
	for _, d := range place.Devices {
		d.Reconcile(p.cfg.Tolerance)
		p.found[d.Reason]++
		for _, u := range d.Users {
			p.addUser(f, d, u, now)
		}
		if d.Of.Observed {
			addDevice(d)
		}
	}
}

// speaksOfMemory reports whether a frame has a device's memory, holders or processes.
func speaksOfMemory(d *gpudata.DeviceFrame) bool {
	isUsed := func(s gpudata.Sample) bool { return used[s.Metric] }
	return d.HoldersKnown || d.Listed || len(d.Processes) > 0 || slices.ContainsFunc(d.Samples.All(), isUsed) || slices.ContainsFunc(d.Users, func(u *gpudata.User) bool {
		return u.Holds || slices.ContainsFunc(u.Samples.All(), isUsed)
	})
}

// deviceOf returns the memory of a device as the frame has it.
func deviceOf(f *gpudata.DeviceFrame) *budget.Device {
	d := &budget.Device{
		Of: f, ID: f.Device.ID(), Board: f.Parent, MIGUUID: f.MIGUUID, Name: f.Name, Known: f.HoldersKnown,
		Used: bytesOf(&f.Samples, signal.HwGPUMemoryUsage), Limit: bytesOf(&f.Samples, signal.HwGPUMemoryLimit), Free: budget.Unknown,
	}
	if ratio, _ := f.Samples.Get(signal.HwGPUMemoryUtilization, ""); d.Used > 0 && ratio > 0 && ratio <= 1 {
		// The sample's used / (used + free): FB_FREE without what the driver reserves.
		d.Free = int64(math.Round(float64(d.Used)/ratio)) - d.Used
	}
	for _, of := range f.Users {
		u := &budget.User{Of: of, Holder: of.Holder, Holds: of.Holds && !catalogue.IsReservation(of.Holder)}
		bytes := bytesOf(&of.Samples, signal.K8sContainerGPUMemoryUsage)
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
		given := u.Of.Source == signal.HolderSourcePodResources || u.Of.Source == signal.HolderSourceDRA || u.Of.Source == signal.HolderSourceAnnotation
		u.Exclusive = u.Holds && given && u.Of.Strategy == signal.SharingNone && len(d.Users) == 1
		d.Labeled = d.Labeled || u.Holds && u.Of.Source == signal.HolderSourceLabels
		u.MPS = u.Holds && u.Of.Strategy == signal.SharingMPS
	}
	return d
}

// addUser adds what was found of a user of a device to the frame.
func (p *gpuBudget) addUser(f *gpudata.Frame, d *budget.Device, u *budget.User, now time.Time) {
	of := u.Of
	if of == nil {
		of = d.Of.User(u.Holder)
	}
	add := func(m *signal.Metric, v float64, attrs []gpudata.Attr) {
		of.Samples.Add(gpudata.Sample{Metric: m, Value: v, More: attrs})
	}
	source := sourceAttrs[u.Source]
	if of := bytesOf(&of.Samples, signal.K8sContainerGPUMemoryBudget); of > 0 {
		u.Budget, source = of, sourceAttrs[gpushare.BudgetExporter] // it came in
	} else if u.Budget > 0 {
		add(signal.K8sContainerGPUMemoryBudget, float64(u.Budget), source)
	}
	state := d.Reason.State()
	known := u.Origin != budget.None && (u.Origin != budget.Unlisted || state == budget.Valid)
	if state == budget.Invalid || !known {
		return
	}
	t := f.Time
	switch u.Origin {
	case budget.OfDevice:
		if !d.Of.Observed {
			return // the device's usage is in another frame
		}
	case budget.Observed, budget.Unlisted:
		// A user's usage keeps the time of its source, because it may change later. A pod's only
		// container is known where its holders are.
		t = d.UsedAt
		if !d.Of.Observed && u.InPod() && u.Container == "" || !p.book.First(d, u, now) {
			return
		}
		if t != f.Time {
			of = p.before(f, d.Of, of, t)
		}
	case budget.Reported:
		// The frames of the device must not repeat it.
		d.UsedAt = t
		p.book.First(d, u, now)
	case budget.None:
	}
	if u.Origin != budget.Reported {
		add(signal.K8sContainerGPUMemoryUsage, float64(u.Used), nil)
	}
	if u.Budget > 0 {
		add(signal.K8sContainerGPUMemoryBudgetUtilization, float64(u.Used)/float64(u.Budget), source)
	}
}

// before returns the user of a device in a frame of another time, to store the values that were
// found for that time.
func (p *gpuBudget) before(f *gpudata.Frame, d *gpudata.DeviceFrame, u *gpudata.User, t int64) *gpudata.User {
	i := slices.IndexFunc(p.more, func(o *gpudata.Frame) bool { return o.Place == f.Place && o.Time == t })
	if i < 0 {
		i = len(p.more)
		p.more = append(p.more, &gpudata.Frame{
			Place: f.Place, Host: f.Host, HostType: f.HostType, NodeLabels: f.NodeLabels, Time: t, Scope: p.scope,
		})
	}
	id := d.Device.ID()
	then := p.more[i].Find(id)
	if then == nil {
		then = &gpudata.DeviceFrame{Device: d.Device, Description: d.Description}
		p.more[i].Append(then)
	}
	of := then.SameUser(u.Holder)
	of.Owner, of.Strategy, of.Allocation = u.Owner, u.Strategy, u.Allocation
	return of
}

// addDevice adds what was found of a device to the frame.
func addDevice(d *budget.Device) {
	d.Of.Samples.Grow(3 + int(budget.NumReasons))
	for _, m := range []struct {
		metric *signal.Metric
		bytes  int64
	}{
		{signal.GPUMemoryBudgetDeclared, d.Declared},
		{signal.GPUMemoryHeadroom, d.Headroom},
		{signal.GPUMemoryUsageUnbudgeted, d.Unbudgeted},
	} {
		if m.bytes != budget.Unknown {
			d.Of.Samples.Add(gpudata.Sample{Metric: m.metric, Value: float64(m.bytes)})
		}
	}
	// There is a point for every reason: one that ends must not linger in backends that
	// know no end of a series.
	for r := range budget.NumReasons {
		state := gpudata.Sample{Metric: signal.GPUMemoryAttributionState, Own: r.State().String(), More: reasonAttrs[r]}
		if r == d.Reason {
			state.Value = 1
		}
		d.Of.Samples.Add(state)
	}
}

// sourceAttrs and reasonAttrs are the attributes that samples share.
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
