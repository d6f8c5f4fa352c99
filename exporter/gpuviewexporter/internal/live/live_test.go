package live

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuviewexporter/internal/store"
	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

var epoch = time.Unix(1_800_000_000, 0)

func newStore() *store.Store {
	return store.New(store.Settings{Retention: 2 * time.Hour, MaxDevices: 10, MaxHolders: 10})
}

// The add function adds the value of a window to the store. The end parameter is the end of the
// window. The own parameter contains the value of the metric's own attribute and, optionally, a
// reason.
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

func build(s *store.Store, now time.Time) *Document {
	document, _ := Build(s, now)
	return document
}

func TestCurveCoversTheStoredTimeAndHasGaps(t *testing.T) {
	s := newStore()
	for _, i := range []int{0, 1, 3} {
		add(t, s, "GPU-a", signal.UtilizationAvg, epoch.Add(time.Duration(i)*time.Minute), float64(i)/3)
	}
	curve := build(s, epoch.Add(3*time.Minute)).Devices[0].Curves
	assert.Equal(t, strings.Repeat("-", curvePoints-4)+"0K-z", curve[0])
	assert.Equal(t, strings.Repeat("-", curvePoints), curve[1], "memory was not observed")
}

func TestSlotWidensUntilTheStoredTimeFits(t *testing.T) {
	s := newStore()
	for i := range 120 {
		add(t, s, "GPU-a", signal.UtilizationAvg, epoch.Add(time.Duration(i)*time.Minute), float64(i%2))
	}
	document := build(s, epoch.Add(119*time.Minute))
	assert.Equal(t, curvePoints, document.CurvePoints)
	assert.Equal(t, strings.Repeat("z", curvePoints), document.Devices[0].Curves[0], "a point is the highest window of its slot")
}

// If no windows arrive, the last point of the curve moves away from the right edge.
func TestCurveEndsWhereTheWindowsEnd(t *testing.T) {
	s := newStore()
	add(t, s, "GPU-a", signal.UtilizationAvg, epoch, 1)
	assert.True(t, strings.HasSuffix(build(s, epoch.Add(3*time.Minute)).Devices[0].Curves[0], "z"))
	assert.True(t, strings.HasSuffix(build(s, epoch.Add(5*time.Minute)).Devices[0].Curves[0], "z--"))
}

func TestDocumentHasALineForEachDevice(t *testing.T) {
	s := newStore()
	for _, id := range []string{"GPU-a", "GPU-b", "GPU-c"} {
		add(t, s, id, signal.UtilizationAvg, epoch, 0.5)
	}
	for n, document := range map[int]*Document{3: build(s, epoch), 0: build(newStore(), epoch)} {
		text := string(document.Encode())
		var whole struct{ Devices []json.RawMessage }
		require.NoError(t, json.Unmarshal([]byte(text), &whole))
		require.NotNil(t, whole.Devices, "the list is empty, not absent")
		require.Len(t, whole.Devices, n)
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		require.Len(t, lines, n+2, "the other fields, the devices and the end")
		assert.True(t, json.Valid([]byte(lines[0]+"]}")))
		assert.Equal(t, "]}", lines[n+1])
		for i, d := range whole.Devices {
			assert.Equal(t, string(d), strings.TrimSuffix(lines[i+1], ","))
		}
	}
}

// Clients do not load a document that they already have.
func TestDocumentDependsOnTimeOnlyIfSomethingExpires(t *testing.T) {
	s := newStore()
	add(t, s, "GPU-a", signal.UtilizationAvg, epoch, 0.5)
	up, _ := store.Lookup(signal.GPUExporterUp.Name)
	b := s.Begin(epoch)
	b.Add(&store.Place{Node: "node-1"}, "", &store.Description{}, &store.Hold{}, &store.Point{Metric: up, Attribute: "http://a", End: epoch.UnixNano(), Value: 1})
	b.End()
	at := func(after time.Duration) string { return string(build(s, epoch.Add(after)).Encode()) }
	first := at(time.Second)
	assert.Equal(t, first, at(70*time.Second))
	assert.NotEqual(t, first, at(80*time.Second), "the results about the exporter are old")
	assert.NotEqual(t, at(80*time.Second), at(140*time.Second), "the device is lost")
}

