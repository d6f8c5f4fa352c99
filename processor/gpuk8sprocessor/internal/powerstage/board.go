package powerstage

import (
	"slices"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/exporters"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/internal/stage"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/split"
)

// powerMetrics contains the metrics that provide power, activity, or users.
var powerMetrics = map[*signal.Metric]bool{
	signal.HwPower:         true,
	signal.GPUEngineActive: true, signal.GPUSMActive: true, signal.GPUDRAMActive: true, signal.GPUPipeActive: true,
	signal.HwGPUUtilization:      true,
	signal.GPUDeviceHolder:       true,
	signal.ProcessGPUUtilization: true, signal.ProcessGPUMemoryUsage: true, signal.GPUProcessCount: true,
}

// pipeTensor is the value of gpu.pipe for the total of all tensor pipes.
const pipeTensor = "tensor"

// board is a board whose power was measured in a frame.
type board struct {
	split.Board
	device
	instances []*instance
	unlisted  int // number of instances that the frame does not contain
}

// instance is a MIG instance of a board.
type instance struct {
	split.Instance
	device
}

// device contains the common fields of boards and instances.
type device struct {
	frame *gpudata.DeviceFrame
	// list is the list of the device's processes, or nil if no list applies.
	list  *gpudata.ProcessList
	codec bool // the encoder or the decoder was in use
}

// id returns the hw.id.
func (d *device) id() string { return d.frame.Device.ID() }

// boards returns the boards of a frame whose power was measured, with their instances. If the frame
// contains the board's power several times, for the board or for its instances, boards uses the
// highest value.
func (p *powerBatch) boards(f *gpudata.Frame) []*board {
	activity := map[*gpudata.DeviceFrame]split.Activity{}
	codec := map[*gpudata.DeviceFrame]bool{}
	for _, d := range f.Devices {
		activity[d], codec[d] = p.activity(d)
	}
	var boards []*board
	byID := map[string]*board{}
	for _, d := range f.Devices { // excludes boards that only their instances refer to
		watts, ok := d.Samples.Get(signal.HwPower, "")
		if !ok {
			continue
		}
		if watts > maxWatts {
			p.Dropped[stage.OutOfRange]++
			continue
		}
		boardFrame := f.Board(d)
		b := byID[boardFrame.Device.ID()]
		if b == nil {
			b = &board{device: device{frame: boardFrame, codec: codec[boardFrame]}}
			b.Activity = split.Unknown()
			if known, ok := activity[boardFrame]; ok {
				b.Activity = known
			}
			byID[boardFrame.Device.ID()] = b
			boards = append(boards, b)
		}
		b.Measured = max(b.Measured, watts)
	}
	for _, d := range f.Devices {
		if b := byID[d.Parent]; b != nil {
			i := &instance{device: device{frame: d, codec: codec[d]}}
			i.Activity, i.Slices = activity[d], exporters.Slices(d.Vendor, d.Profile)
			b.instances = append(b.instances, i)
		}
	}
	return boards
}

// findUnlisted adds the instances that the frame does not contain, so that their power is not
// charged to the instances in the frame.
func (b *board) findUnlisted(state *boardState) {
	listed := len(b.instances)
	if listed == 0 || !exporters.EqualParts(b.instances[0].frame.Vendor) {
		return
	}
	most := listed
	if state != nil {
		state.maxInstances = max(state.maxInstances, listed)
		most = state.maxInstances
	}
	d := b.instances[0].frame
	b.unlisted = max(0, exporters.BoardSlices(d.Vendor, d.Model, d.Partitions, most)-listed)
	for range b.unlisted {
		b.Instances = append(b.Instances, &split.Instance{Device: split.Device{Activity: split.Unknown()}, Slices: 1})
	}
}

// activity returns the activity of a device, and whether its encoder or decoder was in use.
func (p *gpuPower) activity(d *gpudata.DeviceFrame) (a split.Activity, codec bool) {
	a = split.Unknown()
	for _, m := range []struct {
		metric *signal.Metric
		own    string
		into   *float64
	}{
		{signal.GPUEngineActive, "", &a.Engine},
		{signal.GPUSMActive, "", &a.SM},
		{signal.GPUDRAMActive, "", &a.DRAM},
		{signal.GPUPipeActive, pipeTensor, &a.Tensor},
		{signal.HwGPUUtilization, "", &a.Utilization},
		{signal.HwGPUUtilization, signal.TaskGeneral, &a.Utilization},
	} {
		if v, ok := d.Samples.Get(m.metric, m.own); ok && !(*m.into >= v) { // true if *m.into is NaN, which means unknown
			*m.into = v
		}
	}
	for _, task := range []string{signal.TaskEncoder, signal.TaskDecoder} {
		v, ok := d.Samples.Get(signal.HwGPUUtilization, task)
		codec = codec || ok && v > idleActivity
	}
	return a, codec
}

// attach copies the users of the device, and its processes at the time of the frame, to the split. It
// ignores a list that may lack processes, because an unlisted process may also have used the device.
func (d *device) attach(to *split.Device, at int64, maxAge time.Duration) {
	for _, u := range d.frame.Users {
		if u.Holds {
			to.Holders = append(to.Holders, split.Holder{User: u})
		}
	}
	l := d.frame.ProcessList
	if l == nil || !l.AppliesAt(at, maxAge) {
		return
	}
	d.list = l
	if !coversHolders(l, to.Holders) {
		return
	}
	for i := range l.Processes {
		p := &l.Processes[i]
		to.Processes = append(to.Processes, split.Process{
			PID: p.PID, ContainerID: p.ContainerID, Holder: p.Holder, Utilization: p.Utilization,
		})
	}
}

// coversHolders reports whether a list contains the processes of all holders. If the number of
// processes is unknown, a holder without a process in the list may still have one. A process that
// could not be matched to a container may belong to the only holder.
func coversHolders(l *gpudata.ProcessList, holders []split.Holder) bool {
	if l.Counted {
		return l.IsComplete()
	}
	for i := range holders {
		if !slices.ContainsFunc(l.Processes, func(p gpudata.ListedProcess) bool {
			return p.Holder.MayBeSame(holders[i].Holder) || len(holders) == 1 && p.Holder.IsZero()
		}) {
			return false
		}
	}
	return true
}

// powerAttributes returns the attributes that describe how power was split.
func powerAttributes(s split.Source, estimated bool) (attrs []gpudata.Attr) {
	if s != split.None {
		attrs = append(attrs, gpudata.Attr{Key: signal.PowerSource, Value: s.String()})
	}
	if estimated {
		attrs = append(attrs, gpudata.Attr{Key: signal.PowerEstimated, Value: true})
	}
	return attrs
}

// addSample adds a value of a metric to the samples of a device, holder, or process.
func addSample(to *gpudata.Samples, m *signal.Metric, v float64, attrs []gpudata.Attr) {
	to.Add(gpudata.Sample{Metric: m, Value: v, More: attrs})
}
