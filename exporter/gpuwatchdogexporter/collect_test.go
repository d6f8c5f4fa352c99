package gpuwatchdogexporter

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuwatchdogexporter/internal/decide"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/enumtest"
)

var t0 = time.Date(2026, 6, 2, 8, 0, 0, 0, time.UTC)

func each(md pmetric.Metrics, of *signal.Metric, f func(pcommon.Resource, pmetric.NumberDataPoint)) {
	for _, rm := range md.ResourceMetrics().All() {
		for _, m := range rm.ScopeMetrics().At(0).Metrics().All() {
			if m.Name() == of.Name {
				for _, dp := range m.Gauge().DataPoints().All() {
					f(rm.Resource(), dp)
				}
			}
		}
	}
}

func only(t *testing.T, c *collection, now time.Time) *decide.Sample {
	t.Helper()
	all := c.samples(now)
	require.Len(t, all, 1)
	assert.Equal(t, decide.Device{Node: "gpu-1", ID: "GPU-0"}, all[0].deviceState)
	return all[0].sample
}

func holders(s *decide.Sample) map[string][2]int64 {
	found := map[string][2]int64{}
	for _, h := range s.Holders {
		found[h.Namespace+"/"+h.Pod+"/"+h.Container+" "+h.UID] = [2]int64{h.Usage.Bytes / mib, h.Budget.Bytes / mib}
	}
	return found
}

// The energy counter belongs to the board, but the counter also applies to the board's MIG
// instances.
func TestSampleAgeFollowsTheEnergyCounter(t *testing.T) {
	c := newCollection(90 * time.Second)
	energy := func(at time.Time, joules float64, node, pod string) {
		md := pmetric.NewMetrics()
		rm := md.ResourceMetrics().AppendEmpty()
		rm.Resource().Attributes().PutStr(signal.K8sNodeName, node)
		if pod != "" {
			rm.Resource().Attributes().PutStr(signal.K8sPodName, pod)
		}
		m := rm.ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
		m.SetName(signal.HwEnergy.Name)
		dp := m.SetEmptySum().DataPoints().AppendEmpty()
		dp.SetTimestamp(pcommon.NewTimestampFromTime(at))
		dp.SetDoubleValue(joules)
		dp.Attributes().PutStr(signal.HardwareID, "GPU-0")
		c.add(md, at)
	}
	moved := func(at time.Time) time.Time {
		c.add(pressed.metrics(at), at)
		return only(t, c, at).Moved
	}
	at := func(seconds int) time.Time { return t0.Add(time.Duration(seconds) * time.Second) }

	assert.Zero(t, moved(at(0)), "without a counter")
	energy(at(10), 5, "gpu-1", "")
	assert.Equal(t, at(10), moved(at(10)))
	energy(at(20), 5, "gpu-1", "")
	energy(at(20), 6, "gpu-2", "")
	energy(at(20), 7, "gpu-1", "a")
	assert.Equal(t, at(10), moved(at(20)), "counters of other nodes and counters repeated for a holder are ignored")
	energy(at(30), 4, "gpu-1", "")
	assert.Equal(t, at(30), moved(at(30)), "a reset counts as a change")
	energy(at(25), 9, "gpu-1", "")
	assert.Equal(t, at(30), moved(at(40)), "late")
	assert.Zero(t, moved(at(121)), "the counter is no longer reported")
	assert.Equal(t, boardOf(decide.Device{Node: "n", ID: "GPU-0/gi7"}), boardOf(decide.Device{Node: "n", ID: "GPU-0"}))
}

func TestTheSeriesOfABatchAreOneSample(t *testing.T) {
	c := newCollection(90 * time.Second)
	counts := c.add(pressed.metrics(t0), t0)
	assert.Equal(t, [outcomes]int64{accepted: 10, ignored: 2}, counts)
	s := only(t, c, t0)
	want := decide.Sample{
		At: t0, Headroom: 900 * mib, Usage: (15360 - 256 - 900) * mib, Limit: 15360 * mib, Attribution: decide.Valid,
		Holders: s.Holders, Spare: map[string]int64{}, Annotated: map[string]int64{},
	}
	assert.Equal(t, want, *s)
	assert.Equal(t, map[string][2]int64{"ai/a/main uid-a": {9000, 3000}, "ai/b/main uid-b": {4000, 4500}}, holders(s))
}

