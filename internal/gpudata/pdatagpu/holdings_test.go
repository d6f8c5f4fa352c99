package pdatagpu

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"pgregory.net/rapid"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/internal/stage"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/pointtest"
)

func everything(*signal.Metric) bool { return true }

var node = gpudata.Place{Node: "n1"}

// testBatch builds a batch that has one Resource for each place and holder.
type testBatch struct {
	pmetric.Metrics
	writer *Writer
}

func newTestBatch() testBatch {
	md := pmetric.NewMetrics()
	w := &Writer{Scope: gpudata.NewScope("input", "")}
	w.begin(md, map[resourceKey]pmetric.ResourceMetrics{})
	return testBatch{md, w}
}

// add adds a data point with the value 1, the device's attributes, and the given attributes.
func (b testBatch) add(p gpudata.Place, h gpudata.Holder, time int64, m *signal.Metric, id string, attrs map[string]any) pmetric.NumberDataPoint {
	dp := b.writer.points(b.writer.output(&gpudata.Frame{Place: p, Time: time}, who{Holder: h}, b.writer.Scope), m).AppendEmpty()
	dp.SetTimestamp(pcommon.Timestamp(time))
	dp.SetDoubleValue(1)
	dp.Attributes().PutStr(signal.HardwareID, id)
	board, instance, partitioned := strings.Cut(id, "/gi")
	if partitioned {
		dp.Attributes().PutStr(signal.HardwareParent, board)
		dp.Attributes().PutStr(signal.MIGInstanceID, instance)
	}
	for k, v := range attrs {
		_ = dp.Attributes().PutEmpty(k).FromRaw(v)
	}
	return dp
}

func (b testBatch) lines() []string { return lines(b.Metrics) }

// The lines function returns a sorted list of everything that distinguishes the data points of a
// batch.
func lines(md pmetric.Metrics) (all []string) {
	for p := range points.All(md) {
		all = append(all, fmt.Sprint(p.Timestamp(), " ", pointtest.Text(p.Resource.Attributes()), " ", p.Metric.Name(), " ", p.Metric.Type(), " ",
			pointtest.Text(p.Attributes()), " ", points.Value(p.NumberDataPoint), " ", p.ValueType(), " ", p.Flags()))
	}
	slices.Sort(all)
	return all
}

func hold(d *gpudata.DeviceFrame, h gpudata.Holder, strategy string, a gpudata.Allocation) {
	u := d.User(h)
	u.Holds, u.Source, u.Strategy, u.Allocation = true, signal.HolderSourcePodResources, strategy, a
	d.HoldersKnown = true
}

// The share function sets the attribution of the frames in a batch and writes the batch.
func share(b *Batch) {
	scope := gpudata.NewScope("k8s", "")
	for _, f := range b.Frames {
		f.Share(&gpudata.Attribution{Scope: scope})
	}
	b.Settle(scope, nil)
	b.Sort()
	b.write(&Arrival{Metrics: b.Metrics})
}

