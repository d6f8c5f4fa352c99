package allocation

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuviewexporter/internal/store"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

var epoch = time.Unix(1_800_000_000, 0)

type point struct {
	node, container, id string
	metric              *signal.Metric
	value               float64
}

func filled(t *testing.T, points ...point) *store.Store {
	t.Helper()
	s := store.New(store.Settings{Retention: 2 * time.Hour, MaxDevices: 10, MaxHolders: 10})
	b := s.Begin(epoch)
	for _, p := range points {
		m, ok := store.Lookup(p.metric.Name)
		require.True(t, ok)
		place := store.Place{Node: p.node}
		if p.container != "" {
			place.Namespace, place.Pod, place.PodUID, place.Container = "ml", "train", "uid", p.container
		}
		b.Add(&place, p.id, &store.Description{Vendor: "NVIDIA", Model: "Tesla T4"}, &store.Hold{},
			&store.Point{Metric: m, Start: epoch.Add(-time.Minute).UnixNano(), End: epoch.UnixNano(), Value: p.value})
	}
	b.End()
	return s
}

func TestNumbersAreRoundedToFloat32Precision(t *testing.T) {
	for in, want := range map[float64]string{
		0: "0", float64(float32(0.3)): "0.3", 1: "1", float64(float32(1.2e9)): "1200000000", float64(float32(2.1e11)): "210000000000",
		1.0 / 3: "0.3333333", 1e-30: "0", 16777215: "16777220", 3: "3",
	} {
		got, err := json.Marshal(round(in))
		require.NoError(t, err)
		assert.Equal(t, want, string(got))
	}
}

func TestWindowAcceptsDays(t *testing.T) {
	const week = 7 * 24 * time.Hour
	for text, want := range map[string]time.Duration{"1d": 24 * time.Hour, "7d": week, "24h": 24 * time.Hour, "90m": 90 * time.Minute} {
		got, bad := ParseQuery("window="+text, week)
		require.Nil(t, bad, text)
		assert.Equal(t, want, got.Span, text)
	}
	for _, text := range []string{"8d", "0d", "d", "1.5d", "-1d", "99999999999999999999d", "65535d"} {
		_, bad := ParseQuery("window="+text, week)
		require.NotNil(t, bad, text)
		assert.Contains(t, bad.Allowed, "from 1s to 7d, the retention", text)
	}
	_, bad := ParseQuery("window=2h", 90*time.Minute)
	require.NotNil(t, bad)
	assert.Contains(t, bad.Allowed, "from 1s to 1h30m, the retention")
}

func TestParseQuery(t *testing.T) {
	for _, tt := range []struct {
		query string
		want  Query
		bad   string
	}{
		{"", Query{10 * time.Minute, "container"}, ""},
		{"window=1h&aggregate=node&accumulate=true", Query{time.Hour, "node"}, ""},
		{"window=2h", Query{2 * time.Hour, "container"}, ""},
		{"window=7d", Query{}, `window must be a duration in s, m, h or d such as 10m, from 1s to 2h, the retention, got "7d"`},
		{"window=3h", Query{}, `window must be a duration in s, m, h or d such as 10m, from 1s to 2h, the retention, got "3h"`},
		{"window=", Query{}, `window must be a duration in s, m, h or d such as 10m, from 1s to 2h, the retention, got ""`},
		{"window=-10m", Query{}, `window must be a duration in s, m, h or d such as 10m, from 1s to 2h, the retention, got "-10m"`},
		{"aggregate=cost", Query{}, `aggregate must be one of container, pod, workload, namespace, claim, node, device, or label:<key>, got "cost"`},
		{"aggregate=label:team", Query{10 * time.Minute, "label:team"}, ""},
		{"aggregate=label:", Query{}, `aggregate must be one of container, pod, workload, namespace, claim, node, device, or label:<key>, got "label:"`},
		{"window=1m&window=2m", Query{}, `window must be given once, got "1m, 2m"`},
		{"aggregate=node;window=1h", Query{}, `query must be name=value pairs with & between them, got "aggregate=node;window=1h"`},
		{"aggregate=%zz", Query{}, `query must be name=value pairs with & between them, got "aggregate=%zz"`},
		{"filter=x", Query{}, `filter must be absent: the parameters are window, aggregate and accumulate, got "x"`},
	} {
		t.Run(tt.query, func(t *testing.T) {
			got, bad := ParseQuery(tt.query, 2*time.Hour)
			if tt.bad != "" {
				require.NotNil(t, bad)
				assert.Equal(t, tt.bad, bad.Message)
				return
			}
			require.Nil(t, bad)
			assert.Equal(t, tt.want, got)
		})
	}
}

func TestErrorsDoNotRepeatLongInput(t *testing.T) {
	long := strings.Repeat("%00", 1<<18)
	for _, raw := range []string{"window=" + long, "aggregate=" + long, long + "=1", "a=" + long + "&a=1", "%zz" + long} {
		_, bad := ParseQuery(raw, time.Hour)
		require.NotNil(t, bad)
		text, err := json.Marshal(bad)
		require.NoError(t, err)
		assert.Less(t, len(text), 4096)
	}
}

