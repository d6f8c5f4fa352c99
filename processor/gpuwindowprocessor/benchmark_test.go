package gpuwindowprocessor

import (
	"fmt"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor/internal/window"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/cpumeter"
)

// benchSample contains the points of one metric in a scrape, in the form in which the processor
// passes points to the engine.
type benchSample struct {
	metric window.Metric
	points []window.Point
}

// benchMetrics contains the metrics of one MIG instance or GPU. Each metric has a list of values
// for its own attribute.
var benchMetrics = []struct {
	metric *signal.Metric
	values []string
}{
	{signal.GPUClockThrottleTime, []string{"power", "thermal", "sync_boost", "board_limit"}},
	{signal.GPUClockEventActive, []string{"sw_power_cap", "hw_slowdown", "sync_boost", "sw_thermal", "hw_thermal", "hw_power_brake"}},
	{signal.HwGPUMemoryUtilization, nil},
	{signal.HwGPUMemoryUsage, nil},
	{signal.HwGPUMemoryLimit, nil},
	{signal.HwGPUUtilization, []string{"general", "encoder", "decoder"}},
	{signal.HwPower, nil},
	{signal.HwEnergy, nil},
	{signal.HwTemperature, []string{"gpu", "memory"}},
	{signal.HwErrors, []string{"xid_31"}},
	{signal.GPUSMActive, nil},
	{signal.GPUSMOccupancy, nil},
	{signal.GPUDRAMActive, nil},
	{signal.GPUPCIeThroughput, []string{"transmit", "receive"}},
	{signal.GPUNVLinkThroughput, []string{"transmit", "receive"}},
}

// benchScrape returns one scrape of a node with the given number of devices.
func benchScrape(node, devices int) (resource pcommon.Map, samples []benchSample, series int) {
	name := fmt.Sprintf("node-%d", node)
	resource = mapOf(textAttr{signal.HostName, name}, textAttr{signal.K8sNodeName, name})
	for _, m := range benchMetrics {
		s := benchSample{metric: window.Metric{
			Name: m.metric.Name, Unit: m.metric.Unit, Description: m.metric.Description, Kind: m.metric.Kind,
		}}
		values := m.values
		if values == nil {
			values = []string{""}
		}
		for d := range devices {
			parent := fmt.Sprintf("GPU-00000000-0000-0000-%04d-%012d", node%10000, d/7)
			for _, v := range values {
				attrs := mapOf(
					textAttr{signal.HardwareID, fmt.Sprintf("%s/gi%d", parent, d%7)}, textAttr{signal.HardwareParent, parent},
					textAttr{signal.HardwareName, fmt.Sprintf("nvidia%d", d/7)}, textAttr{signal.HardwareModel, "NVIDIA H100 80GB HBM3"},
					textAttr{signal.HardwareVendor, signal.VendorNVIDIA}, textAttr{signal.HardwareType, signal.TypeGPU},
					textAttr{signal.MIGProfile, "1g.10gb"},
				)
				attrs.PutInt(signal.MIGInstanceID, int64(d%7))
				if v != "" {
					attrs.PutStr(m.metric.Attributes[0], v)
				}
				var p window.Point
				setAttributes(&p, attrs, nil)
				s.points = append(s.points, p)
				series++
			}
		}
		samples = append(samples, s)
	}
	return resource, samples, series
}

// benchNodes contains the scrapes of many nodes. All scrapes are added to one engine.
type benchNodes struct {
	engine    *window.Engine
	resources []window.PlacedResource
	samples   [][]benchSample
	series    int
	now       time.Time
	rows      []window.Row
	// After the first scrape of a node, handles contains the node's resolved series.
	handles [][]*window.Series
}

