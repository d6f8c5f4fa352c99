package processlists

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

const second = int64(time.Second)

// start is later than all sample times in these tests.
var start = time.Unix(10_000, 0)

// frame returns a frame from node n1 that contains the device GPU-1.
func frame(seconds int64) (*gpudata.Frame, *gpudata.DeviceFrame) {
	f := &gpudata.Frame{Place: gpudata.Place{Node: "n1"}, Time: seconds * second}
	d := f.Device("GPU-1")
	return f, d
}

// listed returns a frame that contains a process list. Each process in the list uses 1 byte of
// memory.
func listed(seconds int64, pids ...string) *gpudata.Frame {
	f, d := frame(seconds)
	for _, pid := range pids {
		d.Process(pid).Samples.Add(gpudata.Sample{Metric: signal.ProcessGPUMemoryUsage, Value: 1})
	}
	return f
}

// counted returns a frame that contains only the number of processes.
func counted(seconds int64, n int) *gpudata.Frame {
	f, d := frame(seconds)
	d.Listed, d.Count = true, n
	return f
}

// text returns the process list of the frame's only device as text.
func text(f *gpudata.Frame) string {
	l := f.Devices[0].ProcessList
	if l == nil {
		return "no list"
	}
	var pids []string
	for _, p := range l.Processes {
		pids = append(pids, p.PID)
	}
	out := fmt.Sprintf("%d s: %s", l.Time/second, strings.Join(pids, " "))
	if l.Counted {
		out += fmt.Sprintf(" of %d", l.Count)
	}
	return out
}

func TestAFrameHasTheListClosestToItsTime(t *testing.T) {
	sample := func(seconds int64) *gpudata.Frame {
		f, _ := frame(seconds)
		return f
	}
	for name, tc := range map[string]struct {
		batches [][]*gpudata.Frame
		want    string // of the last frame
	}{
		"its own list":              {[][]*gpudata.Frame{{listed(10, "1"), listed(20, "2")}}, "20 s: 2"},
		"no list":                   {[][]*gpudata.Frame{{sample(10)}}, "no list"},
		"an earlier list":           {[][]*gpudata.Frame{{listed(10, "1")}, {sample(20)}}, "10 s: 1"},
		"a later list":              {[][]*gpudata.Frame{{listed(30, "1")}, {sample(20)}}, "30 s: 1"},
		"a later list of the batch": {[][]*gpudata.Frame{{listed(10, "1"), listed(21, "2"), sample(20)}}, "21 s: 2"},
		"the older of two lists":    {[][]*gpudata.Frame{{listed(10, "1")}, {listed(20, "2")}, {sample(15)}}, "10 s: 1"},
		"any list of a long batch": {
			[][]*gpudata.Frame{{listed(10, "1"), listed(20, "2"), listed(30, "3"), listed(40, "4"), sample(11)}}, "10 s: 1",
		},
		"a late list":                  {[][]*gpudata.Frame{{listed(20, "2")}, {listed(10, "1")}, {sample(21)}}, "20 s: 2"},
		"a list in two batches":        {[][]*gpudata.Frame{{listed(10, "1")}, {listed(10, "2")}, {sample(11)}}, "10 s: 1 2"},
		"a list and its length":        {[][]*gpudata.Frame{{counted(10, 2)}, {listed(10, "1")}, {sample(11)}}, "10 s: 1 of 2"},
		"an empty list":                {[][]*gpudata.Frame{{listed(10, "1")}, {counted(20, 0)}, {sample(21)}}, "20 s:  of 0"},
		"a list in the future":         {[][]*gpudata.Frame{{listed(10, "1")}, {listed(20_000, "2")}, {sample(11)}}, "10 s: 1"},
		"its own list in the future":   {[][]*gpudata.Frame{{listed(10, "1")}, {listed(20_000, "2")}}, "20000 s: 2"},
		"a list that is two hours old": {[][]*gpudata.Frame{{listed(100, "1")}, {sample(7300)}}, "100 s: 1"},
	} {
		t.Run(name, func(t *testing.T) {
			l := New(100)
			var last *gpudata.Frame
			for _, batch := range tc.batches {
				require.Zero(t, l.update(batch, start))
				last = batch[len(batch)-1]
			}
			assert.Equal(t, tc.want, text(last))
		})
	}
}