func TestADeviceIsWatchedWhenItHasBudgetMetrics(t *testing.T) {
	c := newCollection(90 * time.Second)
	md := pressed.metrics(t0)
	md.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().RemoveIf(func(m pmetric.Metric) bool {
		return m.Name() == signal.GPUMemoryHeadroom.Name || m.Name() == signal.GPUMemoryAttributionState.Name
	})
	c.add(md, t0)
	assert.Empty(t, c.samples(t0))
	assert.Zero(t, c.count())
	c.add(pressed.metrics(t0), t0)
	assert.NotNil(t, only(t, c, t0))
	assert.EqualValues(t, 1, c.count())
}

func TestOnlyCompleteFramesAreUsed(t *testing.T) {
	c := newCollection(90 * time.Second)
	part := func(at time.Time, of *signal.Metric) {
		md := pressed.metrics(at)
		md.ResourceMetrics().RemoveIf(func(rm pmetric.ResourceMetrics) bool {
			rm.ScopeMetrics().At(0).Metrics().RemoveIf(func(m pmetric.Metric) bool { return m.Name() != of.Name })
			return false
		})
		c.add(md, at)
	}
	part(t0, signal.GPUMemoryHeadroom)
	part(t0, signal.HwGPUMemoryUsage)
	part(t0, signal.HwGPUMemoryLimit)
	assert.Nil(t, only(t, c, t0), "without an attribution state")
	part(t0, signal.GPUMemoryAttributionState)
	assert.Equal(t, t0, only(t, c, t0).At)

	later := t0.Add(10 * time.Second)
	part(later, signal.GPUMemoryHeadroom)
	assert.Equal(t, t0, only(t, c, later).At, "the previous frame, until this one is complete")
	part(later, signal.HwGPUMemoryLimit)
	part(later, signal.GPUMemoryAttributionState)
	part(later, signal.HwGPUMemoryUsage)
	assert.Equal(t, later, only(t, c, later).At)
}

func TestOutcomeOfAPoint(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(pcommon.Resource, pmetric.NumberDataPoint)
		want   outcome
	}{
		"with all required attributes": {func(pcommon.Resource, pmetric.NumberDataPoint) {}, accepted},
		"without a device":             {func(_ pcommon.Resource, dp pmetric.NumberDataPoint) { dp.Attributes().Clear() }, ignored},
		"without a node":               {func(r pcommon.Resource, _ pmetric.NumberDataPoint) { r.Attributes().Clear() }, ignored},
		"the end of a series": {func(_ pcommon.Resource, dp pmetric.NumberDataPoint) {
			dp.SetFlags(dp.Flags().WithNoRecordedValue(true))
		}, noValue},
		"sampled long ago": {func(_ pcommon.Resource, dp pmetric.NumberDataPoint) { dp.SetTimestamp(0) }, old},
		"sampled before the last sample": {func(_ pcommon.Resource, dp pmetric.NumberDataPoint) {
			dp.SetTimestamp(pcommon.NewTimestampFromTime(t0.Add(-time.Minute)))
		}, old},
		"sampled after now": {func(_ pcommon.Resource, dp pmetric.NumberDataPoint) {
			dp.SetTimestamp(pcommon.NewTimestampFromTime(t0.Add(time.Minute)))
		}, future},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCollection(90 * time.Second)
			c.add(pressed.metrics(t0), t0)
			md := pressed.metrics(t0.Add(time.Second))
			md.ResourceMetrics().RemoveIf(func(rm pmetric.ResourceMetrics) bool {
				rm.ScopeMetrics().At(0).Metrics().RemoveIf(func(m pmetric.Metric) bool { return m.Name() != signal.GPUMemoryHeadroom.Name })
				return rm.ScopeMetrics().At(0).Metrics().Len() == 0
			})
			each(md, signal.GPUMemoryHeadroom, tc.change)
			counts := c.add(md, t0.Add(time.Second))
			var want [outcomes]int64
			want[tc.want] = 1
			assert.Equal(t, want, counts)
		})
	}
}

func TestPointsOfUnusedMetricsCountOnceAsIgnored(t *testing.T) {
	md := pressed.metrics(t0)
	ms := md.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics()
	histogram := ms.AppendEmpty()
	histogram.SetName(signal.GPUMemoryHeadroom.Name)
	points := histogram.SetEmptyHistogram().DataPoints()
	for range 3 {
		points.AppendEmpty()
	}
	other := ms.AppendEmpty()
	other.SetName(signal.HwPower.Name)
	other.SetEmptyGauge().DataPoints().AppendEmpty()
	ms.AppendEmpty().SetName("of no type")
	counts := newCollection(90*time.Second).add(md, t0)
	assert.Equal(t, [outcomes]int64{accepted: 10, ignored: 2 + 4}, counts)
}

