package pdatagpu

import (
	"math"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// The functions in this file read and write processes on unknown devices. The data points of a
// process on an unknown device have the gpu.process.source attribute and the device attributes that
// the exporter exposes.

// isUnplaced reports whether the device of a process's data point is unknown.
func isUnplaced(attrs pcommon.Map) bool { return Text(attrs, signal.ProcessSource) != "" }

// unplaced reads a data point of a process on an unknown device.
func (in *input) unplaced(s *signal.Metric, dp pmetric.NumberDataPoint, v float64) {
	if !in.known {
		in.addSeries()
	}
	attrs := dp.Attributes()
	f := in.frame(int64(dp.Timestamp()))
	exporter, pid := Text(attrs, signal.ProcessSource), Text(attrs, signal.ProcessPID)
	named := gpudata.NamedDevice{
		Board: Text(attrs, signal.HardwareID), MIGUUID: Text(attrs, signal.MIGUUID), Name: Text(attrs, signal.HardwareName),
	}
	key := unplacedKey{f, exporter, pid, named}
	u := in.batch.unplaced[key]
	if u == nil {
		u = &gpudata.Unplaced{Process: gpudata.Process{PID: pid}, Exporter: exporter, Named: named}
		if in.batch.unplaced == nil {
			in.batch.unplaced = map[unplacedKey]*gpudata.Unplaced{}
		}
		in.batch.unplaced[key] = u
		f.Unplaced = append(f.Unplaced, u)
	}
	u.Holder, u.Owner, u.ContainerID = in.holder, in.owner, Text(attrs, signal.ContainerID)
	u.Samples.AddHighest(gpudata.Sample{Metric: s, Value: v, Start: int64(dp.StartTimestamp())})
}

// unplacedKey identifies a process on an unknown device within a batch.
type unplacedKey struct {
	frame         *gpudata.Frame
	exporter, pid string
	named         gpudata.NamedDevice
}

// Unplaced returns the samples of the frames' processes on unknown devices as metrics.
func (a *Arrival) Unplaced() pmetric.Metrics {
	md := pmetric.NewMetrics()
	w := &Writer{}
	for _, f := range a.Frames {
		if len(f.Unplaced) == 0 {
			continue
		}
		if w.outputs == nil {
			w.begin(md, map[resourceKey]pmetric.ResourceMetrics{})
		}
		w.unplaced(f)
	}
	return md
}

// unplaced writes a frame's processes on unknown devices.
func (w *Writer) unplaced(f *gpudata.Frame) {
	for _, u := range f.Unplaced {
		to := w.output(f, who{u.Holder, u.Owner}, w.scopeOf(f))
		for _, s := range u.Samples.All() {
			if w.Disabled[s.Metric] {
				continue
			}
			dp := w.points(to, s.Metric).AppendEmpty()
			dp.SetTimestamp(pcommon.Timestamp(f.Time))
			if s.Metric.Int {
				dp.SetIntValue(int64(math.Round(s.Value)))
			} else {
				dp.SetDoubleValue(s.Value)
			}
			attrs := dp.Attributes()
			putProcess(attrs, &u.Process)
			put(attrs, signal.ProcessSource, u.Exporter)
			put(attrs, signal.HardwareID, u.Named.Board)
			put(attrs, signal.MIGUUID, u.Named.MIGUUID)
			put(attrs, signal.HardwareName, u.Named.Name)
		}
	}
}

// scopeOf returns the scope of samples that do not have their own scope.
func (w *Writer) scopeOf(f *gpudata.Frame) gpudata.Scope {
	if f.Scope != 0 {
		return f.Scope
	}
	return w.Scope
}

// removeUnplaced removes the incoming data points of processes on unknown devices. If gpu_k8s has
// found the device, the process has already been written with the device. Otherwise, the process is
// dropped.
func (b *Batch) removeUnplaced() {
	if b.unplaced == nil {
		return
	}
	b.Metrics.ResourceMetrics().RemoveIf(func(rm pmetric.ResourceMetrics) bool {
		in := b.input(rm)
		rm.ScopeMetrics().RemoveIf(func(sm pmetric.ScopeMetrics) bool {
			sm.Metrics().RemoveIf(func(m pmetric.Metric) bool {
				s, ok := lookup(m)
				if !ok || roles[s] != ofProcess || !b.wants(s) {
					return false
				}
				dps := points.Of(m)
				before := dps.Len()
				dps.RemoveIf(func(dp pmetric.NumberDataPoint) bool {
					if !isUnplaced(dp.Attributes()) {
						return false
					}
					_, _, _, read := in.observes(ofProcess, s, dp)
					return read
				})
				return before > 0 && dps.Len() == 0
			})
			return sm.Metrics().Len() == 0
		})
		return rm.ScopeMetrics().Len() == 0
	})
}
