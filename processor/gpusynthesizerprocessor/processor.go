package gpusynthesizerprocessor

import (
	"cmp"
	"context"
	"encoding/binary"
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/exporters"
	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/diagnose"
	"github.com/otelcol-gpu/otelcol-gpu/internal/exposition"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/misplaced"
	"github.com/otelcol-gpu/otelcol-gpu/internal/pipelinerules"
	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor/internal/synth"
)

// gpuSynthesizer is the gpu_synthesizer processor. The processor connects the synth package to
// pdata.
type gpuSynthesizer struct {
	cfg       *Config
	telemetry *metadata.TelemetryBuilder
	reasons   [synth.NumDropReasons]metric.AddOption

	core  *synth.Synthesizer
	rows  cache[labelKey, *synth.Row]
	sets  cache[*exposition.LabelSet, *setRow]
	seeds [2]maphash.Seed // of row keys
	scope gpudata.Scope
	known atomic.Int64 // number of devices that was last reported

	id     component.ID
	logger *zap.Logger
	state  *componenthelper.State // nil if storage is not configured

	ahead    componenthelper.Trouble
	setBack  componenthelper.Trouble
	conflict componenthelper.Trouble // Two sources expose the same device.
	foreign  componenthelper.Trouble // Rows describe GPUs of another vendor.
	unnamed  componenthelper.Trouble // Rows do not name a GPU.
	deltas   componenthelper.Trouble // Counters have delta temporality.
	devices  componenthelper.Limit
}

