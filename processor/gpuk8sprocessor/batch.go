package gpuk8sprocessor

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/attribution"
)

// falseZeroMemory and falseZeroUtilization are how busy a device must be for
// zeros of all its containers to be false: an exporter that cannot look up
// processes reports them idle. A driver and its contexts take some hundred MiB
// that belong to no process.
const (
	falseZeroMemory      = 512 << 20 // bytes
	falseZeroUtilization = 0.05
)

// dropReason tells why container usage was dropped.
type dropReason uint8

const (
	dropFalseZero dropReason = iota
	dropAboveDevice
	numDropReasons
)

// String returns the reason as the self-metric spells it.
func (r dropReason) String() string {
	return [...]string{"false_zero", "above_device_memory"}[r]
}

// usageMetric returns the metric of that name if it is what processes of a
// container use, else nil. Such points come on the container's Resource.
func usageMetric(name string) *signal.Metric {
	for _, m := range [...]*signal.Metric{signal.K8sContainerGPUMemoryUsage, signal.K8sContainerGPUUtilization} {
		if m.Name == name {
			return m
		}
	}
	return nil
}

// repeated returns the names of the device series that containers get a copy of.
func repeated(cfg *Config) map[string]bool {
	names := map[string]bool{}
	for _, m := range signal.All() {
		if emits(m) && !ofAccelerator(m) && m != signal.GPUSharingClients && m != signal.GPUDeviceHolder && usageMetric(m.Name) == nil {
			names[m.Name] = cfg.enabled(m)
		}
	}
	return names
}

// batch is one batch on its way through the processor.
type batch struct {
	p       *gpuK8s
	places  map[placeKey]*place
	devices []*device
	// order holds the device of each point that may be repeated, as write comes
	// upon them; nil for one without a device.
	order     []*device
	processes []processPoint
	lists     map[moment]*attribution.ProcessList
	dropped   [numDropReasons]int64
	unknown   int64 // points of processes in unknown pods
}

// placeKey is where devices are, without the workload.
type placeKey struct {
	host, node, cluster string
}

type place struct {
	key     placeKey
	own     bool        // the node whose kubelet is asked
	attrs   pcommon.Map // of the first Resource without a pod
	known   bool        // attrs was set
	devices map[deviceKey]*device
	outputs map[attribution.Identity]*output
}

type deviceKey struct {
	id   string
	time pcommon.Timestamp
}

// device is a device at one time.
type device struct {
	place  *place
	id     string
	parent string
	time   pcommon.Timestamp
	// attrs describe the device; the metric's own attributes are left out.
	attrs    pcommon.Map
	claimed  bool // the device series name a claim
	series   bool // attrs are those of a device series
	observed bool // by a point with a value

	entry    *attribution.Entry
	labels   []attribution.Holder
	shared   bool // labels show a replica
	usage    []usage
	used     float64 // bytes
	limit    float64 // bytes
	busy     float64
	hasUsed  bool
	hasLimit bool
	hasBusy  bool
	decision attribution.Decision
	sharing  []share
}

// share is a holder whose Resource gets the device's series.
type share struct {
	holder   *attribution.Holder
	strategy string
	board    bool // the device is the board of what the holder has
	out      *output
	attrs    []pair // what the points get
}

// usage is a point of container usage.
type usage struct {
	metric   *signal.Metric
	resource pcommon.Map
	holder   attribution.Holder
	gone     bool // the holder's pod holds nothing any more
	point    pmetric.NumberDataPoint
}

func (u *usage) ended() bool { return u.point.Flags().NoRecordedValue() }

func (u *usage) value() float64 { return points.Value(u.point) }

func newBatch(p *gpuK8s) *batch {
	return &batch{p: p, places: map[placeKey]*place{}, lists: map[moment]*attribution.ProcessList{}}
}

func text(m pcommon.Map, key string) string {
	if v, ok := m.Get(key); ok {
		return v.Str()
	}
	return ""
}

// read collects the devices of the batch and takes out what names holders.
func (b *batch) read(md pmetric.Metrics) {
	md.ResourceMetrics().RemoveIf(func(rm pmetric.ResourceMetrics) bool {
		resource := rm.Resource().Attributes()
		pl := b.place(resource)
		if text(resource, signal.K8sPodName) == "" {
			b.readDevices(pl, resource, rm)
			return b.readProcesses(pl, resource, rm)
		}
		taken := false
		rm.ScopeMetrics().RemoveIf(func(sm pmetric.ScopeMetrics) bool {
			sm.Metrics().RemoveIf(func(m pmetric.Metric) bool {
				if m.Name() != signal.GPUDeviceHolder.Name && usageMetric(m.Name()) == nil {
					return false
				}
				dps := points.Of(m)
				before := dps.Len()
				dps.RemoveIf(func(dp pmetric.NumberDataPoint) bool { return b.take(pl, resource, m, dp) })
				taken = taken || dps.Len() < before
				return before > 0 && dps.Len() == 0
			})
			return taken && sm.Metrics().Len() == 0
		})
		return taken && rm.ScopeMetrics().Len() == 0
	})
}