func newBenchNodes(nodes, devices int) *benchNodes {
	b := &benchNodes{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	for n := range nodes {
		r, s, series := benchScrape(n, devices)
		b.resources, b.samples = append(b.resources, window.PlacedResource{Key: resourceKeyOf(r), Attrs: appendAttrs(nil, r)}), append(b.samples, s)
		b.series += series
	}
	b.handles = make([][]*window.Series, nodes)
	cfg := createDefaultConfig().(*Config)
	cfg.MaxSeries = max(cfg.MaxSeries, b.series)
	b.engine = window.New(cfg.settings(), b.now)
	return b
}

// The advance method moves the time forward by 15 s to the next scrape, and reports whether a
// window closed in the meantime.
func (b *benchNodes) advance() bool {
	b.now = b.now.Add(15 * time.Second)
	_, pending := b.engine.ClosedUpTo(b.now.Add(-time.Second))
	return pending
}

// The scrape method adds one scrape of every node.
func (b *benchNodes) scrape() {
	for n := range b.resources {
		b.scrapeNode(n, b.now)
	}
}

func (b *benchNodes) scrapeNode(n int, now time.Time) {
	value := float64(now.Unix() % 1000)
	in := b.engine.Begin(now)
	in.SetResource(&b.resources[n])
	in.SetScope(window.Scope{Name: "bench"})
	for i := range b.samples[n] {
		s := &b.samples[n][i]
		in.SetMetric(s.metric)
		for j := range s.points {
			p := &s.points[j]
			p.Time, p.Value = now.UnixNano(), window.Double(value/1000)
			in.Resolve(p)
		}
	}
	in.End()
}

// scrapeHandles adds one scrape of every node by using the series that have already been resolved.
func (b *benchNodes) scrapeHandles() {
	value := float64(b.now.Unix() % 1000)
	for n := range b.handles {
		if b.handles[n] == nil {
			b.resolve(n)
		}
		in := b.engine.Begin(b.now)
		in.SetNode(b.resources[n].Key.Place.Node)
		for _, s := range b.handles[n] {
			in.Add(s, b.now.UnixNano(), 0, window.Double(value/1000))
		}
		in.End()
	}
}

// The resolve method adds the first sample of each series of a node.
func (b *benchNodes) resolve(n int) {
	in := b.engine.Begin(b.now)
	defer in.End()
	in.SetResource(&b.resources[n])
	in.SetScope(window.Scope{Name: "bench"})
	for _, s := range b.samples[n] {
		in.SetMetric(s.metric)
		for _, p := range s.points {
			p.Time, p.Value = b.now.UnixNano()-1, window.Double(0)
			series, _ := in.Resolve(&p)
			b.handles[n] = append(b.handles[n], series)
		}
	}
}

// The emit method reads the closed windows.
func (b *benchNodes) emit() {
	upTo, _ := b.engine.ClosedUpTo(b.now.Add(-time.Second))
	for em := b.engine.Fetch(upTo); em != nil; em = b.engine.Fetch(upTo) {
		for more := true; more; {
			b.rows, more = em.Next(b.rows[:0], 8192)
		}
		em.Close()
	}
}

// The test measures the heap size instead of the time, so that the result does not depend on the
// load of the machine.
func TestASeriesWithItsWindowsUsesAtMost350Bytes(t *testing.T) {
	n := newBenchNodes(32, 56)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range 12 {
		if n.advance() {
			n.emit()
		}
		n.scrape()
	}
	n.rows = nil
	runtime.GC()
	runtime.ReadMemStats(&after)
	require.Equal(t, n.series, n.engine.Stats().Series)
	require.Less(t, float64(after.HeapAlloc-before.HeapAlloc)/float64(n.series), 350.0)
}

func TestASampleOfAKnownSeriesDoesNotAllocate(t *testing.T) {
	n := newBenchNodes(1, 56)
	step := func() {
		if n.advance() {
			n.emit()
		}
		n.scrape()
	}
	for range 12 {
		step()
	}
	// Only a few allocations are allowed for the 6272 samples of a closed window.
	require.Less(t, testing.AllocsPerRun(20, step), 20.0)
}

// frameOfANode returns the frame for one scrape of a node that has 8 GPUs with 7 MIG instances
// each. Every instance has a holder.
func frameOfANode(at time.Time) *gpudata.Frame {
	f := &gpudata.Frame{Place: gpudata.Place{Node: "n1"}, Time: at.UnixNano()}
	for g := range 8 {
		for i := range 7 {
			d := f.Device(fmt.Sprintf("GPU-%d/gi%d", g, i))
			d.Observed, d.HoldersKnown, d.Parent, d.Profile = true, true, fmt.Sprint("GPU-", g), "1g.10gb"
			for _, m := range []*signal.Metric{signal.HwPower, signal.HwEnergy, signal.HwGPUMemoryUtilization, signal.GPUSMActive, signal.GPUDRAMActive} {
				d.Samples.Add(gpudata.Sample{Metric: m, Value: 0.5})
			}
			u := d.User(gpudata.Holder{Namespace: "ns", Pod: fmt.Sprint("pod-", g, i), UID: fmt.Sprint("uid-", g, i), Container: "c"})
			u.Holds, u.Strategy = true, signal.SharingMIG
		}
	}
	f.Share(&gpudata.Attribution{})
	return f
}

// In pdata, each point and each attribute value is a separate object. The limit is 10% above the
// value that was measured when the test was written.
func TestAPointOfAWindowStaysWithinItsAllocationLimit(t *testing.T) {
	n := newBenchNodes(1, 56)
	for range 6 {
		n.advance()
		n.scrape()
	}
	upTo, pending := n.engine.ClosedUpTo(n.now.Add(-time.Second))
	require.True(t, pending)
	em := n.engine.Fetch(upTo)
	rows, _ := em.Next(nil, 1<<20)
	em.Close()
	require.Greater(t, len(rows), 1000)
	w := writer{starts: true}
	assert.Less(t, testing.AllocsPerRun(10, func() { w.write(rows) })/float64(len(rows)), 13.3)
}

// BenchmarkEngineNodeScale measures how long the engine takes to process one scrape of 8 GPUs with
// 7 MIG instances each, including windows.
func BenchmarkEngineNodeScale(b *testing.B) { benchmarkEngine(b, 1, 56) }

// BenchmarkEngineNodeScaleKnown is like BenchmarkEngineNodeScale, but the series have already been
// resolved.
func BenchmarkEngineNodeScaleKnown(b *testing.B) {
	benchmarkEngineBy(b, 1, 56, (*benchNodes).scrapeHandles)
}

// BenchmarkEngineCurve is like BenchmarkEngineNodeScale, but with an increasing number of nodes in
// one engine.
func BenchmarkEngineCurve(b *testing.B) {
	for _, series := range []int{10_000, 100_000, 1_000_000} {
		b.Run(strconv.Itoa(series), func(b *testing.B) {
			_, _, perNode := benchScrape(0, 56)
			benchmarkEngine(b, (series+perNode-1)/perNode, 56)
		})
	}
}

// BenchmarkEngineParallel measures how long the engine takes to process scrapes of different nodes
// on several cores. Run the benchmark with -cpu 1,2.
func BenchmarkEngineParallel(b *testing.B) {
	n := newBenchNodes(2*runtime.GOMAXPROCS(0), 56)
	n.scrape()
	var next atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		node := int(next.Add(1)) - 1
		for at := 1; pb.Next(); at++ {
			n.scrapeNode(node, n.now.Add(time.Duration(at)*time.Millisecond))
		}
	})
}