// If a frame contains only the end of a process's series, or only a process's power, the frame does
// not contain a process list.
func TestOnlyValuesOfASourceAreALists(t *testing.T) {
	for name, s := range map[string]gpudata.Sample{
		"an end":  {Metric: signal.ProcessGPUMemoryUsage, Ended: true},
		"a power": {Metric: signal.ProcessGPUPower, Value: 1},
	} {
		f, d := frame(10)
		d.Process("1").Samples.Add(s)
		New(100).update([]*gpudata.Frame{f}, start)
		assert.Nil(t, d.ProcessList, name)
	}
}

func TestAListKeepsTheKnownValuesOfAProcess(t *testing.T) {
	l := New(100)
	f, d := frame(10)
	d.Process("1").Samples.Add(gpudata.Sample{Metric: signal.ProcessGPUUtilization, Value: .5})
	l.update([]*gpudata.Frame{f}, start)
	assert.True(t, math.IsNaN(d.ProcessList.Processes[0].Memory))
	more := listed(10, "1")
	l.update([]*gpudata.Frame{more}, start)
	assert.Equal(t, []gpudata.ListedProcess{{PID: "1", Utilization: .5, Memory: 1}}, more.Devices[0].ProcessList.Processes)
	assert.True(t, math.IsNaN(d.ProcessList.Processes[0].Memory), "the list of the first frame is not modified")
}

func TestAListHasTheIntervalOfItsSource(t *testing.T) {
	l := New(100)
	for _, step := range []struct{ at, interval int64 }{{10, 0}, {20, 10}, {20, 10}, {50, 30}, {51, 30}, {80, 29}, {81, 29}, {90, 9}} {
		f := counted(step.at, 0)
		l.update([]*gpudata.Frame{f}, start)
		assert.Equal(t, step.interval*second, f.Devices[0].ProcessList.Interval, "at %d s", step.at)
	}
}

// The second stage must not replace the list that the first stage found, because the store no longer
// has all lists of the batch.
func TestASecondStageKeepsTheListsOfTheFirst(t *testing.T) {
	l := New(100)
	sample, _ := frame(11)
	batch := []*gpudata.Frame{listed(10, "1"), sample, listed(20, "2"), listed(30, "3"), listed(40, "4")}
	for range 2 {
		l.update(batch, start)
		assert.Equal(t, "10 s: 1", text(sample))
	}
}

// A source may stop counting processes.
func TestAListHasTheTimeOfTheLastCount(t *testing.T) {
	l := New(100)
	l.update([]*gpudata.Frame{counted(10, 1)}, start)
	l.update([]*gpudata.Frame{listed(30, "1")}, start)
	l.update([]*gpudata.Frame{counted(20, 1)}, start)
	f := listed(40, "1")
	l.update([]*gpudata.Frame{f}, start)
	assert.Equal(t, 20*second, f.Devices[0].ProcessList.LastCounted)
}

// For up to maxLag after a source's clock is set back, the lists from before the clock change
// appear to be the newest lists.
func TestListsOfASourceWhoseClockWasSetBackReplaceNewerLists(t *testing.T) {
	l, now := New(100), start
	l.update([]*gpudata.Frame{listed(5000, "1")}, now)
	for i := range 20 {
		now = now.Add(10 * time.Second)
		f := listed(int64(100+10*i), "2")
		l.update([]*gpudata.Frame{f}, now)
		assert.Equal(t, fmt.Sprintf("%d s: 2", 100+10*i), text(f))
	}
	f, _ := frame(5000)
	l.update([]*gpudata.Frame{f}, now)
	assert.Equal(t, "290 s: 2", text(f))
}