func (b *batch) place(resource pcommon.Map) *place {
	k := placeKey{text(resource, signal.HostName), text(resource, signal.K8sNodeName), text(resource, signal.K8sClusterName)}
	pl := b.places[k]
	if pl == nil {
		pl = &place{
			key: k, own: k.node != "" && k.node == b.p.cfg.NodeName,
			devices: map[deviceKey]*device{}, outputs: map[attribution.Identity]*output{},
		}
		b.places[k] = pl
	}
	return pl
}

// device returns the device that a point is of, nil when it is of none.
func (b *batch) device(pl *place, dp pmetric.NumberDataPoint, series bool) *device {
	id := text(dp.Attributes(), signal.HardwareID)
	if id == "" {
		return nil
	}
	k := deviceKey{id, dp.Timestamp()}
	d := pl.devices[k]
	if d == nil {
		d = &device{place: pl, id: id, time: k.time}
		pl.devices[k] = d
		b.devices = append(b.devices, d)
		d.describe(dp.Attributes(), series)
	} else if series && !d.series {
		d.describe(dp.Attributes(), true)
	}
	return d
}

// describe takes over what a point's attributes say of the device. Those of a
// holder's point speak of the holder's allocation, so device series go before.
func (d *device) describe(attrs pcommon.Map, series bool) {
	d.attrs, d.series = pcommon.NewMap(), series
	for key, v := range attrs.All() {
		if describes[key] && (series || !strings.HasPrefix(key, "dra.")) {
			v.CopyTo(d.attrs.PutEmpty(key))
		}
	}
	d.parent = text(d.attrs, signal.HardwareParent)
	_, d.claimed = attrs.Get(signal.ResourceClaimName)
}

// describes holds the attributes that a device has whatever the metric is.
var describes = func() map[string]bool {
	keys := map[string]bool{signal.HardwareID: true}
	for _, key := range []string{
		signal.HardwareParent, signal.HardwareName, signal.HardwareModel, signal.HardwareVendor, signal.HardwareType,
		signal.HardwareSerialNumber, signal.HardwareDriverVersion,
		signal.MIGProfile, signal.MIGInstanceID, signal.MIGUUID, signal.DRADriver, signal.DRAPool, signal.DRADevice,
	} {
		keys[key] = true
	}
	return keys
}()

// readDevices collects the devices of a Resource without a pod.
func (b *batch) readDevices(pl *place, resource pcommon.Map, rm pmetric.ResourceMetrics) {
	for _, sm := range rm.ScopeMetrics().All() {
		for _, m := range sm.Metrics().All() {
			if _, ok := b.p.series[m.Name()]; !ok {
				continue
			}
			for _, dp := range points.Of(m).All() {
				d := b.device(pl, dp, true)
				b.order = append(b.order, d)
				if d == nil {
					continue
				}
				if !pl.known {
					pl.attrs, pl.known = resource, true
				}
				if dp.Flags().NoRecordedValue() {
					continue
				}
				d.observed = true
				switch m.Name() {
				case signal.HwGPUMemoryUsage.Name:
					d.used, d.hasUsed = points.Value(dp), true
				case signal.HwGPUMemoryLimit.Name:
					d.limit, d.hasLimit = points.Value(dp), true
				case signal.HwGPUUtilization.Name:
					if text(dp.Attributes(), signal.GPUTask) == signal.TaskGeneral {
						d.busy, d.hasBusy = points.Value(dp), true
					}
				}
			}
		}
	}
}

// take takes over a point that names a holder, or that is a holder's usage.
// Points without a device stay where they are, and so does the end of a series
// of holders.
func (b *batch) take(pl *place, resource pcommon.Map, m pmetric.Metric, dp pmetric.NumberDataPoint) bool {
	of := usageMetric(m.Name())
	if of == nil && dp.Flags().NoRecordedValue() {
		return false
	}
	d := b.device(pl, dp, false)
	if d == nil {
		return false
	}
	attrs := dp.Attributes()
	h := attribution.NewHolder(
		attribution.Identity{
			Namespace: text(resource, signal.K8sNamespaceName), Pod: text(resource, signal.K8sPodName),
			UID: text(resource, signal.K8sPodUID), Container: text(resource, signal.K8sContainerName),
		},
		attribution.Allocation{
			Claim: text(attrs, signal.ResourceClaimName),
			DRADevice: attribution.DRADevice{
				Driver: text(attrs, signal.DRADriver), Pool: text(attrs, signal.DRAPool), Device: text(attrs, signal.DRADevice),
			},
		})
	gone := false
	if pl.own {
		h.UID, gone = b.p.tracker.Pod(h.Namespace, h.Pod, h.UID, int64(d.time))
	}
	if of != nil {
		// Copies: what is taken out of a batch may be used again.
		u := usage{metric: of, resource: pcommon.NewMap(), holder: h, gone: gone, point: pmetric.NewNumberDataPoint()}
		resource.CopyTo(u.resource)
		dp.CopyTo(u.point)
		d.usage = append(d.usage, u)
		return true
	}
	d.observed = true
	if !gone && h.Pod != "" {
		d.labels = append(d.labels, h)
		d.shared = d.shared || text(attrs, signal.SharingStrategy) == signal.SharingTimeSlicing
	}
	return true
}

