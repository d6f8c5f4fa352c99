package gpuk8sprocessor

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/attribution"
)

const scopeName = "github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor"

// output is one Resource that is added to the batch.
type output struct {
	metrics pmetric.MetricSlice
	points  map[metricKey]pmetric.NumberDataPointSlice
	// last is the metric written last: points of one follow each other.
	last       metricKey
	lastPoints pmetric.NumberDataPointSlice
}

// metricKey tells metrics of a Resource apart.
type metricKey struct {
	name, unit  string
	kind        pmetric.MetricType
	temporality pmetric.AggregationTemporality
	monotonic   bool
}

func keyOf(m pmetric.Metric) metricKey {
	k := metricKey{name: m.Name(), unit: m.Unit(), kind: m.Type()}
	if k.kind == pmetric.MetricTypeSum {
		k.temporality, k.monotonic = m.Sum().AggregationTemporality(), m.Sum().IsMonotonic()
	}
	return k
}

// pair is an attribute of text.
type pair struct {
	key, value string
}

// write adds the container series to the batch, and what slices tell to the
// device series.
func (b *batch) write(md pmetric.Metrics) {
	out := pmetric.NewMetrics()
	// Usage comes first: its Resources may say more of the container.
	for _, d := range b.devices {
		b.writeUsage(out, d)
	}
	b.writeProcesses(out)
	next := 0
	for _, rm := range md.ResourceMetrics().All() {
		if text(rm.Resource().Attributes(), signal.K8sPodName) != "" {
			continue
		}
		for _, sm := range rm.ScopeMetrics().All() {
			for _, m := range sm.Metrics().All() {
				repeat, ok := b.p.series[m.Name()]
				if !ok {
					continue
				}
				key := keyOf(m)
				for _, dp := range points.Of(m).All() {
					d := b.order[next]
					next++
					if d == nil {
						continue
					}
					d.complete(dp.Attributes())
					if repeat {
						b.repeat(out, d, m, key, dp)
					}
					if a := b.p.accelerators[m.Name()]; a != nil {
						b.accelerate(out, d, a, dp)
					}
				}
			}
		}
	}
	for _, d := range b.devices {
		b.writeHolders(out, d)
	}
	out.ResourceMetrics().MoveAndAppendTo(md.ResourceMetrics())
}

// complete adds to a point what is known of its device otherwise.
func (d *device) complete(attrs pcommon.Map) {
	if d.entry == nil {
		return
	}
	f := &d.entry.Facts
	add(attrs, signal.MIGUUID, f.MIGUUID)
	add(attrs, signal.MIGProfile, f.Profile)
	if f.DRA.Device != "" {
		add(attrs, signal.DRADriver, f.DRA.Driver)
		add(attrs, signal.DRAPool, f.DRA.Pool)
		add(attrs, signal.DRADevice, f.DRA.Device)
	}
}

// add sets an attribute that is known and not there yet.
func add(attrs pcommon.Map, key, value string) {
	if value == "" {
		return
	}
	if v, exists := attrs.GetOrPutEmpty(key); !exists {
		v.SetStr(value)
	}
}

// put sets an attribute that is known.
func put(attrs pcommon.Map, key, value string) {
	if value != "" {
		attrs.PutStr(key, value)
	}
}

// repeat writes a point of a device once for each holder.
func (b *batch) repeat(out pmetric.Metrics, d *device, m pmetric.Metric, key metricKey, dp pmetric.NumberDataPoint) {
	for i := range d.sharing {
		s := &d.sharing[i]
		o := b.sharer(out, d, s)
		if o.last != key {
			o.metric(key, func(c pmetric.Metric) {
				c.SetDescription(m.Description())
				m.Metadata().CopyTo(c.Metadata())
			})
		}
		c := o.lastPoints.AppendEmpty()
		attrs := c.Attributes()
		attrs.EnsureCapacity(dp.Attributes().Len() + len(s.attrs))
		dp.CopyTo(c)
		if d.claimed && !s.board && s.holder.Allocation.Claim == "" {
			attrs.Remove(signal.ResourceClaimName) // it is by another claim, or by none, that this one holds it
		}
		for _, p := range s.attrs {
			attrs.PutStr(p.key, p.value)
		}
	}
}

// sharer returns the Resource of a holder of the device.
func (b *batch) sharer(out pmetric.Metrics, d *device, s *share) *output {
	if s.out == nil {
		s.out = b.output(out, d.place, s.holder.Identity, nil)
		s.attrs = s.describe()
	}
	return s.out
}

// describe returns what a holder's points say beside the device's attributes. A
// board is not what the holder of an instance was allocated.
func (s *share) describe() []pair {
	pairs := []pair{{signal.SharingStrategy, s.strategy}}
	if s.board {
		return pairs
	}
	a := &s.holder.Allocation
	for _, p := range [...]pair{
		{signal.ResourceClaimName, a.Claim},
		{signal.ResourceClaimUID, a.ClaimUID},
		{signal.DeviceClassName, a.Class},
		{signal.DRADriver, a.Driver},
		{signal.DRAPool, a.Pool},
		{signal.DRADevice, a.Device},
		{signal.DRARequest, a.Request},
		{signal.DRAShareID, a.ShareID},
	} {
		if p.value != "" {
			pairs = append(pairs, p)
		}
	}
	return pairs
}

