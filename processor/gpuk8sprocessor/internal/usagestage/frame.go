package usagestage

import (
	"slices"
	"strconv"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/exporters"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/usage"
)

// usageMetrics contains the metrics that this section reads. The metrics describe holders,
// utilization, and findings about utilization. The gpu.unobserved.time metric shows that another
// processor has already counted the time.
var usageMetrics = map[*signal.Metric]bool{
	signal.GPUDeviceHolder: true, signal.GPUSharingClients: true,
	signal.HwGPUUtilization: true, signal.ProcessGPUUtilization: true, signal.GPUProcessCount: true,
	signal.GPUUnobservedTime: true, signal.GPUFinding: true,
}

// frameBoard is a board in a frame.
type frameBoard struct {
	board       *gpudata.DeviceFrame
	devices     []frameDevice // devices contains either the board itself or its instances.
	partitioned bool          // partitioned is true if the devices are instances.
	slices      int           // slices is the number of the board's slices, or 0 if the number has not been calculated yet.
	observed    bool
	unreadable  bool // unreadable is true if the driver cannot read the board.
}

// frameDevice is a device in a frame, together with the device's holders.
type frameDevice struct {
	*gpudata.DeviceFrame
	users        []*gpudata.User
	holdersKnown bool // holdersKnown is true if the list of holders is complete.
}

// countFrame counts the time of every board for which the frame contains samples.
func (p *usageBatch) countFrame(f *gpudata.Frame, now time.Time) {
	fits := p.nodes.With(f.Place, now, func(n *nodeState) {
		p.nodeState = n
		p.countBoards(f, now)
		p.nodeState = nil
	})
	if !fits {
		p.series.Refuse(1)
	}
}

func (p *usageBatch) countBoards(f *gpudata.Frame, now time.Time) {
	ahead := gpudata.Ahead(f.Time, now)
	boards := boardsInFrame(f)
	for _, b := range boards {
		switch _, counted := b.board.Samples.Get(signal.GPUUnobservedTime, ""); {
		case counted:
			p.skipped[countedBefore]++
		case !b.observed && !b.unreadable:
		case ahead:
			p.skipped[future]++
		default:
			p.countBoard(f, b, now)
		}
	}
}

// boardsInFrame returns the boards in a frame. Devices that have neither samples nor known holders
// are skipped. For example, a frame can contain a device only because of a process or because a
// series has ended.
func boardsInFrame(f *gpudata.Frame) []*frameBoard {
	var boards []*frameBoard
	byDevice := map[*gpudata.DeviceFrame]*frameBoard{}
	for _, d := range f.Devices { // f.Devices does not include boards that appear only as the parents of instances.
		users, holdersKnown := holders(f, d)
		if !d.Present() && !holdersKnown {
			continue
		}
		boardFrame := f.Board(d)
		b := byDevice[boardFrame]
		if b == nil {
			b = &frameBoard{board: boardFrame}
			byDevice[boardFrame] = b
			boards = append(boards, b)
		}
		b.observed = b.observed || d.Observed
		b.unreadable = b.unreadable || d.Unread
		instance := d.Parent != ""
		if instance && !b.partitioned { // Ignore the holders of the board itself, because the board's time is divided among its instances.
			b.partitioned, b.devices = true, nil
		}
		if instance == b.partitioned {
			b.devices = append(b.devices, frameDevice{d, users, holdersKnown})
		}
	}
	return boards
}

// holders returns the holders of a device. If the holders are unknown, the holdersKnown result is
// false. If gpu_k8s has already attributed the devices in the frame, the holders are known only if
// gpu_k8s reports the holders as known.
func holders(f *gpudata.Frame, d *gpudata.DeviceFrame) (users []*gpudata.User, holdersKnown bool) {
	isNoHolder := func(u *gpudata.User) bool {
		return !u.Holds || f.Attribution != nil && !d.HoldersKnown
	}
	users = d.Users
	if slices.ContainsFunc(users, isNoHolder) {
		users = slices.DeleteFunc(slices.Clone(users), isNoHolder)
	}
	return users, d.HoldersKnown || len(users) > 0
}

// countBoard counts the time of a board in the interval that ends with frame f, and adds the
// counters to the frame.
func (p *usageBatch) countBoard(f *gpudata.Frame, b *frameBoard, now time.Time) {
	l := p.findOrAddBoard(b.board.Device, now)
	if l == nil {
		return
	}
	accounts := len(l.Accounts)
	step, from, length := l.Advance(f.Time, now, p.cfg.MaxGap)
	p.series.Free(accounts - len(l.Accounts))
	switch step {
	case usage.Late:
		p.skipped[late]++
		return
	case usage.Early:
		p.skipped[early]++
		return
	case usage.Restarted:
		p.skipped[clockSetBack]++
		return
	case usage.First:
		return
	case usage.Charged:
	}
	divided := &usage.Board{Unobserved: 1}
	if b.observed {
		divided = p.divide(f, b, l)
	}
	i := usage.Interval{From: from, Length: length, Price: p.price(f, b)}
	l.Use(i.Price)
	for at := range divided.Devices {
		d := &b.devices[at]
		id := d.Device.ID()
		for k := range divided.Devices[at].Holders {
			h := &divided.Devices[at].Holders[k]
			if !p.charge(l, id, h, i, now) {
				divided.Unobserved += h.Share
			}
			p.addUser(d.users[k], l, id)
		}
	}
	l.Charge(i, divided.Unallocated, divided.Unobserved)
	p.addBoard(b.board, l)
}

