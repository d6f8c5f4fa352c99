package gpuk8sprocessor

import (
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/attribution"
)

// assignDevices finds the device of each of the frame's unplaced processes, and moves the process
// to that device. If a device has several process lists, assignDevices keeps only the best process
// list.
func (p *gpuK8s) assignDevices(n *nodeState, f *gpudata.Frame, c *batchCounts) {
	var nvmlLists map[string]attribution.ListedProcesses
	for _, d := range f.Devices {
		if d.Listed || slices.ContainsFunc(d.Processes, (*gpudata.Process).IsListed) {
			if nvmlLists == nil {
				nvmlLists = map[string]attribution.ListedProcesses{}
			}
			nvmlLists[d.Device.ID()] = listedProcesses(d)
		}
	}
	if len(nvmlLists) > 0 {
		n.sources.Add(attribution.NVML, f.Time, nvmlLists)
	}
	exporters := p.findDevices(n, f, c)
	f.Unplaced = nil
	for exporter, devices := range exporters {
		lists := make(map[string]attribution.ListedProcesses, len(devices))
		for id, processes := range devices {
			lists[id] = attribution.ListedProcesses{Processes: len(processes)}
		}
		n.sources.Add(exporter, f.Time, lists)
	}
	for id := range nvmlLists {
		if best, _ := n.sources.BestSource(id, f.Time); best != attribution.NVML {
			d := f.Find(id)
			for _, process := range d.Processes {
				c.dropped[dropSecondSource] += int64(len(process.Samples.All()))
			}
			d.ReplaceProcesses()
		}
	}
	for exporter, devices := range exporters {
		for id, processes := range devices {
			if best, _ := n.sources.BestSource(id, f.Time); best == exporter {
				addProcesses(f, id, processes)
				continue
			}
			for _, process := range processes {
				c.dropped[dropSecondSource] += int64(len(process.unplaced.Samples.All()))
			}
		}
	}
}

// listedProcesses returns a description of the device's process list in the frame.
func listedProcesses(d *gpudata.DeviceFrame) attribution.ListedProcesses {
	l := attribution.ListedProcesses{Complete: d.Listed && len(d.Processes) >= d.Count, Processes: len(d.Processes)}
	for _, process := range d.Processes {
		if process.Holder.IsZero() {
			continue
		}
		if l.Containers == nil {
			l.Containers = map[string]attribution.ProcessContainer{}
		}
		l.Containers[strings.Clone(process.PID)] = attribution.ProcessContainer{
			Holder: process.Holder.Clone(), ID: strings.Clone(process.ContainerID),
		}
	}
	return l
}

// placedProcess is a process together with its device.
type placedProcess struct {
	attribution.Placed
	unplaced *gpudata.Unplaced
}

// findDevices finds the device of each of the frame's unplaced processes. The result contains the
// processes whose device was found, grouped by exporter and then by hw.id. Processes whose device
// was not found are counted in c.
func (p *gpuK8s) findDevices(n *nodeState, f *gpudata.Frame, c *batchCounts) map[string]map[string][]placedProcess {
	if len(f.Unplaced) == 0 {
		return nil
	}
	exporters := map[string]map[string][]placedProcess{}
	for _, u := range f.Unplaced {
		if exporters[u.Exporter] == nil {
			exporters[u.Exporter] = map[string][]placedProcess{}
		}
		if u.Holder.IsZero() {
			container := n.sources.Container(u.PID, f.Time)
			u.Holder, u.ContainerID = container.Holder, container.ID
		}
		device, ok := n.placement.FindDevice(u)
		if !ok {
			c.dropped[dropNoDevice] += int64(len(u.Samples.All()))
			p.logUnplaced(n, f.Place, u)
			continue
		}
		devices := exporters[u.Exporter]
		devices[device.ID] = append(devices[device.ID], placedProcess{device, u})
	}
	return exporters
}

// logUnplaced logs a process whose device is unknown even though the devices of the process's node
// are known.
func (p *gpuK8s) logUnplaced(n *nodeState, place gpudata.Place, u *gpudata.Unplaced) {
	if n.placement.HasDevices() && p.unplaced.ShouldLog(time.Now()) {
		p.logger.Warn("The device of a process is unknown, because its exporter does not report the device and the container does not hold exactly one device. "+
			"Such processes are dropped and counted. The nvml receiver reports the device of each process.",
			zap.String(signal.K8sNodeName, place.Node), zap.String(signal.K8sNamespaceName, u.Holder.Namespace),
			zap.String(signal.K8sPodName, u.Holder.Pod), zap.String(signal.ProcessPID, u.PID), zap.String("exporter", u.Exporter))
	}
}

// addProcesses adds processes to a device in the frame.
func addProcesses(f *gpudata.Frame, id string, processes []placedProcess) {
	d := f.Find(id)
	if d == nil {
		d = f.Device(id)
		d.Description = processes[0].Description
	}
	for i := range processes {
		from := &processes[i]
		process := d.Process(from.unplaced.PID)
		process.ContainerID, process.Holder, process.Owner = from.unplaced.ContainerID, from.Holder, from.unplaced.Owner
		for _, s := range from.unplaced.Samples.All() {
			process.Samples.AddHighest(s)
		}
	}
}
