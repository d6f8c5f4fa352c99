package live

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuviewexporter/internal/store"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

var epoch = time.Unix(1_800_000_000, 0)

func newStore() *store.Store {
	return store.New(store.Settings{Retention: 2 * time.Hour, MaxDevices: 10, MaxHolders: 10})
}

// add adds the value of a window that ends at end. own has the value of the metric's own
// attribute and optionally a reason.
func add(t *testing.T, s *store.Store, id string, metric *signal.Metric, end time.Time, value float64, own ...string) {
	t.Helper()
	m, ok := store.Lookup(metric.Name)
	require.True(t, ok)
	own = append(own, "", "")
	b := s.Begin(end)
	b.Add(&store.Place{Node: "node-1"}, id, &store.Description{}, &store.Hold{}, &store.Point{
		Metric: m, Attribute: own[0], Reason: own[1], Start: end.Add(-time.Minute).UnixNano(), End: end.UnixNano(), Value: value,
	})
	b.End()
}

func TestCurveCoversTheStoredTimeAndHasGaps(t *testing.T) {
	s := newStore()
	for _, i := range []int{0, 1, 3} {
		add(t, s, "GPU-a", signal.UtilizationAvg, epoch.Add(time.Duration(i)*time.Minute), float64(i)/3)
	}
	snap := Snap(s, epoch.Add(3*time.Minute), 7)
	assert.EqualValues(t, 7, snap.Sequence)
	assert.Equal(t, 60.0, snap.Slot)
	curve := snap.Devices[0].Curves
	assert.Equal(t, strings.Repeat("-", curvePoints-4)+"0K-z", curve[0])
	assert.Equal(t, strings.Repeat("-", curvePoints), curve[1], "memory was not observed")
}

func TestSlotWidensUntilTheStoredTimeFits(t *testing.T) {
	s := newStore()
	for i := range 120 {
		add(t, s, "GPU-a", signal.UtilizationAvg, epoch.Add(time.Duration(i)*time.Minute), float64(i%2))
	}
	snap := Snap(s, epoch.Add(119*time.Minute), 0)
	assert.Equal(t, 120.0, snap.Slot)
	assert.Equal(t, strings.Repeat("z", curvePoints), snap.Devices[0].Curves[0], "a point is the highest window of its slot")
}

func TestPatchHasTheChangesSinceABatch(t *testing.T) {
	s := newStore()
	add(t, s, "GPU-a", signal.UtilizationAvg, epoch, 0.5)
	first, batch := Patch(s, epoch, 1, 0)
	require.Len(t, first.Devices, 1)
	add(t, s, "GPU-b", signal.UtilizationAvg, epoch, 0.25)
	second, batch := Patch(s, epoch, 2, batch)
	require.Len(t, second.Devices, 1)
	assert.Equal(t, "GPU-b", second.Devices[0].ID)
	assert.Empty(t, second.Devices[0].Curves)
	third, _ := Patch(s, epoch, 3, batch)
	assert.Empty(t, third.Devices)
}

func TestPartsAddUpToTheSnapshot(t *testing.T) {
	const n = 2*maxDevicesPerPart + 1
	s := store.New(store.Settings{Retention: time.Hour, MaxDevices: n, MaxHolders: 1})
	for i := range n {
		add(t, s, fmt.Sprint("GPU-", i), signal.UtilizationAvg, epoch, 0.5)
	}
	snap := Snap(s, epoch, 7)
	type text map[string]json.RawMessage
	read := func(part []byte) (out text, devices []json.RawMessage) {
		require.NoError(t, json.Unmarshal(part, &out))
		require.NoError(t, json.Unmarshal(out["devices"], &devices))
		return out, devices
	}
	body, err := json.Marshal(snap)
	require.NoError(t, err)
	whole, want := read(body)
	var got []json.RawMessage
	parts := snap.Parts()
	require.Len(t, parts, 3)
	for i, p := range parts {
		part, devices := read(p)
		assert.LessOrEqual(t, len(devices), maxDevicesPerPart)
		assert.Equal(t, whole["seq"], part["seq"])
		assert.Equal(t, i < 2, string(part["more"]) == "true", "More is true if more parts follow")
		got = append(got, devices...)
		if i == 0 {
			for k, v := range whole {
				if k != "devices" {
					assert.Equal(t, v, part[k], k)
				}
			}
		}
	}
	assert.Equal(t, want, got)
	empty := Snap(newStore(), epoch, 0).Parts()
	require.Len(t, empty, 1)
	_, devices := read(empty[0])
	assert.NotNil(t, devices, "the list is empty, not absent")
	assert.Empty(t, devices)
}