func TestALostDeviceHasNoNumbersAndHolders(t *testing.T) {
	s := newStore()
	add(t, s, "GPU-a", signal.UtilizationAvg, epoch, 0.5)
	add(t, s, "GPU-a", signal.HwPower, epoch, 300)
	add(t, s, "GPU-a", signal.ThrottleViolationRatio, epoch, 0.5, "power")
	add(t, s, "GPU-a", signal.GPUSignalAvailable, epoch, 1, "gpu.dram.active")
	add(t, s, "GPU-a", signal.HwErrors, epoch, 1, "xid_79")
	m, _ := store.Lookup(signal.GPUDeviceHolder.Name)
	b := s.Begin(epoch)
	b.Add(&store.Place{Node: "node-1", Pod: "p", Container: "c"}, "GPU-a", &store.Description{}, &store.Hold{}, &store.Point{Metric: m, End: epoch.UnixNano(), Value: 1})
	b.End()
	document := build(s, epoch)
	seen := document.Devices[0]
	require.NotEmpty(t, seen.Holders)
	require.NotZero(t, seen.Diagnosis)
	assert.Equal(t, []Problem{Throttled}, seen.Problems)
	assert.Equal(t, seconds(epoch.Add(130*time.Second).UnixNano()), document.Until)
	document = build(s, epoch.Add(131*time.Second))
	assert.Zero(t, document.Until, "no device holds")
	lost := document.Devices[0]
	last := store.Time(epoch.UnixNano())
	assert.Equal(t, &Loss{store.Loss{Last: last}, Text{"Nothing since ", last, ": the device, its exporter or the connection is down."}}, lost.Lost)
	assert.Equal(t, []Problem{Lost}, lost.Problems)
	assert.Equal(t, seen.End, lost.End, "the end of its last window stays")
	assert.Equal(t, seen.Curves, lost.Curves)
	assert.Empty(t, lost.Values)
	assert.Empty(t, lost.Gauges)
	assert.Empty(t, lost.Holders)
	assert.Nil(t, lost.Throttle)
	assert.Nil(t, lost.Power)
	assert.Nil(t, lost.Idle)
	assert.Zero(t, lost.Diagnosis)
	require.Len(t, lost.XIDs, 1)
	assert.Zero(t, lost.XIDs[0].Count, "the window is not current")
	assert.EqualValues(t, 1, lost.XIDs[0].Total)
}