func TestOnlyLongerListsAreRefused(t *testing.T) {
	l := New(3)
	assert.Zero(t, l.update([]*gpudata.Frame{listed(10, "1", "2")}, start))
	for at := range int64(5) {
		assert.Zero(t, l.update([]*gpudata.Frame{listed(20+at, "3", "4")}, start), "a known device keeps its lists")
	}
	longer := listed(30, "1", "2", "3")
	assert.EqualValues(t, 3, l.update([]*gpudata.Frame{longer}, start))
	assert.Equal(t, "30 s: 1 2 3", text(longer), "the frame uses its own list, which is not stored")
	f, _ := frame(30)
	l.update([]*gpudata.Frame{f}, start)
	assert.Equal(t, "24 s: 3 4", text(f))
	assert.EqualValues(t, 1, l.update([]*gpudata.Frame{listed(24, "5")}, start), "the list of this time would become longer")
	other := listed(30, "1")
	other.Place.Node, other.Devices[0].Device = "n2", gpudata.NewDevice(gpudata.Place{Node: "n2"}, "GPU-1")
	assert.EqualValues(t, 1, l.update([]*gpudata.Frame{other}, start))
	assert.Equal(t, "30 s: 1", text(other))
	other.Devices[0].Processes, other.Devices[0].ProcessList = nil, nil
	l.update([]*gpudata.Frame{other}, start)
	assert.Equal(t, "no list", text(other))
	assert.Zero(t, l.update([]*gpudata.Frame{listed(40), counted(40, 0), counted(50, 0)}, start))
	assert.Equal(t, 1, l.limit.Used(), "the stored lists are empty")
}

func TestListsAreDeletedAnHourAfterTheLastOne(t *testing.T) {
	l := New(100)
	l.update([]*gpudata.Frame{listed(10, "1")}, start)
	f, _ := frame(20)
	l.update([]*gpudata.Frame{f}, start.Add(retention))
	assert.Equal(t, "10 s: 1", text(f))
	other := &gpudata.Frame{Place: gpudata.Place{Node: "n2"}, Time: second}
	l.update([]*gpudata.Frame{other}, start.Add(retention+2*sweepEvery))
	assert.Zero(t, l.limit.Used())
	f, _ = frame(20)
	l.update([]*gpudata.Frame{f}, start.Add(retention+2*sweepEvery))
	assert.Equal(t, "no list", text(f))
}

func TestTheLimitHoldsForAllLists(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 20).Draw(t, "limit")
		l, now := New(limit), start
		for range rapid.IntRange(1, 30).Draw(t, "batches") {
			var batch []*gpudata.Frame
			for range rapid.IntRange(1, 4).Draw(t, "frames") {
				f := listed(rapid.Int64Range(1, 400).Draw(t, "time"), []string{"1", "2", "3", "4"}[:rapid.IntRange(0, 4).Draw(t, "processes")]...)
				d := f.Devices[0]
				d.Device = gpudata.NewDevice(f.Place, rapid.SampledFrom([]string{"GPU-1", "GPU-2", "GPU-3"}).Draw(t, "device"))
				d.Listed = rapid.Bool().Draw(t, "counted")
				batch = append(batch, f)
			}
			now = now.Add(time.Duration(rapid.IntRange(0, 200).Draw(t, "pause")) * time.Second)
			l.update(batch, now)
			reserved := 0
			l.nodes.Each(func(_ string, n *nodeLists) {
				for _, d := range n.devices {
					reserved += d.reserved
					require.LessOrEqual(t, len(d.lists), kept)
					for i, list := range d.lists {
						require.LessOrEqual(t, 1+len(list.Processes), d.reserved)
						require.True(t, i == 0 || d.lists[i-1].Time > list.Time, "the newest list is the first")
					}
				}
			})
			require.Equal(t, reserved, l.limit.Used())
			require.LessOrEqual(t, reserved, limit)
		}
	})
}

func TestBatchesOfOneNodeCanArriveAtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(1000)
		for i := range 8 {
			go func() {
				for k := range 100 {
					l.update([]*gpudata.Frame{listed(int64(1+8*k+i), "1")}, start)
				}
			}()
		}
		synctest.Wait()
		f, _ := frame(801)
		l.update([]*gpudata.Frame{f}, start)
		assert.Equal(t, "800 s: 1", text(f))
	})
}