// writeUsage writes what containers use, under their complete identity.
func (b *batch) writeUsage(out pmetric.Metrics, d *device) {
	for i := range d.usage {
		u := &d.usage[i]
		if !b.p.cfg.enabled(u.metric) {
			continue
		}
		o := b.output(out, d.place, u.holder.Identity, &u.resource)
		c := o.contract(u.metric).AppendEmpty()
		u.point.CopyTo(c)
		d.complete(c.Attributes())
		c.Attributes().PutStr(signal.SharingStrategy, d.strategyOf(&u.holder))
	}
}

// strategyOf returns how a container shares the device. Of one that is not known to hold
// it, it is unknown.
func (d *device) strategyOf(h *attribution.Holder) string {
	for i := range d.sharing {
		if d.sharing[i].holder.SameContainer(h) {
			return d.sharing[i].strategy
		}
	}
	return signal.SharingUnknown
}

// writeHolders writes who holds the device and how many they are.
func (b *batch) writeHolders(out pmetric.Metrics, d *device) {
	if !d.observed {
		return
	}
	holders := d.decision.Holders
	if b.p.cfg.enabled(signal.GPUDeviceHolder) {
		for i := range holders {
			s := share{holder: &holders[i], strategy: d.decision.Strategy}
			o := b.output(out, d.place, s.holder.Identity, nil)
			dp := d.point(o.contract(signal.GPUDeviceHolder), 1)
			for _, p := range s.describe() {
				dp.Attributes().PutStr(p.key, p.value)
			}
			dp.Attributes().PutStr(signal.HolderSource, sourceNames[d.decision.Source])
		}
	}
	if (len(holders) > 0 || d.decision.Known) && b.p.cfg.enabled(signal.GPUSharingClients) {
		o := b.output(out, d.place, attribution.Identity{}, nil)
		d.point(o.contract(signal.GPUSharingClients), int64(len(holders)))
	}
}

// sourceNames are the values of gpu.holder.source.
var sourceNames = map[attribution.Source]string{
	attribution.PodResources: signal.HolderSourcePodResources,
	attribution.DRA:          signal.HolderSourceDRA,
	attribution.Labels:       signal.HolderSourceLabels,
	attribution.Processes:    signal.HolderSourceProcesses,
}

// point writes a number about the device.
func (d *device) point(dps pmetric.NumberDataPointSlice, v int64) pmetric.NumberDataPoint {
	dp := dps.AppendEmpty()
	dp.SetTimestamp(d.time)
	dp.SetIntValue(v)
	d.attrs.CopyTo(dp.Attributes())
	d.complete(dp.Attributes())
	return dp
}

// output returns the Resource of a container, or that of the devices for nobody.
// more is what the container's own points say of it, nil for nothing.
func (b *batch) output(out pmetric.Metrics, pl *place, id attribution.Identity, more *pcommon.Map) *output {
	if o := pl.outputs[id]; o != nil {
		return o
	}
	rm := out.ResourceMetrics().AppendEmpty()
	attrs := rm.Resource().Attributes()
	if pl.known {
		pl.attrs.CopyTo(attrs)
	} else {
		put(attrs, signal.HostName, pl.key.host)
		put(attrs, signal.K8sNodeName, pl.key.node)
		put(attrs, signal.K8sClusterName, pl.key.cluster)
	}
	if more != nil {
		for k, v := range more.All() {
			if into, exists := attrs.GetOrPutEmpty(k); !exists {
				v.CopyTo(into)
			}
		}
	}
	put(attrs, signal.K8sNamespaceName, id.Namespace)
	put(attrs, signal.K8sPodName, id.Pod)
	put(attrs, signal.K8sPodUID, id.UID)
	put(attrs, signal.K8sContainerName, id.Container)
	sm := rm.ScopeMetrics().AppendEmpty()
	sm.Scope().SetName(scopeName)
	sm.Scope().SetVersion(b.p.version)
	o := &output{metrics: sm.Metrics(), points: map[metricKey]pmetric.NumberDataPointSlice{}}
	pl.outputs[id] = o
	return o
}

// metric makes a metric the last one, beginning it where it is new.
func (o *output) metric(k metricKey, describe func(pmetric.Metric)) {
	dps, ok := o.points[k]
	if !ok {
		m := o.metrics.AppendEmpty()
		m.SetName(k.name)
		m.SetUnit(k.unit)
		describe(m)
		if k.kind == pmetric.MetricTypeSum {
			sum := m.SetEmptySum()
			sum.SetAggregationTemporality(k.temporality)
			sum.SetIsMonotonic(k.monotonic)
			dps = sum.DataPoints()
		} else {
			dps = m.SetEmptyGauge().DataPoints()
		}
		o.points[k] = dps
	}
	o.last, o.lastPoints = k, dps
}

// contract returns the points of a metric of the output contract.
func (o *output) contract(m *signal.Metric) pmetric.NumberDataPointSlice {
	key := metricKey{name: m.Name, unit: m.Unit, kind: pmetric.MetricTypeGauge}
	if m.Kind != signal.Gauge {
		key.kind, key.temporality = pmetric.MetricTypeSum, pmetric.AggregationTemporalityCumulative
		key.monotonic = m.Kind == signal.Counter
	}
	o.metric(key, func(c pmetric.Metric) { c.SetDescription(m.Description) })
	return o.lastPoints
}