func TestAttributesMayBeMissing(t *testing.T) {
	c := newCollection(90 * time.Second)
	md := pressed.metrics(t0)
	bare := func(_ pcommon.Resource, dp pmetric.NumberDataPoint) {
		dp.Attributes().RemoveIf(func(key string, _ pcommon.Value) bool { return key != signal.HardwareID })
	}
	each(md, signal.GPUMemoryAttributionState, bare)
	each(md, signal.K8sContainerGPUMemoryBudget, bare)
	c.add(md, t0)
	assert.Equal(t, decide.Invalid, only(t, c, t0).Attribution, "a state without a name prevents evictions")
}

func TestInvalidByteValuesAreImpossible(t *testing.T) {
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e30, -1e30, -1} {
		c := newCollection(90 * time.Second)
		md := pressed.metrics(t0)
		each(md, signal.GPUMemoryHeadroom, func(_ pcommon.Resource, dp pmetric.NumberDataPoint) { dp.SetDoubleValue(v) })
		c.add(md, t0)
		assert.EqualValues(t, -1, only(t, c, t0).Headroom, v)
	}
}

func TestDifferentValuesForOneTimeAreAConflict(t *testing.T) {
	other := pressed
	other.free = 5000
	c := newCollection(90 * time.Second)
	c.add(pressed.metrics(t0), t0)
	c.add(pressed.metrics(t0), t0)
	assert.False(t, only(t, c, t0).Conflict, "the same value again is not a conflict")
	c.add(other.metrics(t0), t0)
	assert.True(t, only(t, c, t0).Conflict)
	assert.EqualValues(t, 900*mib, only(t, c, t0).Headroom)

	c = newCollection(90 * time.Second)
	c.add(pressed.metrics(t0), t0)
	other = pressed
	other.used = map[string]int64{"a": 5}
	c.add(other.metrics(t0), t0)
	for _, h := range only(t, c, t0).Holders {
		assert.Equal(t, h.Pod == "a", h.Usage.Bytes == contradicted)
	}
}

func TestEndedSeriesIsDeleted(t *testing.T) {
	c := newCollection(90 * time.Second)
	c.add(pressed.metrics(t0), t0)
	end := func(of *signal.Metric, pod string) {
		md := pressed.metrics(t0.Add(time.Second))
		md.ResourceMetrics().RemoveIf(func(rm pmetric.ResourceMetrics) bool {
			if pdatagpu.Text(rm.Resource().Attributes(), signal.K8sPodName) != pod {
				return true
			}
			rm.ScopeMetrics().At(0).Metrics().RemoveIf(func(m pmetric.Metric) bool { return m.Name() != of.Name })
			return false
		})
		each(md, of, func(_ pcommon.Resource, dp pmetric.NumberDataPoint) {
			dp.SetFlags(dp.Flags().WithNoRecordedValue(true))
		})
		c.add(md, t0.Add(time.Second))
	}
	end(signal.K8sContainerGPUMemoryUsage, "a")
	end(signal.K8sContainerGPUMemoryBudget, "b")
	assert.Equal(t, map[string][2]int64{"ai/a/main uid-a": {0, 3000}, "ai/b/main uid-b": {4000, 0}}, holders(only(t, c, t0)))
	end(signal.GPUMemoryHeadroom, "")
	assert.Empty(t, c.samples(t0))
}

func TestContainersAndDevicesWithoutDataAreDeleted(t *testing.T) {
	c := newCollection(90 * time.Second)
	c.add(pressed.metrics(t0), t0)
	later := t0.Add(2 * time.Minute)
	c.add(card{free: 5000}.metrics(later), later)
	assert.Empty(t, only(t, c, later).Holders)
	assert.Len(t, c.samples(later.Add(450*time.Second)), 1)
	assert.Empty(t, c.samples(later.Add(451*time.Second)))
}