func TestEveryNumberHasAName(t *testing.T) {
	s := newStore()
	add(t, s, "GPU-a", signal.HwPower, epoch, 300)
	add(t, s, "GPU-a", signal.XIDErrors, epoch, 2)
	snap := Snap(s, epoch, 0)
	d := snap.Devices[0]
	require.Len(t, d.Values, len(snap.Fields))
	require.Len(t, d.Gauges, len(snap.Gauges))
	for i, f := range snap.Fields {
		assert.Equal(t, f.Metric == signal.XIDErrors.Name, d.Values[i] == 2, f.Metric)
	}
	for i, g := range snap.Gauges {
		assert.Equal(t, g.Metric == signal.HwPower.Name, d.Gauges[i] == 300, g.Metric)
	}
}

func TestDevicesWithTheSameVerdictsShareThem(t *testing.T) {
	s := newStore()
	for _, id := range []string{"GPU-a", "GPU-b", "GPU-c"} {
		add(t, s, id, signal.GPUSignalAvailable, epoch, 0, "gpu.sm.active", "not_in_csv")
		add(t, s, id, signal.GPUSignalAvailable, epoch, 1, "gpu.dram.active")
	}
	add(t, s, "GPU-c", signal.GPUSignalAvailable, epoch, 0, "hw.power", "hardware")
	add(t, s, "GPU-d", signal.HwPower, epoch, 300)
	snap := Snap(s, epoch, 0)
	var of []int
	for _, d := range snap.Devices {
		of = append(of, d.Verdict)
	}
	assert.Equal(t, []int{1, 1, 2, 0}, of)
	require.Len(t, snap.Verdicts, 2)
	said := map[string]string{}
	for i, c := range snap.Verdicts[1] {
		switch c {
		case '-':
		case '+':
			said[snap.Signals[i].Name] = "given"
		default:
			said[snap.Signals[i].Name] = snap.Reasons[c-'a'].Code
		}
	}
	assert.Equal(t, map[string]string{"gpu.sm.active": "not_in_csv", "gpu.dram.active": "given", "hw.power": "hardware"}, said)
	patch, _ := Patch(s, epoch, 1, 0)
	assert.Equal(t, snap.Verdicts, patch.Verdicts)
	assert.Empty(t, patch.Signals, "the page has the names")
}

func TestSnapshotListsExportersThatDoNotAnswer(t *testing.T) {
	s := newStore()
	up := func(node, url string, value float64) {
		m, ok := store.Lookup(signal.GPUExporterUp.Name)
		require.True(t, ok)
		b := s.Begin(epoch)
		b.Add(&store.Place{Node: node}, "", &store.Description{}, &store.Hold{}, &store.Point{Metric: m, Attribute: url, End: epoch.UnixNano(), Value: value})
		b.End()
	}
	up("node-1", "http://a", 0)
	up("node-2", "http://b", 0)
	up("node-2", "http://c", 1)
	want := Exporters{Known: 3, Heard: 1.8e9, Down: []Exporter{
		{Node: "node-1", URL: "http://a", Since: 1.8e9}, {Node: "node-2", URL: "http://b", Since: 1.8e9, Beside: true},
	}, Silent: []Exporter{}}
	assert.Equal(t, want, Snap(s, epoch, 0).Exporters)
	patch, _ := Patch(s, epoch, 1, 1000)
	assert.Equal(t, want, patch.Exporters, "every patch contains it")
	later := Snap(s, epoch.Add(2*time.Minute), 0).Exporters
	assert.Empty(t, later.Down, "the last result is two minutes old")
	assert.Equal(t, []Exporter{
		{Node: "node-1", URL: "http://a", Since: 1.8e9}, {Node: "node-2", URL: "http://b", Since: 1.8e9}, {Node: "node-2", URL: "http://c", Since: 1.8e9},
	}, later.Silent)
}

