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

// powerMetrics contains the metrics that this section reads. The metrics describe power, activity,
// and users.
var powerMetrics = map[*signal.Metric]bool{
	signal.HwPower:         true,
	signal.GPUEngineActive: true, signal.GPUSMActive: true, signal.GPUDRAMActive: true, signal.GPUPipeActive: true,
	signal.HwGPUUtilization:      true,
	signal.GPUDeviceHolder:       true,
	signal.ProcessGPUUtilization: true, signal.ProcessGPUMemoryUsage: true, signal.GPUProcessCount: true,
}

// pipeTensor is the value of gpu.pipe for all tensor pipes combined.
const pipeTensor = "tensor"

// board is a board whose measured power is in a frame.
type board struct {
	split.Board
	device
	instances []*instance
	late      bool // late is true if a newer frame with the board's power was already processed.
	unlisted  int  // unlisted is the number of instances that the frame does not contain.
}

// instance is a MIG instance of a board.
type instance struct {
	split.Instance
	device
}

// device contains the fields that boards and instances have in common.
type device struct {
	frame *gpudata.DeviceFrame
	// list is the device's process list, or nil if no process list applies to the frame.
	list  *gpudata.ProcessList
	codec bool // codec is true if the encoder or the decoder was in use.
}

// id returns the hw.id.
func (d *device) id() string { return d.frame.Device.ID() }

// boards returns the boards whose measured power is in the frame, together with the boards'
// instances. Exporters can repeat a board's power for each instance of the board. If a frame
// contains several values for the power of a board, boards uses the highest value.
func (p *powerBatch) boards(f *gpudata.Frame) []*board {
	activity := map[*gpudata.DeviceFrame]split.Activity{}
	codec := map[*gpudata.DeviceFrame]bool{}
	for _, d := range f.Devices {
		activity[d], codec[d] = p.activity(d)
	}
	var boards []*board
	byID := map[string]*board{}
	for _, d := range f.Devices { // f.Devices does not include boards that appear only as the parents of instances.
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

// If all instances of the vendor's boards have the same size, findUnlisted adds placeholders for
// the instances that the frame does not contain. Without placeholders, the power of the missing
// instances would be charged to the instances in the frame.
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

// activity returns the activity of a device. The codec result is true if the device's encoder or
// decoder was in use.
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
		if v, ok := d.Samples.Get(m.metric, m.own); ok && !(*m.into >= v) { // The negated comparison is true if *m.into is NaN, which means that the value is unknown.
			*m.into = v
		}
	}
	for _, task := range []string{signal.TaskEncoder, signal.TaskDecoder} {
		v, ok := d.Samples.Get(signal.HwGPUUtilization, task)
		codec = codec || ok && v > idleActivity
	}
	return a, codec
}

// attach copies the device's holders, and the device's processes at the time of the frame, to the
// split.Device. If the process list may be incomplete, attach copies no processes, because a
// process that is not in the list could also have used the device.
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

// coversHolders reports whether the process list contains the processes of all holders. If the
// number of processes is unknown, the list must contain at least one process of each holder. If
// there is only one holder, a process whose container is unknown counts as a process of that
// holder.
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

// powerAttributes returns the attributes that describe how the power was divided.
func powerAttributes(s split.Source, estimated bool) (attrs []gpudata.Attr) {
	if s != split.None {
		attrs = append(attrs, gpudata.Attr{Key: signal.PowerSource, Value: s.String()})
	}
	if estimated {
		attrs = append(attrs, gpudata.Attr{Key: signal.PowerEstimated, Value: true})
	}
	return attrs
}

// addSample adds a sample of the metric m to the samples of a device, a holder, or a process.
func addSample(to *gpudata.Samples, m *signal.Metric, v float64, attrs []gpudata.Attr) {
	to.Add(gpudata.Sample{Metric: m, Value: v, More: attrs})
}