func TestSpanEndsNowIfTheWindowsAreOlder(t *testing.T) {
	s := filled(t, point{"node-1", "", "GPU-a", signal.UtilizationAvg, 0.5})
	for after, want := range map[time.Duration]int{0: 1, 10*time.Minute - 1: 1, 10 * time.Minute: 0} {
		got := Compute(s, epoch.Add(after), 10*time.Minute, "device")
		assert.Len(t, got.Data[0], want, after)
	}
}

// The clock of one node is fast. The node is included only if its clock is fast by at most one
// minute.
func TestFastClockOfANodeHidesNoOtherNode(t *testing.T) {
	for fast, want := range map[time.Duration][]string{
		0: {"node-1", "node-2"}, 55 * time.Second: {"node-1", "node-2"}, 4 * time.Minute: {"node-1"},
	} {
		s := store.New(store.Settings{Retention: 2 * time.Hour, MaxDevices: 10, MaxHolders: 10})
		utilization, _ := store.Lookup(signal.UtilizationAvg.Name)
		allocated, _ := store.Lookup(signal.K8sContainerGPUAllocatedTime.Name)
		s.Begin(epoch.Add(-time.Hour)).End()
		for minute := range time.Duration(5) {
			now := epoch.Add(minute * time.Minute)
			b := s.Begin(now)
			for name, ahead := range map[string]time.Duration{"node-1": 0, "node-2": fast} {
				end := now.Add(ahead)
				place := store.Place{Node: name}
				b.Add(&place, "GPU-"+name, &store.Description{}, &store.Hold{},
					&store.Point{Metric: utilization, Start: end.Add(-time.Minute).UnixNano(), End: end.UnixNano(), Value: float64(minute) / 10})
				place.Namespace, place.Pod, place.Container = "ml", name, "main"
				b.Add(&place, "GPU-"+name, &store.Description{}, &store.Hold{},
					&store.Point{Metric: allocated, Attribute: "false", Start: epoch.Add(-time.Minute).UnixNano(), End: end.UnixNano(), Value: 60 * float64(minute+1)})
			}
			b.End()
		}
		got := Compute(s, epoch.Add(4*time.Minute+10*time.Second), time.Minute, "node").Data[0]
		assert.Equal(t, want, slices.Sorted(maps.Keys(got)), fast)
		for name, a := range got {
			assert.Equal(t, 0.4, *a.GPUAllocation.GPUUsageAverage, "%s: the newest window alone", name)
			assert.InDelta(t, 1.0/60, *a.GPUHours, 1e-12, name)
		}
		all := Compute(s, epoch.Add(4*time.Minute+10*time.Second), time.Minute, "namespace").Data[0]["ml"]
		assert.InDelta(t, float64(len(want))/60, *all.GPUHours, 1e-12)
	}
}

func TestNamesIncludeTheClusterIfThereAreSeveral(t *testing.T) {
	s := filled(t)
	m, _ := store.Lookup(signal.UtilizationAvg.Name)
	b := s.Begin(epoch)
	for _, cluster := range []string{"east", "west"} {
		b.Add(&store.Place{Cluster: cluster, Node: "node-1"}, "GPU-"+cluster, &store.Description{}, &store.Hold{},
			&store.Point{Metric: m, End: epoch.UnixNano(), Value: 1})
	}
	b.End()
	got := Compute(s, epoch, 10*time.Minute, "node").Data[0]
	require.Contains(t, got, "east/node-1")
	require.Contains(t, got, "west/node-1")
	assert.Equal(t, "east", got["east/node-1"].Properties.Cluster)
	assert.Equal(t, 1.0, got["east/node-1"].Minutes, "a window without a start is a minute")
}

func TestTheSummaryHasTheAcceleratorsOfEachContainer(t *testing.T) {
	s := filled(t,
		point{"node-1", "", "GPU-a", signal.UtilizationAvg, 0.256},
		point{"node-1", "", "GPU-a", signal.HwGPUMemoryLimit, 16 << 30},
		point{"node-1", "", "GPU-a", signal.HwGPUMemoryUsage, 0},
		point{"node-1", "main", "GPU-a", signal.UtilizationAvg, 0.256},
		point{"node-1", "main", "GPU-b", signal.GPUDeviceHolder, 1},
		point{"node-1", "other", "GPU-b", signal.GPUDeviceHolder, 1},
	)
	summary, bad := Summarize(s, epoch, "")
	require.Nil(t, bad)
	got, err := json.Marshal(summary)
	require.NoError(t, err)
	assert.JSONEq(t, `{
		"node": {"nodeName": "node-1"},
		"pods": [{
			"podRef": {"name": "train", "namespace": "ml", "uid": "uid"},
			"containers": [
				{"name": "main", "accelerators": [
					{"make": "nvidia", "model": "Tesla T4", "id": "GPU-a", "memoryTotal": 17179869184, "memoryUsed": 0, "dutyCycle": 26},
					{"make": "nvidia", "model": "Tesla T4", "id": "GPU-b"}
				]},
				{"name": "other", "accelerators": [{"make": "nvidia", "model": "Tesla T4", "id": "GPU-b"}]}
			]
		}]
	}`, string(got))
}