func TestTheServerDecidesWhatIsAProblem(t *testing.T) {
	type number struct {
		metric *signal.Metric
		value  float64
		own    string
	}
	for name, tt := range map[string]struct {
		numbers []number
		want    []Problem
	}{
		"nothing observed":          {[]number{{signal.HwPower, 300, ""}}, nil},
		"throttled for 10%":         {[]number{{signal.ThrottleViolationRatio, 0.1, "power"}}, []Problem{Throttled}},
		"throttled for less":        {[]number{{signal.ThrottleViolationRatio, 0.099, "power"}}, nil},
		"memory pressure for 10%":   {[]number{{signal.MemoryPressureRatio, 0.1, ""}}, []Problem{Pressure}},
		"memory pressure for less":  {[]number{{signal.MemoryPressureRatio, 0.099, ""}}, nil},
		"an XID error":              {[]number{{signal.XIDErrors, 1, ""}}, []Problem{XIDErrors}},
		"no XID error":              {[]number{{signal.XIDErrors, 0, ""}}, nil},
		"ok":                        {[]number{{signal.HwStatus, 1, signal.StatusOK}, {signal.HwStatus, 0, signal.StatusFailed}}, nil},
		"degraded":                  {[]number{{signal.HwStatus, 0, signal.StatusOK}, {signal.HwStatus, 1, signal.StatusDegraded}}, []Problem{PoorHealth}},
		"a finding":                 {[]number{{signal.GPUFinding, 1, "spinning"}}, []Problem{Found}},
		"a rule that found nothing": {[]number{{signal.GPUFinding, 0, "spinning"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore()
			for _, n := range tt.numbers {
				add(t, s, "GPU-a", n.metric, epoch, n.value, n.own)
			}
			assert.Equal(t, tt.want, build(s, epoch).Devices[0].Problems)
		})
	}
}

func TestADeviceIsIdleIfItUsedAtMost5PercentOfTheWindow(t *testing.T) {
	for utilization, want := range map[float64]bool{0: true, 0.05: true, 0.051: false, 1: false} {
		s := newStore()
		add(t, s, "GPU-a", signal.UtilizationAvg, epoch, utilization)
		assert.Equal(t, &want, build(s, epoch).Devices[0].Idle, utilization)
	}
	s := newStore()
	add(t, s, "GPU-a", signal.HwPower, epoch, 50)
	assert.Nil(t, build(s, epoch).Devices[0].Idle, "not observed is not idle")
}

func TestPowerOfAnInstanceIsItsOwn(t *testing.T) {
	s := newStore()
	add(t, s, "GPU-a", signal.HwPower, epoch, 300)
	m, _ := store.Lookup(signal.GPUInstancePower.Name)
	b := s.Begin(epoch)
	b.Add(&store.Place{Node: "node-1"}, "GPU-a/gi1", &store.Description{Parent: "GPU-a"}, &store.Hold{}, &store.Point{Metric: m, End: epoch.UnixNano(), Value: 40})
	b.End()
	devices := build(s, epoch).Devices
	require.Len(t, devices, 2)
	assert.Equal(t, new(float32(300)), devices[0].Power)
	assert.Equal(t, new(float32(40)), devices[1].Power)
	assert.Equal(t, devices[0].Number, devices[1].Board)
}

func TestFindingsAreAbsentIfGPUFindingsDoesNotRun(t *testing.T) {
	s := newStore()
	add(t, s, "GPU-a", signal.UtilizationAvg, epoch, 0.5)
	assert.Nil(t, build(s, epoch).Devices[0].Findings)
	add(t, s, "GPU-a", signal.GPUFinding, epoch, 0, "spinning")
	assert.Equal(t, []string{}, build(s, epoch).Devices[0].Findings)
	add(t, s, "GPU-a", signal.GPUFinding, epoch, 1, "slow_device")
	assert.Equal(t, []string{"slow_device"}, build(s, epoch).Devices[0].Findings)
}

func TestDevicesAreSortedByPlaceWithInstancesAfterTheirBoard(t *testing.T) {
	s := store.New(store.Settings{Retention: time.Hour, MaxDevices: 20, MaxHolders: 1})
	m, _ := store.Lookup(signal.HwPower.Name)
	b := s.Begin(epoch)
	for _, d := range [][4]string{
		{"node-10", "nvidia0", "GPU-z", ""},
		{"node-2", "nvidia10", "GPU-a", ""},
		{"node-2", "nvidia2", "GPU-c/gi13", "GPU-c"},
		{"node-2", "nvidia2", "GPU-c", ""},
		{"node-2", "nvidia2", "GPU-c/gi7", "GPU-c"},
		{"node-2", "", "GPU-b", ""},
		{"node-2", "nvidia2", "GPU-gone/gi1", "GPU-gone"},
	} {
		b.Add(&store.Place{Node: d[0]}, d[2], &store.Description{Name: d[1], Parent: d[3]}, &store.Hold{}, &store.Point{Metric: m, End: epoch.UnixNano(), Value: 1})
	}
	b.End()
	var got []string
	boards := map[string]uint64{}
	for _, d := range build(s, epoch).Devices {
		got = append(got, d.ID)
		boards[d.ID] = d.Board
	}
	assert.Equal(t, []string{"GPU-b", "GPU-c", "GPU-c/gi7", "GPU-c/gi13", "GPU-gone/gi1", "GPU-a", "GPU-z"}, got)
	assert.NotZero(t, boards["GPU-c/gi7"])
	assert.Zero(t, boards["GPU-gone/gi1"], "the board is not there")
}

// The sort order does not depend on the order in which devices arrive or on the names of instances.
// Instances follow their board.
func TestDevicesHaveOneOrder(t *testing.T) {
	name := rapid.StringMatching(`[a-b0-1]{0,3}`)
	rapid.Check(t, func(t *rapid.T) {
		devices := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) store.Device {
			return store.Device{Node: rapid.SampledFrom([]string{"", "n01", "n1"}).Draw(t, "node"), ID: name.Draw(t, "id"), Description: store.Description{
				Name: name.Draw(t, "name"), Parent: rapid.SampledFrom([]string{"", "a", "b1"}).Draw(t, "parent"),
			}}
		}), 2, 8, func(d store.Device) string { return d.Node + "/" + d.ID }).Draw(t, "devices")
		sorted := func(devices []store.Device) []*store.Device {
			out := make([]*store.Device, len(devices))
			for i := range devices {
				out[i] = &devices[i]
			}
			sortDevices(out)
			return out
		}
		got := sorted(devices)
		assert.Equal(t, got, sorted(rapid.Permutation(devices).Draw(t, "arrived")))
		finished := map[board]bool{}
		for i, d := range got {
			assert.False(t, finished[boardOf(d)], "the devices of a board are neighbors")
			if i+1 < len(got) && boardOf(got[i+1]) != boardOf(d) {
				finished[boardOf(d)] = true
			} else if i+1 < len(got) {
				assert.NotEmpty(t, got[i+1].Parent, "the board comes first")
			}
		}
	})
}