// For any holders, reading and writing a batch twice has the same result as reading and writing it
// once.
func TestHoldingsSurviveASecondReadAndWrite(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		holders := rapid.SampledFrom([]gpudata.Holder{
			{Namespace: "ns", Pod: "a", UID: "uid-a", Container: "c"},
			{Namespace: "ns", Pod: "a", Container: "c"},
			{Namespace: "ns", Pod: "b", UID: "uid-b", Container: "c"},
			{Namespace: "ns", Pod: "b", UID: "uid-b"},
			{Job: "7"},
		})
		allocations := rapid.SampledFrom([]gpudata.Allocation{{}, {Claim: "x", ClaimUID: "uid-x", Driver: "gpu.nvidia.com", Pool: "n1", Device: "gpu-0", ShareID: "1"}})
		strategies := rapid.SampledFrom([]string{signal.SharingNone, signal.SharingTimeSlicing})
		batch := newTestBatch()
		drawn := map[string]bool{}
		for range rapid.IntRange(1, 25).Draw(rt, "points") {
			place := gpudata.Place{Cluster: rapid.SampledFrom([]string{"", "c"}).Draw(rt, "cluster"), Node: "n1"}
			id := rapid.SampledFrom([]string{"GPU-1", "GPU-1/gi7", "GPU-1/gi8", "GPU-2"}).Draw(rt, "id")
			time := rapid.Int64Range(1, 2).Draw(rt, "time")
			attrs := map[string]any{"rack": rapid.SampledFrom([]any{"r1", int64(7), 0.5, false}).Draw(rt, "rack")}
			var h gpudata.Holder
			m := rapid.SampledFrom([]*signal.Metric{
				signal.HwPower, signal.HwGPUMemoryUsage, signal.HwGPUUtilization, signal.K8sContainerGPUMemoryUsage, signal.K8sContainerGPUPower,
				signal.GPUDeviceHolder, signal.ProcessGPUMemoryUsage, signal.GPUProcessCount,
			}).Draw(rt, "metric")
			switch roles[m] {
			case ofUser, ofHolding:
				h = holders.Draw(rt, "holder")
			case ofProcess:
				h = rapid.SampledFrom([]gpudata.Holder{{}, {UID: "uid-a"}}).Draw(rt, "process")
				attrs[signal.ProcessPID] = map[bool]int64{true: 1, false: 2}[h.IsZero()]
			}
			if m == signal.HwGPUUtilization {
				attrs[signal.GPUTask] = signal.TaskGeneral
			}
			if key := fmt.Sprint(place, h, time, m.Name, id); !drawn[key] {
				drawn[key] = true
				dp := batch.add(place, h, time, m, id, attrs)
				if rapid.IntRange(0, 5).Draw(rt, "ended") == 0 {
					dp.SetFlags(pmetric.DefaultDataPointFlags.WithNoRecordedValue(true))
				}
			}
		}
		first := Read(batch.Metrics, everything)
		for _, f := range first.Frames {
			for _, d := range f.Devices {
				incoming := d.TakeUsers()
				d.HoldersKnown = false
				for _, u := range incoming {
					if u.Holder.Pod == "" {
						u.Holds = u.Holds && d.Observed // no component attributes an unobserved device to a user
						d.HoldersKnown = d.HoldersKnown || u.Holds
						d.AddUser(u)
						continue
					}
					kept := d.User(u.Holder)
					kept.Strategy, kept.Samples = signal.SharingUnknown, u.Samples
				}
				if d.Observed && rapid.Bool().Draw(rt, "known") {
					d.HoldersKnown = true
					for range rapid.IntRange(0, 2).Draw(rt, "holders") {
						h := holders.Draw(rt, "holds")
						// A container must not hold a device both with and without the pod's UID.
						twice := slices.ContainsFunc(d.Users, func(u *gpudata.User) bool { return u.Holds && u.Holder != h && u.Holder.Same(h) })
						if h.Pod != "" && !twice {
							hold(d, h, strategies.Draw(rt, "strategy"), allocations.Draw(rt, "allocation"))
						}
					}
				}
				for _, p := range d.Processes {
					if p.Holder.UID != "" {
						p.Holder = gpudata.Holder{Namespace: "ns", Pod: "a", UID: "uid-a", Container: "c"}
					}
				}
			}
		}
		share(first)
		want := batch.lines()

		share(Read(batch.Metrics, everything))
		if got := batch.lines(); !slices.Equal(want, got) {
			rt.Fatalf("first:\n%s\nthen:\n%s", strings.Join(want, "\n"), strings.Join(got, "\n"))
		}
	})
}

// attributesOf returns the attributes of a metric's only data point for a pod.
func attributesOf(t *testing.T, md pmetric.Metrics, m *signal.Metric, pod string) map[string]any {
	t.Helper()
	var found []map[string]any
	for p := range points.All(md) {
		if p.Metric.Name() == m.Name && Text(p.Resource.Attributes(), signal.K8sPodName) == pod {
			found = append(found, p.Attributes().AsRaw())
		}
	}
	require.Len(t, found, 1)
	return found[0]
}

func TestAttributesThatAUserAddedReachTheContainer(t *testing.T) {
	pod := gpudata.Holder{Namespace: "ns", Pod: "a", Container: "c"}
	batch := newTestBatch()
	batch.add(node, gpudata.Holder{}, 1, signal.HwPower, "GPU-1", map[string]any{"rack": int64(7)})
	batch.add(node, pod, 1, signal.K8sContainerGPUMemoryUsage, "GPU-1", map[string]any{"team": true})
	b := Read(batch.Metrics, everything)
	hold(b.Frames[0].Find("GPU-1"), pod, signal.SharingNone, gpudata.Allocation{})
	share(b)
	assert.Equal(t, map[string]any{"hw.id": "GPU-1", "gpu.sharing.strategy": "none", "rack": int64(7)}, attributesOf(t, batch.Metrics, signal.HwPower, "a"))
	assert.Equal(t, map[string]any{"hw.id": "GPU-1", "gpu.sharing.strategy": "none", "team": true}, attributesOf(t, batch.Metrics, signal.K8sContainerGPUMemoryUsage, "a"))
}

