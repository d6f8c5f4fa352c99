package pdatagpu

import (
	"math"
	"strconv"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Scope is the instrumentation scope of what a component adds.
type Scope struct{ Name, Version string }

// Add writes what was added to the frames since they were read into the batch's metrics,
// but for metrics that are disabled. Points go to the Resource that the batch has for their
// place and holder, and to a new one where it has none.
func (b *Batch) Add(s Scope, disabled map[*signal.Metric]bool) {
	w := writer{batch: b, scope: s, disabled: disabled, metrics: map[metricKey]pmetric.NumberDataPointSlice{}, scopes: map[pmetric.ResourceMetrics]pmetric.MetricSlice{}}
	for _, f := range b.Frames {
		w.frame(f)
	}
}

// writer adds points to a batch.
type writer struct {
	batch    *Batch
	scope    Scope
	disabled map[*signal.Metric]bool
	scopes   map[pmetric.ResourceMetrics]pmetric.MetricSlice
	metrics  map[metricKey]pmetric.NumberDataPointSlice
}

type metricKey struct {
	resource pmetric.ResourceMetrics
	metric   *signal.Metric
}

func (w *writer) frame(f *gpudata.Frame) {
	for _, d := range f.Devices {
		var described pcommon.Map
		describe := func(dp pmetric.NumberDataPoint, s *gpudata.Sample) pcommon.Map {
			if described == (pcommon.Map{}) {
				described = pcommon.NewMap()
				putDevice(described, d)
			}
			attrs := dp.Attributes()
			attrs.EnsureCapacity(described.Len() + len(s.More) + 2) // its own, and the strategy or the PID
			described.CopyTo(attrs)
			putSample(attrs, s)
			return attrs
		}
		for i, added := 0, d.Samples.Added(); i < len(added); i++ {
			if dp, ok := w.point(f, gpudata.Holder{}, &added[i]); ok {
				putAllocation(describe(dp, &added[i]), &d.Allocation)
			}
		}
		for _, u := range d.Users {
			for i, added := 0, u.Samples.Added(); i < len(added); i++ {
				if dp, ok := w.point(f, u.Holder, &added[i]); ok {
					putUser(describe(dp, &added[i]), u)
				}
			}
		}
		for _, p := range d.Processes {
			for i, added := 0, p.Samples.Added(); i < len(added); i++ {
				if dp, ok := w.point(f, p.Holder, &added[i]); ok {
					putProcess(describe(dp, &added[i]), p)
				}
			}
		}
	}
}

// point begins a point of a holder, or of the place for nobody. It returns false for a
// metric that is disabled.
func (w *writer) point(f *gpudata.Frame, h gpudata.Holder, s *gpudata.Sample) (pmetric.NumberDataPoint, bool) {
	if w.disabled[s.Metric] {
		return pmetric.NumberDataPoint{}, false
	}
	rm := w.resource(f.Place, h)
	key := metricKey{rm, s.Metric}
	dps, ok := w.metrics[key]
	if !ok {
		dps = points.Begin(w.scopeOf(rm).AppendEmpty(), s.Metric)
		w.metrics[key] = dps
	}
	dp := dps.AppendEmpty()
	dp.SetTimestamp(pcommon.Timestamp(f.Time))
	dp.SetStartTimestamp(pcommon.Timestamp(s.Start))
	switch {
	case s.Ended:
		dp.SetFlags(pmetric.DefaultDataPointFlags.WithNoRecordedValue(true))
	case s.Metric.Int:
		dp.SetIntValue(int64(math.Round(s.Value)))
	default:
		dp.SetDoubleValue(s.Value)
	}
	return dp, true
}

// scopeOf returns the metrics of our scope in a Resource.
func (w *writer) scopeOf(rm pmetric.ResourceMetrics) pmetric.MetricSlice {
	ms, ok := w.scopes[rm]
	if !ok {
		sm := rm.ScopeMetrics().AppendEmpty()
		sm.Scope().SetName(w.scope.Name)
		sm.Scope().SetVersion(w.scope.Version)
		ms = sm.Metrics()
		w.scopes[rm] = ms
	}
	return ms
}

// resource returns the Resource of a holder, or of the place for nobody.
func (w *writer) resource(p gpudata.Place, h gpudata.Holder) pmetric.ResourceMetrics {
	key := resourceKey{p, h}
	rm, ok := w.batch.resources[key]
	if ok {
		return rm
	}
	rm = w.batch.Metrics.ResourceMetrics().AppendEmpty()
	attrs := rm.Resource().Attributes()
	if of, known := w.batch.resources[resourceKey{place: p}]; known && !h.IsZero() {
		of.Resource().Attributes().CopyTo(attrs)
	} else {
		of := w.batch.places[p].Resource().Attributes()
		for _, key := range []string{signal.HostName, signal.K8sNodeName, signal.K8sClusterName} {
			put(attrs, key, text(of, key))
		}
	}
	putHolder(attrs, &h)
	w.batch.resources[key] = rm
	return rm
}

func putHolder(attrs pcommon.Map, h *gpudata.Holder) {
	put(attrs, signal.K8sNamespaceName, h.Namespace)
	put(attrs, signal.K8sPodName, h.Pod)
	put(attrs, signal.K8sPodUID, h.UID)
	put(attrs, signal.K8sContainerName, h.Container)
	put(attrs, signal.ContainerName, h.Name)
	put(attrs, signal.ContainerID, h.ID)
	put(attrs, signal.HPCJobID, h.Job)
}

// putDevice writes the identity and description of a device, without an allocation.
func putDevice(attrs pcommon.Map, d *gpudata.DeviceFrame) {
	attrs.PutStr(signal.HardwareID, d.Device.ID())
	put(attrs, signal.HardwareParent, d.Parent)
	put(attrs, signal.HardwareName, d.Name)
	put(attrs, signal.HardwareModel, d.Model)
	put(attrs, signal.HardwareVendor, d.Vendor)
	if d.Vendor != "" {
		attrs.PutStr(signal.HardwareType, signal.TypeGPU)
	}
	put(attrs, signal.HardwareSerialNumber, d.Serial)
	put(attrs, signal.HardwareDriverVersion, d.Driver)
	put(attrs, signal.MIGProfile, d.Profile)
	put(attrs, signal.MIGInstanceID, d.Instance)
	put(attrs, signal.MIGUUID, d.MIGUUID)
}

// putUser writes how a user has the device.
func putUser(attrs pcommon.Map, u *gpudata.User) {
	put(attrs, signal.SharingStrategy, u.Strategy)
	putAllocation(attrs, &u.Allocation)
}

func putAllocation(attrs pcommon.Map, a *gpudata.Allocation) {
	put(attrs, signal.ResourceClaimName, a.Claim)
	put(attrs, signal.ResourceClaimUID, a.ClaimUID)
	put(attrs, signal.DeviceClassName, a.Class)
	put(attrs, signal.DRADriver, a.Driver)
	put(attrs, signal.DRAPool, a.Pool)
	put(attrs, signal.DRADevice, a.Device)
	put(attrs, signal.DRARequest, a.Request)
	put(attrs, signal.DRAShareID, a.ShareID)
}

func putProcess(attrs pcommon.Map, p *gpudata.Process) {
	if pid, err := strconv.ParseInt(p.PID, 10, 64); err == nil {
		attrs.PutInt(signal.ProcessPID, pid)
	} else {
		attrs.PutStr(signal.ProcessPID, p.PID)
	}
	put(attrs, signal.ContainerID, p.ContainerID)
}

// putSample writes the sample's own attributes.
func putSample(attrs pcommon.Map, s *gpudata.Sample) {
	if s.Own != "" {
		put(attrs, s.Metric.Attributes[0], s.Own)
	}
	for i := range s.More {
		if a := &s.More[i]; a.True {
			attrs.PutBool(a.Key, true)
		} else {
			put(attrs, a.Key, a.Text)
		}
	}
}

// put sets an attribute that is known.
func put(attrs pcommon.Map, key, value string) {
	if value != "" {
		attrs.PutStr(key, value)
	}
}