func TestEveryNumberHasAName(t *testing.T) {
	s := newStore()
	add(t, s, "GPU-a", signal.HwPower, epoch, 300)
	add(t, s, "GPU-a", signal.XIDErrors, epoch, 2)
	document := build(s, epoch)
	d := document.Devices[0]
	require.Len(t, d.Values, len(document.Fields))
	require.Len(t, d.Gauges, len(document.Gauges))
	for i, f := range document.Fields {
		assert.Equal(t, f.Metric == signal.XIDErrors.Name, d.Values[i] == 2, f.Metric)
	}
	for i, g := range document.Gauges {
		assert.Equal(t, g.Metric == signal.HwPower.Name, d.Gauges[i] == 300, g.Metric)
	}
}

func TestDevicesThatLackTheSameSignalsShareADiagnosis(t *testing.T) {
	s := newStore()
	for _, id := range []string{"GPU-a", "GPU-b", "GPU-c"} {
		add(t, s, id, signal.UtilizationAvg, epoch, 0.5)
		add(t, s, id, signal.GPUSignalAvailable, epoch, 0, "gpu.sm.active", "not_in_csv")
		add(t, s, id, signal.GPUSignalAvailable, epoch, 1, "gpu.dram.active")
	}
	add(t, s, "GPU-c", signal.GPUSignalAvailable, epoch, 0, "hw.power", "hardware")
	add(t, s, "GPU-d", signal.UtilizationAvg, epoch, 0.5)
	document := build(s, epoch)
	var of []int
	for _, d := range document.Devices {
		of = append(of, d.Diagnosis)
	}
	assert.Equal(t, []int{1, 1, 2, 3}, of)
	require.Len(t, document.Diagnoses, 3)
	assert.True(t, document.Diagnoses[1].Diagnosed)
	assert.Equal(t, []int{0, 1}, document.Diagnoses[1].Lacks)
	assert.Equal(t, []Missing{
		{Metric: "gpu.sm.active", Fields: []string{"DCGM_FI_PROF_SM_ACTIVE"}, Text: "the exporter does not list the field"},
		{Metric: "hw.power", Fields: []string{"DCGM_FI_DEV_POWER_USAGE"}, Text: "this model, partition or vendor does not support it", Lasting: true},
	}, document.Missing)
	assert.Equal(t, 1, *document.Lacking, "no setting gives the power")
	assert.False(t, document.Diagnoses[2].Diagnosed)
}

// The why function returns the reason why a device has no value for a number.
func why(t *testing.T, d *Document, id, number string) Why {
	t.Helper()
	at := slices.IndexFunc(d.Devices, func(x Device) bool { return x.ID == id })
	require.GreaterOrEqual(t, at, 0, id)
	n := slices.Index(d.Numbers, number)
	require.GreaterOrEqual(t, n, 0, number)
	return d.Why[d.Diagnoses[d.Devices[at].Diagnosis-1].Why[n]]
}