// Another component may name a pod without its UID and add other attributes.
func TestAContainerKeepsTheAttributesOfItsOtherResources(t *testing.T) {
	batch := newTestBatch()
	batch.add(node, gpudata.Holder{}, 1, signal.HwPower, "GPU-1", nil)
	less := gpudata.Holder{Namespace: "ns", Pod: "a", Container: "c"}
	batch.add(node, less, 1, signal.K8sContainerGPUMemoryUsage, "GPU-1", nil)
	batch.writer.resource(&gpudata.Frame{}, resourceKey{place: node, holder: less}, gpudata.Owner{}).Resource().Attributes().PutStr("k8s.workload.name", "train")
	batch.writer.resource(&gpudata.Frame{}, resourceKey{place: node}, gpudata.Owner{}).Resource().Attributes().PutStr(signal.HostName, "h1")
	b := Read(batch.Metrics, everything)
	full := less
	full.UID = "uid-a"
	d := b.Frames[0].Find("GPU-1")
	d.Users[0].Holder = full
	hold(d, full, signal.SharingNone, gpudata.Allocation{})
	share(b)
	var pods []map[string]any
	for _, rm := range batch.ResourceMetrics().All() {
		if Text(rm.Resource().Attributes(), signal.K8sPodName) != "" {
			pods = append(pods, rm.Resource().Attributes().AsRaw())
		}
	}
	assert.Equal(t, []map[string]any{{
		"host.name": "h1", "k8s.node.name": "n1", "k8s.workload.name": "train",
		"k8s.namespace.name": "ns", "k8s.pod.name": "a", "k8s.pod.uid": "uid-a", "k8s.container.name": "c",
	}}, pods)
}

func TestPointsThatAreNotReplacedRemain(t *testing.T) {
	pod := gpudata.Holder{Namespace: "ns", Pod: "a", Container: "c"}
	batch := newTestBatch()
	batch.add(node, gpudata.Holder{}, 1, signal.HwPower, "GPU-1", nil)
	batch.add(node, pod, 1, signal.HwPower, "GPU-1", nil)
	batch.add(node, gpudata.Holder{}, 1, signal.GPUSharingClients, "GPU-1", nil)
	batch.add(node, pod, 1, signal.K8sContainerGPUUtilization, "GPU-1", nil).SetDoubleValue(math.NaN())
	batch.add(node, pod, 0, signal.K8sContainerGPUMemoryUsage, "GPU-1", nil)
	batch.add(node, pod, 1, signal.K8sContainerGPUPower, "GPU-1", nil)
	want := batch.lines()
	b := Read(batch.Metrics, func(m *signal.Metric) bool { return m != signal.K8sContainerGPUPower })
	b.Frames[0].Find("GPU-1").HoldersKnown = false
	share(b)
	assert.Equal(t, want, batch.lines())
	assert.Equal(t, [stage.Drops]int64{stage.OutOfRange: 1, stage.NoTime: 1}, b.Counts(everything).Dropped)
}

func TestOnlySeriesOfDevicesUsersAndProcessesHaveEnds(t *testing.T) {
	batch := newTestBatch()
	for _, m := range []*signal.Metric{signal.HwPower, signal.GPUProcessCount} {
		batch.add(node, gpudata.Holder{}, 1, m, "GPU-1", nil).SetFlags(pmetric.DefaultDataPointFlags.WithNoRecordedValue(true))
	}
	b := Read(batch.Metrics, everything)
	d := b.Frames[0].Find("GPU-1")
	assert.Equal(t, []gpudata.Sample{{Metric: signal.HwPower, Ended: true}}, d.Samples.All())
	assert.False(t, d.Observed)
	assert.Equal(t, stage.ReadCounts{Dropped: [stage.Drops]int64{stage.NoValue: 1}}, b.Counts(everything))
}

// An increment is not the value of a counter. In a pipeline, the cumulative_to_delta processor may
// run before the component.
func TestASumWithDeltaTemporalityIsRepeatedButNotRead(t *testing.T) {
	pod := gpudata.Holder{Namespace: "ns", Pod: "a", Container: "c"}
	batch := newTestBatch()
	batch.add(node, gpudata.Holder{}, 1, signal.HwEnergy, "GPU-1", nil)
	batch.add(node, gpudata.Holder{}, 1, signal.HwPower, "GPU-1", nil)
	for p := range points.All(batch.Metrics) {
		if p.Metric.Name() == signal.HwEnergy.Name {
			p.Metric.Sum().SetAggregationTemporality(pmetric.AggregationTemporalityDelta)
		}
	}
	b := Read(batch.Metrics, everything)
	d := b.Frames[0].Find("GPU-1")
	assert.Equal(t, []gpudata.Sample{{Metric: signal.HwPower, Value: 1}}, d.Samples.All())
	hold(d, pod, signal.SharingNone, gpudata.Allocation{})
	share(b)
	for _, of := range []string{"", "a"} {
		attributesOf(t, batch.Metrics, signal.HwEnergy, of)
	}
	for p := range points.All(batch.Metrics) {
		if p.Metric.Name() == signal.HwEnergy.Name {
			assert.Equal(t, pmetric.AggregationTemporalityDelta, p.Metric.Sum().AggregationTemporality())
		}
	}
}

func TestANamespaceAloneIsNotAHolder(t *testing.T) {
	attrs := pcommon.NewMap()
	attrs.PutStr(signal.K8sNamespaceName, "ns")
	assert.True(t, HolderOf(attrs).IsZero())
}