func TestXIDCodesAreSortedByUrgencyAndHaveAMeaning(t *testing.T) {
	s := newStore()
	end := epoch.Add(time.Minute)
	add(t, s, "GPU-a", signal.XIDErrors, end, 3)
	add(t, s, "GPU-a", signal.HwErrors, end, 2, "xid_31")
	add(t, s, "GPU-a", signal.HwErrors, end, 1, "xid_79")
	snap := Snap(s, end, 0)
	at := store.Time(end.UnixNano())
	assert.Equal(t, []store.XID{
		{Code: 79, Count: 1, Total: 1, Since: at - 60e9, Last: at}, {Code: 31, Count: 2, Total: 2, Since: at - 60e9, Last: at},
	}, snap.Devices[0].XIDs)
	require.Len(t, snap.XIDs, 2)
	for _, x := range snap.XIDs {
		assert.NotEmpty(t, x.Meaning, x.Code)
		assert.NotEmpty(t, x.Action, x.Code)
	}
}

func TestXIDCodeHasShortAndFullAdvice(t *testing.T) {
	for code, want := range map[int][2]string{
		79:  {"reboot the node", "reboot the node; if the error occurs again, contact support"},
		48:  {"reset the GPU", "reset the GPU (with XID 63 or 64, drain it first); if SRAM errors exceed the threshold, replace it"},
		154: {"see the details", "the message names the action, which covers the adjacent XIDs"},
		999: {"see the runbook", "see the runbook"},
	} {
		text := xidText(code)
		assert.Equal(t, want, [2]string{text.Action, text.Advice}, "%d", code)
	}
}

func TestThrottlingCurveIsExactIfThereIsACounter(t *testing.T) {
	s := newStore()
	add(t, s, "GPU-a", signal.ThrottleViolationRatio, epoch, 0, "power")
	add(t, s, "GPU-a", signal.ThrottleReasonRatio, epoch, 1, "sw_power_cap")
	d := Snap(s, epoch, 0).Devices[0]
	assert.Equal(t, &store.Throttle{Ratio: 0, By: "power"}, d.Throttle)
	assert.Equal(t, strings.Repeat("-", curvePoints-1)+"0", d.Curves[2])
	add(t, s, "GPU-b", signal.UtilizationAvg, epoch, 1)
	assert.Nil(t, Snap(s, epoch, 0).Devices[1].Throttle, "not observed")
}

func TestAHistoryHasTheHighestWindowOfEachSlotAndTheLowestCoverage(t *testing.T) {
	s := newStore()
	for i := range 240 {
		if i >= 10 && i < 14 {
			continue // a gap
		}
		end := epoch.Add(time.Duration(i) * 30 * time.Second)
		add(t, s, "GPU-a", signal.SMActiveAvg, end, float64(i%2))
		add(t, s, "GPU-a", signal.WindowCoverage, end, float64(i%2))
	}
	now := epoch.Add(240 * 30 * time.Second)
	snap := Snap(s, now, 0)
	h, ok := Trace(s, now, snap.Devices[0].Number)
	require.True(t, ok)
	assert.Equal(t, 60.0, h.Slot)
	field := func(m *signal.Metric) store.Numbers {
		for i, f := range snap.Fields {
			if f.Metric == m.Name {
				return h.Values[i]
			}
		}
		return nil
	}
	sm, coverage := field(signal.SMActiveAvg), field(signal.WindowCoverage)
	require.Len(t, sm, historyPoints)
	for i := range sm {
		if i == 5 || i == 6 {
			assert.True(t, math.IsNaN(float64(sm[i])), "slot %d was not observed", i)
			continue
		}
		assert.EqualValues(t, 1, sm[i], i)
		assert.EqualValues(t, 0, coverage[i], i)
	}
	assert.Empty(t, field(signal.DRAMActiveAvg), "never observed")

	_, ok = Trace(s, now, 999)
	assert.False(t, ok)
	add(t, s, "GPU-b", signal.HwPower, now, 300)
	h, ok = Trace(s, now, 2)
	require.True(t, ok)
	assert.Len(t, h.Values, int(store.NumFields), "a device without windows has an empty one")
}

func TestWindowsContainNoNull(t *testing.T) {
	assert.NotContains(t, string(Windows()), "null", "the script joins lists and shows texts")
}