func newProcessor(cfg *Config, set processor.Settings) (*gpuSynthesizer, error) {
	tb, err := metadata.NewTelemetryBuilder(set.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	p := &gpuSynthesizer{
		id:        set.ID,
		logger:    set.Logger,
		cfg:       cfg,
		telemetry: tb,
		core: synth.New(synth.Options{
			ViolationMicroseconds: cfg.ViolationUnit == unitMicroseconds,
			MaxDevices:            cfg.MaxDevices,
			Cluster:               cfg.ClusterName,
			Disabled:              cfg.disabled(),
		}),
		rows:    newCache[labelKey, *synth.Row](2*cfg.MaxDevices + 1024),
		sets:    newCache[*exposition.LabelSet, *setRow](2*cfg.MaxDevices + 1024),
		seeds:   [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		scope:   gpudata.NewScope(metadata.ScopeName, set.BuildInfo.Version),
		devices: componenthelper.Limit{Component: set.ID.String(), Setting: "max_devices", Value: cfg.MaxDevices, What: "devices"},
	}
	for r := range p.reasons {
		p.reasons[r] = componenthelper.With("reason", synth.DropReason(r).String())
	}
	return p, nil
}

func (p *gpuSynthesizer) shutdown(ctx context.Context) error {
	defer p.telemetry.Shutdown()
	p.devices.Forget()
	return p.state.Close(ctx)
}

// The process method replaces the exporters' metrics in a batch with samples, and drops the
// exporters' unknown metrics. If raw metrics are kept, process adds the samples and removes
// nothing. Metrics from other sources pass unchanged.
func (p *gpuSynthesizer) process(ctx context.Context, a *pdatagpu.Arrival) ([]*gpudata.Frame, error) {
	now := time.Now()
	md := a.Own()
	p.rows.age(now)
	p.sets.age(now)
	r := &reader{gpuSynthesizer: p, batch: p.core.Begin(now)}
	defer r.batch.End()
	keep := p.cfg.Raw == rawKeep
	md.ResourceMetrics().RemoveIf(func(rm pmetric.ResourceMetrics) bool {
		in := input{resource: rm.Resource()}
		rm.ScopeMetrics().RemoveIf(func(sm pmetric.ScopeMetrics) bool {
			ready := sm.Scope().Name() == signal.ScopeNVML
			sm.Metrics().RemoveIf(func(m pmetric.Metric) bool {
				spelling, of := exporters.Lookup(m.Name())
				in.delta = points.IsDelta(m)
				switch {
				case ready:
					return r.readReady(&in, m)
				case of != nil && of.Claims != nil:
					return r.readClaimed(&in, of, spelling, m) && !keep
				case spelling.Field != nil:
					r.read(&in, of, spelling, m)
				case of != nil:
					r.unknown += int64(points.Of(m).Len())
				case m.Name() == signal.GPUExporterUp.Name:
					r.readUp(m)
					return false
				default:
					return false
				}
				return !keep
			})
			if sm.Metrics().Len() > 0 && sm.Scope().Name() == receiverScope {
				p.placeOfExporter(rm.Resource().Attributes())
			}
			return sm.Metrics().Len() == 0
		})
		in.end(r.batch)
		return rm.ScopeMetrics().Len() == 0
	})

	if a.Rows != nil {
		r.take(a.Rows, md)
	}
	frames := r.batch.Flush()
	for _, f := range frames {
		f.Scope = p.scope
	}
	p.save(ctx, r.batch.TakeChanged())
	r.report(ctx, now)
	return frames, nil
}

// reader reads one batch. A reader is used by only one goroutine.
type reader struct {
	*gpuSynthesizer
	batch   *synth.Batch
	unknown int64  // Points whose metric name has an exporter's prefix but is not in the catalog.
	buf     []byte // Reused buffer.
}

// receiverScope is the name of the instrumentation scope of the dcgm receiver's metrics.
const receiverScope = "github.com/otelcol-gpu/otelcol-gpu/receiver/dcgmreceiver"

// placeOfExporter adds the node and the cluster of the exporter's devices to the Resource of the
// exporter's self-metrics, because the dcgm receiver sets only host.name.
func (p *gpuSynthesizer) placeOfExporter(resource pcommon.Map) {
	host := text(resource, signal.HostName)
	if host == "" {
		return
	}
	if _, known := resource.Get(signal.K8sNodeName); !known {
		resource.PutStr(signal.K8sNodeName, cmp.Or(p.cfg.NodeName, host))
	}
	if p.cfg.ClusterName != "" {
		resource.PutStr(signal.K8sClusterName, p.cfg.ClusterName)
	}
}

// input is the state of the Resource that is currently being read from a batch.
type input struct {
	resource pcommon.Resource
	hashed   bool
	hash     rowKey
	// The row of the points without attributes, and the exporter for which the row was parsed.
	row     *synth.Row
	of      *catalogue.Exporter
	source  *synth.Source // valid if sourced is true
	sourced bool
	// The number of points that have a value (values), and the number of stale markers (ends).
	values, ends int
	delta        bool // whether the current metric has delta temporality
}

// sourceOf returns the source of the Resource's rows, or nil if the Resource does not name a
// source.
func (in *input) sourceOf(batch *synth.Batch) *synth.Source {
	if !in.sourced {
		in.source, in.sourced = batch.Source(targetOf(in.resource.Attributes()), false), true
	}
	return in.source
}

// The end method marks the source as ended if all of its points are stale markers.
func (in *input) end(batch *synth.Batch) {
	if in.ends == 0 || in.values > 0 {
		return
	}
	if source := in.sourceOf(batch); source != nil {
		batch.Ended(source)
	}
}

// The read method passes the points of a known field to the synth package.
func (r *reader) read(in *input, of *catalogue.Exporter, spelling catalogue.Spelling, m pmetric.Metric) {
	dps := points.Of(m)
	for i := range dps.Len() {
		r.readPoint(in, of, spelling, dps.At(i))
	}
}

func (r *reader) readPoint(in *input, of *catalogue.Exporter, spelling catalogue.Spelling, dp pmetric.NumberDataPoint) {
	// Check the flag before the value, because the value of a point with the NoRecordedValue flag
	// is 0.
	if dp.Flags().NoRecordedValue() {
		in.ends++
		r.batch.Drop(synth.DropNoValue)
		return
	}
	var v float64
	switch dp.ValueType() {
	case pmetric.NumberDataPointValueTypeDouble:
		v = dp.DoubleValue()
	case pmetric.NumberDataPointValueTypeInt:
		v = float64(dp.IntValue())
	default:
		r.batch.Drop(synth.DropNoValue)
		return
	}
	in.values++
	if in.delta {
		r.batch.Drop(synth.DropDelta)
		return
	}
	r.batch.Add(r.row(in, of, dp.Attributes()), in.sourceOf(r.batch), spelling, int64(dp.Timestamp()), v)
}

// If the labels of a point show that the point belongs to the exporter, readClaimed passes the
// point to the synth package. Unless raw metrics are kept, readClaimed removes these points from
// the metric. The result reports whether all points of the metric belong to the exporter.
func (r *reader) readClaimed(in *input, of *catalogue.Exporter, spelling catalogue.Spelling, m pmetric.Metric) bool {
	dps := points.Of(m)
	if dps.Len() == 0 {
		return false // no exporter exposes metrics of this type
	}
	left := 0
	dps.RemoveIf(func(dp pmetric.NumberDataPoint) bool {
		switch {
		case r.row(in, of, dp.Attributes()).Foreign(spelling):
			left++
			return false
		case spelling.Field == nil:
			r.unknown++
		default:
			r.readPoint(in, of, spelling, dp)
		}
		return r.cfg.Raw != rawKeep
	})
	return left == 0
}

// row returns the parsed labels of a point. The labels may be attributes of the point, of the
// Resource, or of both.
func (r *reader) row(in *input, of *catalogue.Exporter, attrs pcommon.Map) *synth.Row {
	if attrs.Len() == 0 && in.row != nil && in.of == of {
		return in.row
	}
	if !in.hashed {
		in.hash = r.hash(in.resource.Attributes(), rowKey{})
		in.hashed = true
	}
	key := labelKey{in.hash, of}
	if attrs.Len() > 0 {
		key.labels = r.hash(attrs, in.hash)
	}
	row, ok := r.rows.get(key)
	if !ok {
		// The labels outlive the batch. The labels are cloned because the strings in the batch may
		// be parts of a larger text.
		row = r.newRow(of, in.resource.Attributes(), attrs, strings.Clone)
		r.rows.put(key, row)
	}
	if attrs.Len() == 0 {
		in.row, in.of = row, of
	}
	return row
}

// newRow parses the labels of a point and its Resource. The kept function copies each label value
// that newRow stores. Labels of the point take precedence over labels of the Resource.
func (p *gpuSynthesizer) newRow(of *catalogue.Exporter, resource, attrs pcommon.Map, kept func(string) string) *synth.Row {
	labels := catalogue.NewRow(of)
	var clues diagnose.Clues
	diagnosing := p.cfg.enabled(signal.GPUSignalAvailable)
	for _, m := range []pcommon.Map{attrs, resource} {
		for k, v := range m.All() {
			value := kept(v.AsString())
			labels.Set(k, value)
			if diagnosing {
				clues.Label(k, value)
			}
		}
	}
	says := func(key string) string { return kept(pdatagpu.Text(resource, key)) }
	hostName := cmp.Or(labels.Get(catalogue.RoleHost), says(signal.HostName))
	place := synth.Place{Host: hostName, Node: cmp.Or(says(signal.K8sNodeName), p.cfg.NodeName, hostName)}
	target := catalogue.Holder{Namespace: says(signal.K8sNamespaceName), Pod: says(signal.K8sPodName)}
	row := p.core.Row(labels, place, target)
	row.Clues = clues
	return row
}

// text returns a copy of the value of an attribute, or "" if the attribute does not exist.
func text(m pcommon.Map, key string) string {
	v, ok := m.Get(key)
	if !ok {
		return ""
	}
	return strings.Clone(v.AsString())
}

// The report method updates the self-metrics with the counts of the batch, and logs warnings about
// problems.
func (r *reader) report(ctx context.Context, now time.Time) {
	stats := r.batch.TakeStats()
	r.devices.Refused(r.logger, now, stats.Dropped[synth.DropDeviceLimit])
	if stats.Split {
		misplaced.Warn(r.logger, "the fields of one device and time are in several batches, so samples are computed from only a part of them. Usually, "+
			pipelinerules.Find("gpu_synthesizer", "batch").Reversed())
	}
	if stats.Dropped[synth.DropDelta] > 0 && r.deltas.ShouldLog(now) {
		misplaced.Warn(r.logger, "the counters of an exporter arrive with delta temporality and are dropped. Usually, "+
			pipelinerules.Find("gpu_synthesizer", "cumulative_to_delta").Reversed())
	}
	for reason, n := range stats.Dropped {
		if n > 0 {
			r.telemetry.ProcessorGpuSynthesizerPointsDropped.Add(ctx, n, r.reasons[reason])
		}
	}
	if stats.Dropped[synth.DropOtherVendor] > 0 && r.foreign.ShouldLog(now) {
		r.logger.Warn("DCGM metrics have GPUs that are not NVIDIA's. Their rows are dropped. " +
			"A UUID must start with GPU- or MIG-, or modelName must be an NVIDIA model.")
	}
	if stats.Dropped[synth.DropNoDevice] > 0 && r.unnamed.ShouldLog(now) {
		r.logger.Warn("Metrics of a GPU exporter do not have the label UUID or its equivalent. Their GPU is unknown, and they are dropped. " +
			"Do not change the exporter's labels: no relabeling may remove or rename UUID before gpu_synthesizer.")
	}
	if stats.Dropped[synth.DropFuture] > 0 && r.ahead.ShouldLog(now) {
		r.logger.Warn("Samples are more than a minute ahead of this collector's clock. They are dropped. Compare the clocks of the nodes with this one.")
	}
	if stats.ClocksSetBack > 0 && r.setBack.ShouldLog(now) {
		r.logger.Warn("All samples of a node stayed older than its newest one for 90 s: a clock was set back. Error counting continues with these samples.")
	}
	if stats.Clamped > 0 {
		r.telemetry.ProcessorGpuSynthesizerPointsClamped.Add(ctx, stats.Clamped)
	}
	if r.unknown > 0 {
		r.telemetry.ProcessorGpuSynthesizerPointsUnknown.Add(ctx, r.unknown)
	}
	if c := r.batch.TakeConflict(); c != nil && r.conflict.ShouldLog(now) {
		r.logger.Warn("A GPU has two sources. One is kept while it is present; the other's rows of the GPU are dropped and counted, "+
			"for this GPU and all other GPUs with two sources. Expose each GPU once, and set processes_only if nvml runs in addition to an exporter.",
			zap.String(signal.HardwareID, c.Device), zap.String(signal.K8sNodeName, c.Node),
			zap.String("kept", c.Kept), zap.String("dropped", c.Dropped))
	}
	if n := int64(r.core.Devices()); r.known.Swap(n) != n {
		r.telemetry.ProcessorGpuSynthesizerDevices.Record(ctx, n)
	}
}

// rowKey is a 128-bit hash of labels. The hash seeds are random, so that an attacker cannot
// construct two label sets with the same key.
type rowKey [2]uint64

// labelKey identifies a label set that was parsed with the table of one exporter.
type labelKey struct {
	labels rowKey
	of     *catalogue.Exporter
}

// cache stores parsed labels, because the same labels occur in every scrape. A cache is safe for
// concurrent use.
type cache[K comparable, V any] struct {
	mu     *sync.Mutex
	recent *componenthelper.Recent[K, V]
}

func newCache[K comparable, V any](limit int) cache[K, V] {
	return cache[K, V]{&sync.Mutex{}, componenthelper.NewRecent[K, V](limit)}
}

func (c cache[K, V]) age(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recent.Age(now)
}

func (c cache[K, V]) get(k K) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.recent.Get(k)
}

func (c cache[K, V]) put(k K, v V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recent.Put(k, v)
}

// hash returns a key for the labels. The hash also covers another key, which is passed in the chain
// parameter.
func (r *reader) hash(m pcommon.Map, chain rowKey) rowKey {
	b := binary.LittleEndian.AppendUint64(r.buf[:0], chain[0])
	b = binary.LittleEndian.AppendUint64(b, chain[1])
	for k, v := range m.All() {
		s := v.AsString()
		// The lengths mark the boundaries between the strings, so that different labels never have
		// the same encoding.
		b = binary.LittleEndian.AppendUint32(b, uint32(len(k)))
		b = binary.LittleEndian.AppendUint32(b, uint32(len(s)))
		b = append(b, k...)
		b = append(b, s...)
	}
	r.buf = b
	return rowKey{maphash.Bytes(r.seeds[0], b), maphash.Bytes(r.seeds[1], b)}
}