// charge adds a holder's time in an interval to the holder's account. If the series limit is
// reached, charge returns false.
func (p *usageBatch) charge(l *boardState, device string, h *usage.Holder, i usage.Interval, now time.Time) bool {
	if h.Share == 0 || i.Length == 0 {
		return true
	}
	key := usage.Key{Device: device, Holder: h.Holder, Estimated: h.Estimated}
	a := l.Accounts[key]
	if a == nil {
		if !p.series.Admit(1) {
			return false
		}
		key.Holder = key.Clone()
		a = l.Open(key)
	}
	a.Seen = now
	a.Charge(i, h)
	return true
}

// divide divides a board among its holders. In the result, the holders of each device have the same
// order as the device's users.
func (p *usageBatch) divide(f *gpudata.Frame, b *frameBoard, l *boardState) *usage.Board {
	l.maxDevices = max(l.maxDevices, len(b.devices))
	board := &usage.Board{Devices: make([]usage.Device, len(b.devices)), Unlisted: exporters.EqualParts(b.devices[0].Vendor)}
	for i := range b.devices {
		d, device := &b.devices[i], &board.Devices[i]
		device.Size = p.size(b, d, l.maxDevices)
		device.HoldersKnown = d.holdersKnown
		device.Utilization = utilization(&d.Samples, signal.HwGPUUtilization, signal.TaskGeneral)
		if v, _ := d.Samples.Get(signal.GPUFinding, signal.FindingLatched); v > 0 {
			device.Utilization = usage.Unknown() // gpu_findings has found that the utilization is latched, which means that the value no longer changes.
		}
		device.Holders = make([]usage.Holder, len(d.users))
		for k, u := range d.users {
			device.Holders[k] = usage.Holder{Holder: u.Holder, Declared: p.pods.Compute(d.DeviceFrame, u), Weight: u.Replicas, Utilization: usage.Unknown()}
		}
		if l := d.ProcessList; l != nil && l.AppliesAt(f.Time, p.cfg.MaxGap) {
			setUtilization(device.Holders, l)
		}
	}
	board.Divide()
	return board
}

// utilization returns the value of a utilization metric, or Unknown if there is no sample.
func utilization(s *gpudata.Samples, m *signal.Metric, own string) float64 {
	if v, ok := s.Get(m, own); ok {
		return v
	}
	return usage.Unknown()
}

// size returns the size of a device in board equivalents, or Unknown. The parameter named most is
// the highest number of instances that the board had in any frame.
func (p *gpuUsage) size(b *frameBoard, d *frameDevice, most int) float64 {
	if !b.partitioned {
		return 1
	}
	deviceSlices := exporters.Slices(d.Vendor, d.Profile)
	if deviceSlices == 0 {
		return usage.Unknown()
	}
	if b.slices == 0 {
		b.slices = exporters.BoardSlices(d.Vendor, d.Model, d.Partitions, most)
	}
	return float64(deviceSlices) / float64(b.slices)
}

// price returns the price of a board, or the zero Price if the price is unknown.
func (p *gpuUsage) price(f *gpudata.Frame, b *frameBoard) usage.Price {
	if p.prices == nil {
		return usage.Price{}
	}
	list := p.prices.List()
	perHour, ok := list.PriceOf(b.board.Model, f.HostType, func(key string) string { return f.NodeLabels[key] })
	if !ok {
		return usage.Price{}
	}
	return usage.Price{PerHour: perHour, Currency: list.Currency}
}

// maxCounters is the number of counters in an account.
const maxCounters = 5

// addUser adds the counters of a device's user to the user's samples.
func (p *usageBatch) addUser(u *gpudata.User, l *boardState, device string) {
	for _, estimated := range [...]bool{false, true} {
		a := l.Accounts[usage.Key{Device: device, Holder: u.Holder, Estimated: estimated}]
		if a == nil {
			continue
		}
		own := strconv.FormatBool(estimated)
		u.Samples.Grow(maxCounters)
		for _, c := range [...]struct {
			metric  *signal.Metric
			counter *usage.Counter
			more    []gpudata.Attr
		}{
			{signal.K8sContainerGPUAllocatedTime, &a.Allocated, nil},
			{signal.K8sContainerGPUActiveTime, &a.Active, nil},
			{signal.K8sContainerGPUIdleTime, &a.Idle, nil},
			{signal.K8sContainerGPUCost, &a.Cost, p.currency(l.Currency)},
			{signal.K8sContainerGPUCostIdle, &a.IdleCost, p.currency(l.Currency)},
		} {
			if c.counter.Start != 0 {
				u.Samples.Add(gpudata.Sample{Metric: c.metric, Own: own, More: c.more, Start: c.counter.Start, Value: c.counter.Value})
			}
		}
	}
}

// addBoard adds the counters of a board to the board's samples.
func (p *gpuUsage) addBoard(d *gpudata.DeviceFrame, l *boardState) {
	for _, c := range [...]struct {
		metric  *signal.Metric
		counter *usage.Counter
		own     string
	}{
		{signal.GPUUnallocatedTime, &l.Unallocated, ""},
		{signal.GPUUnobservedTime, &l.Unobserved, ""},
		{signal.GPUUnallocatedCost, &l.UnallocatedCost, l.Currency},
	} {
		if c.counter.Start != 0 {
			d.Samples.Add(gpudata.Sample{Metric: c.metric, Own: c.own, Start: c.counter.Start, Value: c.counter.Value})
		}
	}
}

// currency returns the attributes for a currency. To save memory, all samples of the node share the
// returned attributes.
func (n *nodeState) currency(code string) []gpudata.Attr {
	attrs, ok := n.currencies[code]
	if !ok {
		attrs = []gpudata.Attr{{Key: signal.CostCurrency, Value: code}}
		n.currencies[code] = attrs
	}
	return attrs
}