func TestDocumentHasTheReasonOfEachMissingNumber(t *testing.T) {
	s := newStore()
	for _, id := range []string{"GPU-board", "GPU-board/gi7", "GPU-whole"} {
		add(t, s, id, signal.UtilizationAvg, epoch, 0.5)
	}
	m, _ := store.Lookup(signal.UtilizationAvg.Name)
	b := s.Begin(epoch)
	b.Add(&store.Place{Node: "node-1"}, "GPU-board/gi7", &store.Description{Parent: "GPU-board"}, &store.Hold{}, &store.Point{Metric: m, End: epoch.UnixNano()})
	b.End()
	add(t, s, "GPU-whole", signal.GPUSignalAvailable, epoch, 0, "gpu.pcie.throughput{transmit}", "no_profiling")
	add(t, s, "GPU-whole", signal.GPUSignalAvailable, epoch, 1, "gpu.sm.active")
	add(t, s, "GPU-whole", signal.GPUSignalAvailable, epoch, 0, "gpu.nvlink.throughput{transmit}", "hardware")
	add(t, s, "GPU-gauge", signal.HwPower, epoch, 300)
	document := build(s, epoch)
	const transmit = "gpu.saturation.pcie.throughput.avg{transmit}"
	assert.Equal(t, Why{seeBoard, true, true}, why(t, document, "GPU-board/gi7", "pcie"))
	assert.Equal(t, Why{seeBoard, true, true}, why(t, document, "GPU-board/gi7", transmit))
	assert.Equal(t, Why{seeInstances, true, true}, why(t, document, "GPU-board", "memory"))
	assert.Equal(t, Why{"Held by instance: see the instances' rows.", true, true}, why(t, document, "GPU-board", "holders"))
	assert.Contains(t, why(t, document, "GPU-board/gi7", "power").Text, "gpu_k8s has no section power")
	assert.Contains(t, why(t, document, "GPU-whole", "power").Text, "Usual reason: the exporter does not provide DCGM_FI_DEV_POWER_USAGE")
	assert.Equal(t, Why{Text: "DCGM_FI_PROF_PCIE_TX_BYTES: DCGM's profiling does not work on this GPU."}, why(t, document, "GPU-whole", transmit))
	assert.Contains(t, why(t, document, "GPU-whole", "gpu.saturation.sm.active.avg").Text, "The exporter provides it, but no window has it")
	assert.True(t, why(t, document, "GPU-whole", "gpu.saturation.nvlink.throughput.avg{transmit}").Never, "this model cannot have it")
	assert.Equal(t, Why{Text: "No window of this device has arrived yet."}, why(t, document, "GPU-gauge", "throttle"))
}

func TestEachWindowedMetricOnThePageHasAFormat(t *testing.T) {
	for _, samples := range signal.All() {
		for _, w := range samples.Windows {
			if w.Label != "" {
				assert.NotEmpty(t, describeWindow(samples, &w).Format, w.Name)
			}
		}
	}
}

func TestEachFindingHasAName(t *testing.T) {
	for _, f := range signal.Values(signal.Finding) {
		assert.NotEmpty(t, findingNames[f], f)
	}
}

func TestDocumentListsExportersThatDoNotAnswer(t *testing.T) {
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
	since := store.Time(epoch.UnixNano())
	componenthelper.SetScrapeError("http://a", errors.New("connection refused"))
	t.Cleanup(func() { componenthelper.SetScrapeError("http://a", nil) })
	want := Exporters{Total: 3, Reported: true, Down: []Exporter{
		{Node: "node-1", URL: "http://a", Since: since, Cause: "connection refused"}, {Node: "node-2", URL: "http://b", Since: since},
	}, Stale: []Exporter{}}
	assert.Equal(t, want, build(s, epoch).Exporters)
	later := build(s, epoch.Add(2*time.Minute)).Exporters
	assert.EqualValues(t, 1.8e18, later.LastResult, "no result arrives anymore")
	assert.Empty(t, later.Down, "the last result is two minutes old")
	assert.Equal(t, []Exporter{
		{Node: "node-1", URL: "http://a", Since: since}, {Node: "node-2", URL: "http://b", Since: since}, {Node: "node-2", URL: "http://c", Since: since},
	}, later.Stale)
	assert.False(t, build(newStore(), epoch).Exporters.Reported)
}

// The texts function returns the text of each banner, with times in Unix seconds.
func texts(d *Document) (out []string) {
	for _, b := range d.Banners {
		text := ""
		for _, part := range slices.Concat(b.Title, Text{" "}, b.Text) {
			if at, ok := part.(store.Time); ok {
				part = int64(at) / 1e9
			}
			text += fmt.Sprint(part)
		}
		out = append(out, text)
	}
	return out
}