// decide finds the holders of each device of the batch.
func (b *batch) decide() {
	var own []attribution.Device
	for _, d := range b.devices {
		if d.place.own && d.series {
			own = append(own, attribution.Device{
				ID: d.id, Parent: d.parent, Name: text(d.attrs, signal.HardwareName),
				Profile: text(d.attrs, signal.MIGProfile), MIGUUID: text(d.attrs, signal.MIGUUID),
				DRA: attribution.DRADevice{
					Driver: text(d.attrs, signal.DRADriver), Pool: text(d.attrs, signal.DRAPool), Device: text(d.attrs, signal.DRADevice),
				},
			})
		}
	}
	if len(own) > 0 {
		b.p.tracker.See(time.Now(), own)
	}
	// A container that holds two instances gets the board once, by the first.
	slices.SortFunc(b.devices, func(x, y *device) int {
		return cmp.Or(cmp.Compare(x.id, y.id), cmp.Compare(x.time, y.time))
	})
	for k, l := range b.lists {
		b.p.processes.Remember(time.Now(), k.node, l)
	}
	for _, d := range b.devices {
		if d.place.own {
			d.entry = b.p.tracker.Lookup(d.id, int64(d.time))
		}
		b.checkUsage(d)
		d.decision = attribution.Decide(d.entry, int64(d.time), d.labels, b.users(d), d.shared)
		for i := range d.decision.Holders {
			d.sharing = append(d.sharing, share{holder: &d.decision.Holders[i], strategy: d.decision.Strategy})
		}
	}
	for _, d := range b.devices {
		if d.parent == "" {
			continue
		}
		board := d.place.devices[deviceKey{d.parent, d.time}]
		if board == nil {
			continue
		}
		for i := range d.decision.Holders {
			if h := &d.decision.Holders[i]; !board.heldBy(h) {
				board.sharing = append(board.sharing, share{holder: h, strategy: signal.SharingMIG, board: true})
			}
		}
	}
}

func (d *device) heldBy(h *attribution.Holder) bool {
	return slices.ContainsFunc(d.sharing, func(s share) bool { return s.holder.SameContainer(h) })
}

// checkUsage drops usage that cannot be true, and makes one point of several
// that are one container's.
func (b *batch) checkUsage(d *device) {
	if len(d.usage) == 0 {
		return
	}
	slices.SortStableFunc(d.usage, func(x, y usage) int {
		return cmp.Or(strings.Compare(x.metric.Name, y.metric.Name), attribution.CompareHolders(x.holder, y.holder),
			cmp.Compare(y.value(), x.value()))
	})
	highest := map[*signal.Metric]float64{}
	for i := range d.usage {
		u := &d.usage[i]
		if !u.ended() {
			highest[u.metric] = max(highest[u.metric], u.value())
		}
	}
	memory, hasMemory := highest[signal.K8sContainerGPUMemoryUsage]
	_, hasBusy := highest[signal.K8sContainerGPUUtilization]
	all := true // every value is zero
	for _, v := range highest {
		all = all && v == 0
	}
	// Memory goes before utilization: an idle process still has memory.
	falseZero := all && (hasMemory && memory == 0 && d.hasUsed && d.used > falseZeroMemory ||
		!hasMemory && hasBusy && d.hasBusy && d.busy > falseZeroUtilization)
	kept := d.usage[:0]
	for _, u := range d.usage {
		switch {
		case !u.ended() && falseZero:
			b.dropped[dropFalseZero]++
		case !u.ended() && u.metric == signal.K8sContainerGPUMemoryUsage && d.hasLimit && u.value() > d.limit:
			b.dropped[dropAboveDevice]++
		case len(kept) > 0 && kept[len(kept)-1].metric == u.metric && kept[len(kept)-1].holder.SameContainer(&u.holder):
			// sorted: the one kept is the higher one
		default:
			kept = append(kept, u)
		}
	}
	d.usage = kept
}