func benchmarkEngine(b *testing.B, nodes, devices int) {
	b.Helper()
	benchmarkEngineBy(b, nodes, devices, (*benchNodes).scrape)
}

func benchmarkEngineBy(b *testing.B, nodes, devices int, scrape func(*benchNodes)) {
	b.Helper()
	n := newBenchNodes(nodes, devices)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range 12 {
		if n.advance() {
			n.emit()
		}
		scrape(n)
	}
	n.rows = nil
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportAllocs()
	var cpu cpumeter.Meter
	for b.Loop() {
		if n.advance() {
			// In production, a separate goroutine reads the windows.
			b.StopTimer()
			n.emit()
			b.StartTimer()
		}
		cpu.Start(b)
		scrape(n)
		cpu.Stop(b)
	}
	cpu.Report(b, n.series)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(n.series), "B/series")
	runtime.KeepAlive(n)
}

// BenchmarkProcessorNodeScale measures how long the processor takes to process one scrape of 8 GPUs
// with 7 MIG instances each. The scrape is in pdata format.
func BenchmarkProcessorNodeScale(b *testing.B) {
	n := newBenchNodes(1, 56)
	md := pmetric.NewMetrics()
	rm := md.ResourceMetrics().AppendEmpty()
	putAttrs(rm.Resource().Attributes(), window.Attrs(n.resources[0].Attrs))
	metrics := rm.ScopeMetrics().AppendEmpty().Metrics()
	var all []pmetric.NumberDataPointSlice
	for _, s := range n.samples[0] {
		points := (&writer{}).writeMetric(metrics.AppendEmpty(), &s.metric)
		for _, p := range s.points {
			dp := points.AppendEmpty()
			putAttrs(dp.Attributes(), window.Attrs(p.About)+window.Attrs(p.Own))
			dp.SetDoubleValue(0.5)
		}
		all = append(all, points)
	}
	var (
		r   reader
		cpu cpumeter.Meter
	)
	scrape := func() {
		if n.advance() {
			b.StopTimer()
			n.emit()
			b.StartTimer()
		}
		for _, points := range all {
			for _, dp := range points.All() {
				dp.SetTimestamp(pcommon.NewTimestampFromTime(n.now))
			}
		}
		cpu.Start(b)
		in := n.engine.Begin(n.now)
		r.read(in, md, n.now)
		in.End()
		cpu.Stop(b)
	}
	for range 12 {
		scrape()
	}
	cpu = cpumeter.Meter{}
	b.ReportAllocs()
	for b.Loop() {
		scrape()
	}
	cpu.Report(b, n.series)
}

// BenchmarkStore measures how long it takes to store the state of 32 nodes that have 8 GPUs with 7
// MIG instances each.
func BenchmarkStore(b *testing.B) {
	n := newBenchNodes(32, 56)
	for range 12 {
		if n.advance() {
			n.emit()
		}
		n.scrape()
	}
	var cpu cpumeter.Meter
	size := 0
	b.ReportAllocs()
	for b.Loop() {
		cpu.Start(b)
		size = 0
		for _, state := range states(n.engine) {
			size += len(state)
		}
		cpu.Stop(b)
	}
	cpu.Report(b, n.series)
	b.ReportMetric(float64(size)/float64(n.series), "stored-B/series")
}