func TestBannersDescribeProblemsAndWhatToCheck(t *testing.T) {
	s := newStore()
	m, _ := store.Lookup(signal.GPUExporterUp.Name)
	up := func(exporters int, at time.Time, value float64) {
		b := s.Begin(at)
		for i := range exporters {
			b.Add(&store.Place{Node: "node-1"}, "", &store.Description{}, &store.Hold{}, &store.Point{Metric: m, Attribute: fmt.Sprintf("http://%d", i), End: at.UnixNano(), Value: value})
		}
		b.End()
	}
	assert.Equal(t, State{Text: "Connected, no data yet"}, build(s, epoch).State)
	assert.Empty(t, build(s, epoch).Banners)
	add(t, s, "GPU-a", signal.UtilizationAvg, epoch, 0.5)
	assert.Equal(t, State{"Live", true}, build(s, epoch).State)
	lost := build(s, epoch.Add(time.Hour))
	assert.Equal(t, State{Text: "Connected, no new data"}, lost.State)
	assert.Equal(t, []string{"No data since 1800000000. The reason is unknown: gpu.exporter.up is not received."}, texts(lost))
	up(5, epoch, 1)
	assert.Empty(t, build(s, epoch).Banners)
	up(4, epoch.Add(time.Second), 0)
	assert.Equal(t, []string{"4 of 5 exporters give no samples. " +
		"http://0 on node-1 since 1800000001, http://1 on node-1 since 1800000001, http://2 on node-1 since 1800000001 and 1 more."}, texts(build(s, epoch.Add(time.Second))))
	up(5, epoch.Add(2*time.Second), 0)
	none := build(s, epoch.Add(2*time.Second))
	assert.Equal(t, State{Text: "Connected, no exporter gives samples"}, none.State)
	require.Len(t, none.Banners, 1)
	assert.Equal(t, Text{"No exporter gives samples."}, none.Banners[0].Title)
	for i := range 11 {
		add(t, s, fmt.Sprintf("GPU-%d", i), signal.UtilizationAvg, epoch.Add(time.Second), 0.5)
	}
	assert.Contains(t, texts(build(s, epoch.Add(2*time.Second))),
		"The page is incomplete, because gpu_view has reached max_devices. It keeps 10 boards and MIG instances and refuses others. Raise the limit, or find out what creates so many items.")
}

func TestNumbersHaveACommaBetweenGroupsOfThreeDigits(t *testing.T) {
	for want, n := range map[string]int{"0": 0, "999": 999, "1,000": 1000, "20,000": 20_000, "2,000,000": 2_000_000} {
		assert.Equal(t, want, grouped(n))
	}
}

func TestXIDCodesAreSortedByUrgencyAndHaveAMeaning(t *testing.T) {
	s := newStore()
	end := epoch.Add(time.Minute)
	add(t, s, "GPU-a", signal.XIDErrors, end, 3)
	add(t, s, "GPU-a", signal.HwErrors, end, 2, "xid_31")
	add(t, s, "GPU-a", signal.HwErrors, end, 1, "xid_79")
	document := build(s, end)
	at := store.Time(end.UnixNano())
	assert.Equal(t, []store.XID{
		{Code: 79, Count: 1, Total: 1, Since: at - 60e9, Last: at}, {Code: 31, Count: 2, Total: 2, Since: at - 60e9, Last: at},
	}, document.Devices[0].XIDs)
	require.Len(t, document.XIDs, 2)
	for _, x := range document.XIDs {
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
	d := build(s, epoch).Devices[0]
	assert.Equal(t, &store.Throttle{Ratio: 0, By: "power"}, d.Throttle)
	assert.Equal(t, strings.Repeat("-", curvePoints-1)+"0", d.Curves[2])
	add(t, s, "GPU-b", signal.UtilizationAvg, epoch, 1)
	assert.Nil(t, build(s, epoch).Devices[1].Throttle, "not observed")
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
	document := build(s, now)
	h, ok := Trace(s, now, document.Devices[0].Number)
	require.True(t, ok)
	assert.Equal(t, 60.0, h.Slot)
	field := func(m *signal.Metric) store.Numbers {
		for i, f := range document.Fields {
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

func TestAHistoryHasTheThrottlingThatTheDeviceHad(t *testing.T) {
	s := newStore()
	trace := func() *History {
		h, ok := Trace(s, epoch.Add(time.Minute), 1)
		require.True(t, ok)
		return h
	}
	add(t, s, "GPU-a", signal.ThrottleReasonRatio, epoch, 0.5, "sw_thermal")
	h := trace()
	assert.Equal(t, store.Numbers{0.5}, h.Throttled)
	assert.True(t, h.Sampled)
	add(t, s, "GPU-a", signal.ThrottleViolationRatio, epoch.Add(time.Minute), 0.25, "thermal")
	add(t, s, "GPU-a", signal.ThrottleReasonRatio, epoch.Add(time.Minute), 1, "sw_thermal")
	h = trace()
	assert.Equal(t, store.Numbers{0.5, 0.25}, h.Throttled, "the exact counter of the policy")
	assert.False(t, h.Sampled)
}

func TestWindowsContainNoNull(t *testing.T) {
	assert.NotContains(t, string(Windows()), "null", "the script joins lists and shows texts")
}