func TestSummaryOmitsLostDevices(t *testing.T) {
	s := filled(t, point{"node-1", "", "GPU-a", signal.UtilizationAvg, 0.256}, point{"node-1", "main", "GPU-a", signal.UtilizationAvg, 0.256})
	for after, want := range map[time.Duration]int{time.Minute: 1, 4 * time.Minute: 0} {
		summary, bad := Summarize(s, epoch.Add(after), "node-1")
		require.Nil(t, bad)
		assert.Len(t, summary.Pods, want, after)
	}
}

func TestTheSummaryIsOfOneNode(t *testing.T) {
	s := filled(t,
		point{"node-1", "main", "GPU-a", signal.GPUDeviceHolder, 1},
		point{"node-2", "main", "GPU-b", signal.GPUDeviceHolder, 1},
	)
	for node, good := range map[string]bool{"node-1": true, "node-2": true, "node-3": false, "": false} {
		summary, bad := Summarize(s, epoch, node)
		if !good {
			require.NotNil(t, bad, node)
			assert.Contains(t, bad.Message, `node must be the name of a node that has devices here`)
			continue
		}
		require.Nil(t, bad, node)
		assert.Equal(t, node, summary.Node.NodeName)
		assert.Len(t, summary.Pods, 1)
	}
	empty, bad := Summarize(filled(t), epoch, "")
	require.Nil(t, bad)
	assert.Empty(t, empty.Pods)
}

// For every aggregate, the sum of the allocations equals the total spending of all containers.
func TestAnAggregateIsTheSumOfItsParts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	s := store.New(store.Settings{Retention: 2 * time.Hour, MaxDevices: 100, MaxHolders: 1000})
	s.Begin(epoch.Add(-time.Hour)).End()
	total := map[*signal.Metric]float64{}
	b := s.Begin(epoch)
	for device := range 20 {
		for pod := range 3 {
			place := store.Place{
				Node: fmt.Sprint("node-", device/8), Namespace: fmt.Sprint("ns-", pod), Pod: fmt.Sprint("pod-", device%5), PodUID: "uid", Container: "main",
			}
			hold := store.Hold{}
			if pod > 0 {
				hold.WorkloadKind, hold.Workload = "Job", fmt.Sprint("job-", device%2)
				hold.Labels = gpudata.NewLabels(map[string]string{"example.com/team": fmt.Sprint("team-", device%2)})
			}
			for _, metric := range []*signal.Metric{signal.K8sContainerGPUAllocatedTime, signal.K8sContainerGPUIdleTime, signal.K8sContainerGPUCost, signal.K8sContainerGPUCostIdle} {
				m, _ := store.Lookup(metric.Name)
				for _, estimated := range []string{"true", "false"} {
					v := r.Float64()
					total[metric] += v
					b.Add(&place, fmt.Sprint("GPU-", device), &store.Description{}, &hold, &store.Point{
						Metric: m, Attribute: estimated, Start: epoch.Add(-time.Minute).UnixNano(), End: epoch.UnixNano(), Value: v,
					})
				}
			}
			m, _ := store.Lookup(signal.UtilizationAvg.Name)
			if r.IntN(4) == 0 { // spending is included even if there are no windows
				continue
			}
			b.Add(&place, fmt.Sprint("GPU-", device), &store.Description{}, &hold, &store.Point{Metric: m, Start: epoch.Add(-time.Minute).UnixNano(), End: epoch.UnixNano(), Value: 1})
			place = store.Place{Node: place.Node}
			b.Add(&place, fmt.Sprint("GPU-", device), &store.Description{}, &hold, &store.Point{Metric: m, Start: epoch.Add(-time.Minute).UnixNano(), End: epoch.UnixNano(), Value: 1})
		}
	}
	b.End()
	for _, aggregate := range append(Aggregates(), "label:example.com/team", "label:example_com_team", "label:nobody") {
		var hours, idle, cost, costIdle float64
		for name, a := range Compute(s, epoch, 10*time.Minute, aggregate).Data[0] {
			require.NotNil(t, a.GPUHours, name)
			hours += *a.GPUHours
			idle += *a.GPUIdleHours
			cost += *a.GPUCost
			costIdle += *a.GPUCostIdle
		}
		assert.InDelta(t, total[signal.K8sContainerGPUAllocatedTime]/3600, hours, 1e-12, aggregate)
		assert.InDelta(t, total[signal.K8sContainerGPUIdleTime]/3600, idle, 1e-12, aggregate)
		assert.InDelta(t, total[signal.K8sContainerGPUCost], cost, 1e-9, aggregate)
		assert.InDelta(t, total[signal.K8sContainerGPUCostIdle], costIdle, 1e-9, aggregate)
	}
	names := func(aggregate string) []string {
		return slices.Sorted(maps.Keys(Compute(s, epoch, 10*time.Minute, aggregate).Data[0]))
	}
	assert.Equal(t, []string{"__unallocated__", "team-0", "team-1"}, names("label:example.com/team"))
	assert.Equal(t, []string{"__unallocated__"}, names("label:nobody"))
}