func TestSpareOfAPodBudgetOnSeveralDevices(t *testing.T) {
	// A budget from any of the following sources can apply to all of a pod's devices together.
	for _, source := range []string{"extended_resource", "annotation", "exporter"} {
		c := newCollection(90 * time.Second)
		put := func(device string, used int64) {
			md := card{free: 900, used: map[string]int64{"a": used, "b": 4000}, budget: map[string]int64{"a": 3000, "b": 4500}}.metrics(t0)
			for _, of := range signal.All() {
				each(md, of, func(_ pcommon.Resource, dp pmetric.NumberDataPoint) {
					dp.Attributes().PutStr(signal.HardwareID, device)
				})
			}
			each(md, signal.K8sContainerGPUMemoryBudget, func(r pcommon.Resource, dp pmetric.NumberDataPoint) {
				if pdatagpu.Text(r.Attributes(), signal.K8sPodName) == "a" {
					dp.Attributes().PutStr(signal.BudgetSource, source)
				}
			})
			c.add(md, t0)
		}
		put("GPU-0", 5000)
		put("GPU-1", 1000)
		put("GPU-2", 2500)
		all := c.samples(t0)
		require.Len(t, all, 3)
		for i, want := range []int64{2500, 500, 2000} {
			assert.Equal(t, map[string]int64{"uid-a": want * mib}, all[i].sample.Spare, "%s on %s", source, all[i].deviceState.ID)
		}
	}
}

// Two pods share the budget of a claim. The pods are over their budget only if their combined usage
// exceeds the claim's budget.
func TestSpareOfAClaimBudgetOfSeveralPods(t *testing.T) {
	c := newCollection(90 * time.Second)
	md := card{free: 900, used: map[string]int64{"a": 5000, "b": 1000, "c": 500}, budget: map[string]int64{"a": 3000, "b": 3000, "c": 3000}}.metrics(t0)
	each(md, signal.K8sContainerGPUMemoryBudget, func(r pcommon.Resource, dp pmetric.NumberDataPoint) {
		claim := "one"
		if pdatagpu.Text(r.Attributes(), signal.K8sPodName) == "c" {
			claim = "another"
		}
		dp.Attributes().PutStr(signal.BudgetSource, "dra")
		dp.Attributes().PutStr(signal.ResourceClaimName, claim)
	})
	c.add(md, t0)
	assert.Equal(t, map[string]int64{"uid-a": 2000 * mib, "uid-b": 0, "uid-c": 0}, only(t, c, t0).Spare)
}

// The last memory usage of a pod that has ended must not be part of the next sample, because that
// usage would contradict the device's free memory.
func TestEndedPodIsNotInTheNextSample(t *testing.T) {
	c := newCollection(90 * time.Second)
	c.add(pressed.metrics(t0), t0)
	later := t0.Add(10 * time.Second)
	c.add(card{free: 9900, used: map[string]int64{"b": 4000}}.metrics(later), later)
	in := decide.Input{Device: decide.Device{Node: "gpu-1", ID: "GPU-0"}, Sample: only(t, c, later)}
	_, d := decide.Evaluate(decide.State{}, in, newConfig().policy(), later)
	assert.Equal(t, decide.AboveFloor, d.Reason)
}

func TestLimitsRejectNewItemsAndKeepStoredOnes(t *testing.T) {
	c := newCollection(90 * time.Second)
	for i := range maxDevices {
		c.devices[decide.Device{Node: "other", ID: strconv.Itoa(i)}] = &deviceState{}
	}
	assert.EqualValues(t, 10, c.add(pressed.metrics(t0), t0)[refused])

	c = newCollection(90 * time.Second)
	c.add(pressed.metrics(t0), t0)
	d := c.devices[decide.Device{Node: "gpu-1", ID: "GPU-0"}]
	for i := len(d.holders); i < maxHolders; i++ {
		d.holders[gpudata.Holder{UID: strconv.Itoa(i)}] = &holderState{}
	}
	more := pressed
	more.used = map[string]int64{"a": 1, "new": 1}
	assert.EqualValues(t, 1, c.add(more.metrics(t0.Add(time.Second)), t0.Add(time.Second))[refused])
}

func BenchmarkCollect(b *testing.B) {
	md := pressed.metrics(t0)
	c := newCollection(90 * time.Second)
	b.ReportAllocs()
	for b.Loop() {
		c.add(md, t0)
		c.samples(t0)
	}
}

func TestEveryOutcomeIsDocumented(t *testing.T) {
	assert.ElementsMatch(t, enumtest.Documented(t, "outcome"), enumtest.Names(0, outcomes))
}
