package pdatagpu

import (
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// writeHoldings writes the holders of the devices, and everything that depends on the holders, to
// the batch. All frames must have the given attribution. The following data is written:
//
//   - gpu.device.holder and gpu.sharing.clients for devices whose holders are known,
//   - the series of each device, repeated for each of its sharers, and the cAdvisor metrics for the
//     sharers,
//   - the samples of users and the data points of processes, with the current holder,
//   - the data points of unplaced processes whose device was found,
//   - the MIG instance and the DRA driver, pool, and device, as attributes of the device's data
//     points,
//   - the samples that were added to devices and processes.
//
// Incoming data points that writeHoldings replaces are removed. Incoming data points of
// gpu.device.holder and of users' metrics are also removed if the batch's wants function selects
// their metrics.
func (b *Batch) writeHoldings(a *gpudata.Attribution) {
	out := pmetric.NewMetrics()
	w := holdingsWriter{
		Writer:  &Writer{Scope: a.Scope, Disabled: a.Disabled, batch: b},
		repeats: map[*gpudata.DeviceFrame]bool{}, copies: map[*output]pmetric.NumberDataPointSlice{},
	}
	w.begin(out, map[resourceKey]pmetric.ResourceMetrics{})
	b.describeNodes()
	for _, f := range b.read {
		for _, d := range f.Devices {
			w.series(f, &gpudata.Series{Device: d, Samples: d.Samples.Added()})
			for _, p := range d.Processes {
				w.series(f, &gpudata.Series{Device: d, Process: p, Samples: p.Samples.Added()})
			}
		}
		f.Each(func(s *gpudata.Series) {
			clients := s.Samples[0].Metric == signal.GPUSharingClients
			if clients || s.User != nil && (!s.Repeated || isAccelerator(s.Samples[0].Metric)) {
				w.series(f, s)
			}
		})
	}
	b.walk(w.writes, w.write)
	b.walk(w.mayReplace, w.replaces)
	b.removeUnplaced()
	out.ResourceMetrics().MoveAndAppendTo(b.Metrics.ResourceMetrics())
}

// describeNodes writes the description of each node to the incoming Resources that contain series
// of the node's devices.
func (b *Batch) describeNodes() {
	of := map[gpudata.Place]*gpudata.Frame{}
	for _, f := range b.read {
		if f.HostType != "" || len(f.NodeLabels) > 0 {
			of[f.Place] = f
		}
	}
	if len(of) == 0 {
		return
	}
	for _, rm := range b.Metrics.ResourceMetrics().All() {
		if f := of[PlaceOf(rm.Resource().Attributes())]; f != nil && ofDevices(rm) {
			putNode(rm.Resource().Attributes(), f)
		}
	}
}

// ofDevices reports whether the Resource contains a metric that frames can represent.
func ofDevices(rm pmetric.ResourceMetrics) bool {
	for _, sm := range rm.ScopeMetrics().All() {
		for _, m := range sm.Metrics().All() {
			if s, ok := lookup(m); ok && roles[s] != ofNothing {
				return true
			}
		}
	}
	return false
}

type holdingsWriter struct {
	*Writer
	// repeats contains the devices whose data points have been repeated.
	repeats map[*gpudata.DeviceFrame]bool
	// The copies map contains, for each output, the repeated data points of the current device
	// metric.
	copies map[*output]pmetric.NumberDataPointSlice
	metric pmetric.Metric
}

// The repeated function reports whether a metric is a device metric that is repeated for the
// device's sharers.
func repeated(s *signal.Metric) bool { return s.Stage == signal.StageSample && roles[s] == ofDevice }

// isAccelerator reports whether a metric is one of cAdvisor's accelerator metrics.
func isAccelerator(s *signal.Metric) bool {
	return s == signal.ContainerAcceleratorMemoryTotal || s == signal.ContainerAcceleratorMemoryUsed || s == signal.ContainerAcceleratorDutyCycle
}

// seen is an incoming data point of a device in a frame.
type seen struct {
	pmetric.NumberDataPoint
	in     *input
	metric pmetric.Metric
	signal *signal.Metric
	role   role
	frame  *gpudata.Frame
	device *gpudata.DeviceFrame
}

// walk calls the visit function with each data point of a device in a frame. Metrics for which the
// look function returns false are skipped. Data points for which the visit function returns true
// are removed. Finally, metrics, scopes, and Resources that have become empty are removed.
func (b *Batch) walk(look, visit func(*seen) bool) {
	b.Metrics.ResourceMetrics().RemoveIf(func(rm pmetric.ResourceMetrics) bool {
		in := b.input(rm)
		scopes := rm.ScopeMetrics().Len()
		rm.ScopeMetrics().RemoveIf(func(sm pmetric.ScopeMetrics) bool {
			metrics := sm.Metrics().Len()
			sm.Metrics().RemoveIf(func(m pmetric.Metric) bool {
				s, ok := lookupName(m)
				p := seen{in: &in, metric: m, signal: s, role: roles[s]}
				if !ok || points.IsDelta(m) && p.role != ofDevice || !look(&p) { // a device's data points with delta temporality are repeated even though they are not read
					return false
				}
				dps := points.Of(m)
				before := dps.Len()
				dps.RemoveIf(func(dp pmetric.NumberDataPoint) bool {
					if p.frame = b.frame(in.place, int64(dp.Timestamp())); p.frame == nil {
						return false
					}
					p.NumberDataPoint, p.device = dp, p.frame.Find(Text(dp.Attributes(), signal.HardwareID))
					return p.device != nil && visit(&p)
				})
				return before > 0 && dps.Len() == 0
			})
			return metrics > 0 && sm.Metrics().Len() == 0
		})
		return scopes > 0 && rm.ScopeMetrics().Len() == 0
	})
}

// writes reports whether the write method must be called with the metric's data points.
func (w *holdingsWriter) writes(p *seen) bool {
	switch p.role {
	case ofDevice:
		return p.in.holder.IsZero() && repeated(p.signal)
	case ofProcess:
		return w.batch.wants(p.signal)
	case ofUser, ofHolding, ofClients, ofProcessCount, ofNothing: // frames contain all data points with these roles
	}
	return false
}

// write adds missing attributes to a device's data point and repeats the data point for each
// sharer, or copies a process's data point to the Resource of the process's holder. The result is
// always false, so that the walk method does not remove the data point.
func (w *holdingsWriter) write(p *seen) bool {
	if p.role == ofDevice {
		completeDevice(p.Attributes(), p.device)
		if !w.Disabled[p.signal] {
			w.repeat(p)
		}
	} else if to, moves := p.moves(); moves {
		p.CopyTo(w.points(w.output(p.frame, who{to.Holder, to.Owner}, w.Scope), p.signal).AppendEmpty())
	}
	return false
}

// mayReplace reports whether incoming data points of the metric may have to be removed.
func (w *holdingsWriter) mayReplace(p *seen) bool {
	switch p.role {
	case ofUser, ofHolding:
		return !p.in.holder.IsZero() && w.batch.wants(p.signal)
	case ofProcess:
		return w.batch.wants(p.signal)
	case ofClients:
		return p.in.holder.IsZero() && !w.Disabled[p.signal]
	case ofDevice:
		return !p.in.holder.IsZero() && repeated(p.signal) && !w.Disabled[p.signal]
	case ofNothing:
		return !p.in.holder.IsZero() && isAccelerator(p.signal) && !w.Disabled[p.signal]
	case ofProcessCount:
		return p.in.holder.IsZero() && w.batch.wants(p.signal)
	}
	return false
}

// replaces reports whether an incoming data point must be removed. A data point must be removed if
// it has been replaced or if it belongs to a user.
func (w *holdingsWriter) replaces(p *seen) bool {
	switch p.role {
	case ofProcess:
		_, moves := p.moves()
		return moves || p.device.Replaced && !isUnplaced(p.Attributes())
	case ofProcessCount:
		return p.device.Replaced
	case ofClients:
		_, known := p.frame.Clients(p.device)
		return known
	case ofDevice, ofNothing:
		return w.repeats[p.device] && slices.ContainsFunc(p.device.Sharers, func(u *gpudata.User) bool { return u.Holder == p.in.holder })
	default:
		_, _, _, read := p.in.observes(p.role, p.signal, p.NumberDataPoint)
		return read
	}
}

// The moves method returns the process of a data point. The second result is true if the process's
// holder in the frame differs from the holder of the incoming data point.
func (p *seen) moves() (to *gpudata.Process, moves bool) {
	if p.device.Replaced || isUnplaced(p.Attributes()) {
		return nil, false
	}
	pid := Text(p.Attributes(), signal.ProcessPID)
	_, _, _, read := p.in.observes(p.role, p.signal, p.NumberDataPoint)
	for _, process := range p.device.Processes {
		if process.PID == pid {
			return process, read && process.Holder != p.in.holder
		}
	}
	return nil, false
}

// completeDevice adds device attributes from other sources to a data point.
func completeDevice(attrs pcommon.Map, d *gpudata.DeviceFrame) {
	for _, f := range [...]field{
		{signal.MIGUUID, &d.MIGUUID},
		{signal.MIGProfile, &d.Profile},
		{signal.DRADriver, &d.Allocation.Driver},
		{signal.DRAPool, &d.Allocation.Pool},
		{signal.DRADevice, &d.Allocation.Device},
	} {
		if *f.text == "" {
			continue
		}
		if v, exists := attrs.GetOrPutEmpty(f.key); !exists {
			v.SetStr(*f.text)
		}
	}
}

// The repeat method writes a device's data point once for each sharer.
func (w *holdingsWriter) repeat(p *seen) {
	for _, u := range p.device.Sharers {
		w.repeats[p.device] = true
		c := w.copied(w.output(p.frame, who{u.Holder, u.Owner}, w.Scope), p.metric).AppendEmpty()
		attrs := c.Attributes()
		attrs.EnsureCapacity(p.Attributes().Len() + len(allocationFields(&u.Allocation)) + 1)
		p.CopyTo(c)
		putHolding(attrs, p.device, u)
	}
}

// The copied method returns the output's slice for copies of a device metric's data points.
func (w *holdingsWriter) copied(o *output, m pmetric.Metric) pmetric.NumberDataPointSlice {
	if w.metric != m { // all data points of one metric are visited in sequence
		clear(w.copies)
		w.metric = m
	}
	dps, ok := w.copies[o]
	if !ok {
		c := o.metrics.AppendEmpty()
		c.SetName(m.Name())
		c.SetUnit(m.Unit())
		c.SetDescription(m.Description())
		m.Metadata().CopyTo(c.Metadata())
		if m.Type() == pmetric.MetricTypeSum {
			sum := c.SetEmptySum()
			sum.SetAggregationTemporality(m.Sum().AggregationTemporality())
			sum.SetIsMonotonic(m.Sum().IsMonotonic())
			dps = sum.DataPoints()
		} else {
			dps = c.SetEmptyGauge().DataPoints()
		}
		w.copies[o] = dps
	}
	return dps
}
