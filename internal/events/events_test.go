package events

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

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/internal/stage"
)

// epoch is the time in seconds at which the tests start. The epoch is not 0, because a time of 0
// means that the time is not set.
const epoch = 1_000_000

var node = gpudata.Place{Node: "n1"}

// The line function formats an event for comparisons.
func line(e Event) string {
	b := fmt.Sprintf("%ds %s %s", e.Time/1e9-epoch, e.Name, e.Device)
	if e.Own[0] != "" {
		b += " " + e.Own[0] + "=" + e.Own[1]
	}
	if from, ok := e.Texts[AttrFrom]; ok {
		b += fmt.Sprintf(" [%s]->[%s]", from, e.Texts[AttrTo])
	}
	if strings.HasPrefix(e.Name, "gpu.holder.") {
		b += " " + e.Holder.Pod
	}
	return fmt.Sprintf("%s x%d %s", b, e.Count, [...]string{"INFO", "WARN", "ERROR"}[e.Severity])
}

func at(s int64) time.Time { return time.Unix(epoch+s, 0) }

// history runs a tracker on frames of one node. The text contains one sample per line:
//
//	<seconds> <device>[=<serial number>][@<board>:<profile>] [<metric> <own attribute or -> <value> [since <seconds>]]
//	<seconds> <device>[@<board>:<profile>] held by <pod, or nobody> ...
//
// Lines with the same time form one frame. The clock is set to the sample time. Before each frame,
// history collects the tracker's delayed events.
func history(t *testing.T, text string) (got []string) {
	t.Helper()
	set := DefaultSettings()
	set.Holders = true
	tr := New(set)
	var f *gpudata.Frame
	run := func() {
		if f == nil {
			return
		}
		for _, e := range append(tr.Tick(time.Unix(0, f.Time)), tr.Frame(f, time.Unix(0, f.Time), nil)...) {
			got = append(got, line(e))
		}
	}
	for l := range strings.Lines(text) {
		w := strings.Fields(l)
		if len(w) == 0 {
			continue
		}
		var s int64
		_, err := fmt.Sscan(w[0], &s)
		require.NoError(t, err)
		s += epoch
		if f == nil || f.Time != s*1e9 {
			run()
			f = &gpudata.Frame{Place: node, Time: s * 1e9}
		}
		name, of, instance := strings.Cut(w[1], "@")
		id, serial, _ := strings.Cut(name, "=")
		d := f.Device(id)
		d.Observed, d.Serial = true, serial
		if instance {
			d.Parent, d.Profile, _ = strings.Cut(of, ":")
		}
		switch {
		case len(w) > 2 && w[2] == "unread":
			d.Observed, d.Unread = false, true
		case len(w) > 2 && w[2] == "held":
			d.HoldersKnown = true
			for _, pod := range w[4:] {
				if pod != "nobody" {
					d.User(gpudata.Holder{Namespace: "team", Pod: pod}).Holds = true
				}
			}
		case len(w) > 2:
			v := gpudata.Sample{Metric: metric(w[2]), Own: strings.Trim(w[3], "-")}
			_, err := fmt.Sscan(w[4], &v.Value)
			require.NoError(t, err)
			if len(w) > 5 {
				_, err := fmt.Sscan(w[6], &v.Start)
				require.NoError(t, err)
				v.Start = (v.Start + epoch) * 1e9
			}
			d.Samples.Add(v)
		}
	}
	run()
	return got
}

func metric(name string) *signal.Metric {
	if m, ok := signal.Lookup(name); ok {
		return m
	}
	return &signal.Metric{Name: name}
}

func TestEvents(t *testing.T) {
	for name, c := range map[string]struct {
		frames string
		want   []string
	}{
		"the values in the first frame are a baseline": {`
			10 GPU-1 hw.errors xid_31 3
			10 GPU-1 hw.status failed 1
			10 GPU-1 hw.gpu.memory.utilization - 0.99`, nil},
		"an XID that requires a reset is an error, and other XIDs are warnings": {`
			10 GPU-1 hw.errors xid_31 3
			10 GPU-1 hw.errors xid_95 0
			20 GPU-1 hw.errors xid_31 5
			20 GPU-1 hw.errors xid_95 1`, []string{
			"20s gpu.xid GPU-1 error.type=xid_31 x2 WARN", "20s gpu.xid GPU-1 error.type=xid_95 x1 ERROR",
		}},
		"the first holders are a baseline, and later changes are events": {`
			10 GPU-1 held by a
			20 GPU-1 held by a
			30 GPU-1 held by b
			40 GPU-1 held by nobody
			50 GPU-1 held by c`, []string{
			"30s gpu.holder.end GPU-1 a x1 INFO", "30s gpu.holder.start GPU-1 b x1 INFO",
			"40s gpu.holder.end GPU-1 b x1 INFO", "50s gpu.holder.start GPU-1 c x1 INFO",
		}},
		"unknown holders are not a change": {`
			10 GPU-1 held by a
			20 GPU-1 hw.errors corrected 0
			30 GPU-1 held by a`, nil},
		"events of different holders are not merged": {`
			10 GPU-1 held by a b
			20 GPU-1 held by b c d
			30 GPU-1 held by d`, []string{
			"20s gpu.holder.end GPU-1 a x1 INFO", "20s gpu.holder.start GPU-1 c x1 INFO", "20s gpu.holder.start GPU-1 d x1 INFO",
			"30s gpu.holder.end GPU-1 b x1 INFO", "30s gpu.holder.end GPU-1 c x1 INFO",
		}},
		"repeated starts and ends of one holder within the interval are not repeated": {`
			10 GPU-1 held by nobody
			20 GPU-1 held by a
			30 GPU-1 held by nobody
			40 GPU-1 held by a
			50 GPU-1 held by nobody
			95 GPU-1 held by nobody
			120 GPU-1 held by nobody`, []string{
			"20s gpu.holder.start GPU-1 a x1 INFO", "30s gpu.holder.end GPU-1 a x1 INFO",
			"40s gpu.holder.start GPU-1 a x1 INFO", "50s gpu.holder.end GPU-1 a x1 INFO",
		}},
		"holders of MIG instances do not hold the board": {`
			10 GPU-1 held by a
			10 GPU-1/gi1@GPU-1:1g held by a
			20 GPU-1 held by b
			20 GPU-1/gi1@GPU-1:1g held by b`, []string{
			"20s gpu.holder.end GPU-1/gi1 a x1 INFO", "20s gpu.holder.start GPU-1/gi1 b x1 INFO",
		}},
		"a removed instance has no holders": {`
			10 GPU-1/gi1@GPU-1:1g held by a
			10 GPU-1/gi2@GPU-1:1g held by b
			50 GPU-1/gi1@GPU-1:1g held by a
			100 GPU-1/gi1@GPU-1:1g held by a`, []string{
			"100s gpu.holder.end GPU-1/gi2 b x1 INFO", "100s gpu.partition.change GPU-1 [1g,1g]->[1g] x1 INFO",
		}},
		"the loss of a board ends its holdings, and a holder that returns with the board starts again": {`
			0 GPU-1 held by a
			0 GPU-2 held by c
			30 GPU-2 held by c
			90 GPU-2 held by c
			150 GPU-1 held by a
			150 GPU-2 held by c
			180 GPU-1 held by nobody
			180 GPU-2 held by c
			210 GPU-1 held by nobody`, []string{
			"90s gpu.holder.end GPU-1 a x1 INFO", "90s gpu.device.lost GPU-1 x1 ERROR",
			"150s gpu.device.found GPU-1 x1 INFO", "150s gpu.holder.start GPU-1 a x1 INFO",
			"180s gpu.holder.end GPU-1 a x1 INFO",
		}},
		"the loss of a board ends the holdings of its instances, and holders of the returning instances start": {`
			0 GPU-1/gi1@GPU-1:1g held by nobody
			0 GPU-1/gi2@GPU-1:1g held by b
			0 GPU-2
			10 GPU-1/gi1@GPU-1:1g held by a
			10 GPU-1/gi2@GPU-1:1g held by b
			10 GPU-2
			100 GPU-2
			150 GPU-1/gi1@GPU-1:1g held by c
			150 GPU-1/gi2@GPU-1:1g held by b
			150 GPU-2`, []string{
			"10s gpu.holder.start GPU-1/gi1 a x1 INFO",
			"100s gpu.holder.end GPU-1/gi1 a x1 INFO", "100s gpu.holder.end GPU-1/gi2 b x1 INFO", "100s gpu.device.lost GPU-1 x1 ERROR",
			"150s gpu.device.found GPU-1 x1 INFO", "150s gpu.holder.start GPU-1/gi1 c x1 INFO", "150s gpu.holder.start GPU-1/gi2 b x1 INFO",
		}},
		"the holders of a board that never returns end once, at the loss": {`
			0 GPU-1 held by a
			0 GPU-2
			90 GPU-2
			86500 GPU-2
			86600 GPU-2`, []string{"90s gpu.holder.end GPU-1 a x1 INFO", "90s gpu.device.lost GPU-1 x1 ERROR"}},
		"the holders of a board end when the board is partitioned": {`
			0 GPU-1 held by a
			10 GPU-1 held by b
			10 GPU-1/gi1@GPU-1:1g held by b
			20 GPU-1 held by b
			20 GPU-1/gi1@GPU-1:1g held by b
			120 GPU-1 held by c`, []string{
			"10s gpu.holder.end GPU-1 a x1 INFO", "10s gpu.partition.change GPU-1 []->[1g] x1 INFO",
			"120s gpu.holder.start GPU-1 c x1 INFO",
			"120s gpu.holder.end GPU-1/gi1 b x1 INFO", "120s gpu.partition.change GPU-1 [1g]->[] x1 INFO",
		}},
		"the holder of an instance that is removed and returns starts again": {`
			0 GPU-1/gi1@GPU-1:1g held by a
			0 GPU-1/gi2@GPU-1:1g held by b
			90 GPU-1/gi1@GPU-1:1g held by a
			150 GPU-1/gi1@GPU-1:1g held by a
			150 GPU-1/gi2@GPU-1:1g held by b`, []string{
			"90s gpu.holder.end GPU-1/gi2 b x1 INFO", "90s gpu.partition.change GPU-1 [1g,1g]->[1g] x1 INFO",
			"150s gpu.holder.start GPU-1/gi2 b x1 INFO", "150s gpu.partition.change GPU-1 [1g]->[1g,1g] x1 INFO",
		}},
		"equal events within the interval are merged": {`
			10 GPU-1 hw.errors corrected 0
			20 GPU-1 hw.errors corrected 1
			30 GPU-1 hw.errors corrected 3
			40 GPU-1 hw.errors corrected 6
			80 GPU-1 hw.errors corrected 6`, []string{
			"20s gpu.error GPU-1 error.type=corrected x1 WARN", "40s gpu.error GPU-1 error.type=corrected x5 WARN",
		}},
		"a counter that decreases was reset to zero": {`
			10 GPU-1 hw.errors corrected 9
			20 GPU-1 hw.errors corrected 2`, []string{"20s gpu.error GPU-1 error.type=corrected x2 WARN"}},
		"health and recovery action change": {`
			10 GPU-1 hw.status ok 1
			10 GPU-1 gpu.recovery.action none 1
			20 GPU-1 hw.status failed 1
			20 GPU-1 hw.status ok 0
			20 GPU-1 gpu.recovery.action gpu_reset 1`, []string{
			"20s gpu.status.change GPU-1 gpu.event.metric=hw.status [ok]->[failed] x1 ERROR",
			"20s gpu.status.change GPU-1 gpu.event.metric=gpu.recovery.action [none]->[gpu_reset] x1 WARN",
		}},
		"throttling starts at a tenth and ends below a twentieth": {`
			0 GPU-1 gpu.clock.throttle.time thermal 0
			30 GPU-1 gpu.clock.throttle.time thermal 3
			60 GPU-1 gpu.clock.throttle.time thermal 6
			90 GPU-1 gpu.clock.throttle.time thermal 7
			120 GPU-1 gpu.clock.throttle.time thermal 7`, []string{
			"30s gpu.throttle.start GPU-1 gpu.clock.violation=thermal x1 WARN",
			"120s gpu.throttle.end GPU-1 gpu.clock.violation=thermal x1 INFO",
		}},
		"throttling between the two thresholds is not an event": {`
			0 GPU-1 gpu.clock.throttle.time power 0
			30 GPU-1 gpu.clock.throttle.time power 15
			60 GPU-1 gpu.clock.throttle.time power 27
			90 GPU-1 gpu.clock.throttle.time power 42
			120 GPU-1 gpu.clock.throttle.time power 54`, []string{
			"30s gpu.throttle.start GPU-1 gpu.clock.violation=power x1 WARN",
		}},
		"sync boost is never throttling": {`
			0 GPU-1 gpu.clock.throttle.time sync_boost 0
			60 GPU-1 gpu.clock.throttle.time sync_boost 60`, nil},
		"the loss of a board ends its active conditions, and its return is an event": {`
			0 GPU-1 gpu.clock.throttle.time thermal 0
			0 GPU-2
			30 GPU-1 gpu.clock.throttle.time thermal 30
			30 GPU-2
			90 GPU-2
			120 GPU-2
			150 GPU-1
			150 GPU-2`, []string{
			"30s gpu.throttle.start GPU-1 gpu.clock.violation=thermal x1 WARN",
			"120s gpu.throttle.end GPU-1 gpu.clock.violation=thermal x1 INFO",
			"120s gpu.device.lost GPU-1  x1 ERROR", "150s gpu.device.found GPU-1  x1 INFO",
		}},
		"the error counters of an instance that returns continue": {`
			0 GPU-1/gi7@GPU-1:1g.10gb
			0 GPU-1/gi8@GPU-1:1g.10gb hw.errors xid_31 1
			30 GPU-1/gi7@GPU-1:1g.10gb
			120 GPU-1/gi7@GPU-1:1g.10gb
			150 GPU-1/gi7@GPU-1:1g.10gb
			150 GPU-1/gi8@GPU-1:1g.10gb hw.errors xid_31 2
			150 GPU-1/gi8@GPU-1:1g.10gb hw.errors xid_79 1 since 0
			180 GPU-1/gi8@GPU-1:1g.10gb hw.errors xid_79 1 since 0`, []string{
			"120s gpu.partition.change GPU-1 [1g.10gb,1g.10gb]->[1g.10gb] x1 INFO",
			"150s gpu.xid GPU-1/gi8 error.type=xid_31 x1 WARN", "150s gpu.xid GPU-1/gi8 error.type=xid_79 x1 ERROR",
			"150s gpu.partition.change GPU-1 [1g.10gb]->[1g.10gb,1g.10gb] x1 INFO",
		}},
		"the error counters of the instances of a board that returns continue": {`
			0 GPU-1/gi7@GPU-1:1g.10gb hw.errors xid_31 1
			0 GPU-2
			90 GPU-2
			120 GPU-2
			150 GPU-1/gi7@GPU-1:1g.10gb hw.errors xid_31 1
			150 GPU-1/gi7@GPU-1:1g.10gb hw.errors xid_79 1 since 0
			150 GPU-2`, []string{
			"90s gpu.device.lost GPU-1  x1 ERROR", "150s gpu.device.found GPU-1  x1 INFO", "150s gpu.xid GPU-1/gi7 error.type=xid_79 x1 ERROR",
		}},
		"a new board in a known place is an event": {`
			0 GPU-1
			10 GPU-1
			10 GPU-2`, []string{"10s gpu.device.found GPU-2  x1 INFO"}},
		"boards that appear before the second frame of any board are a baseline": {`
			0 GPU-1
			1 GPU-2 hw.errors xid_31 3
			2 GPU-3/gi1@GPU-3:7g
			3 GPU-4
			89 GPU-1
			89 GPU-2 hw.errors xid_31 4
			89 GPU-3/gi2@GPU-3:3g`, []string{
			"89s gpu.xid GPU-2 error.type=xid_31 x1 WARN", "89s gpu.partition.change GPU-3 [7g]->[3g] x1 INFO",
		}},
		"enabling MIG is one change": {`
			0 GPU-1
			10 GPU-1
			10 GPU-1/gi1@GPU-1:2g
			10 GPU-1/gi2@GPU-1:1g
			10 GPU-1/gi3@GPU-1:1g
			80 GPU-1`, []string{"10s gpu.partition.change GPU-1 []->[1g,1g,2g] x1 INFO"}},
		"the first known layout of a board that could not be read is a baseline": {`
			0 GPU-1 unread
			10 GPU-1 unread
			20 GPU-1
			20 GPU-1/gi1@GPU-1:3g
			100 GPU-1
			100 GPU-1/gi1@GPU-1:3g`, nil},
		"a new MIG layout is one change, sent immediately": {`
			0 GPU-1/gi1@GPU-1:7g
			10 GPU-1/gi2@GPU-1:1g
			100 GPU-1/gi2@GPU-1:1g`, []string{"10s gpu.partition.change GPU-1 [7g]->[1g] x1 INFO"}},
		"a new MIG layout is one change even if new instances reuse ids": {`
			0 GPU-1/gi1@GPU-1:1g held by a
			0 GPU-1/gi2@GPU-1:1g held by b
			0 GPU-1/gi3@GPU-1:1g held by c
			0 GPU-1/gi4@GPU-1:1g held by d
			10 GPU-1/gi1@GPU-1:2g held by a
			10 GPU-1/gi2@GPU-1:2g held by b
			100 GPU-1/gi1@GPU-1:2g
			100 GPU-1/gi2@GPU-1:2g`, []string{
			"10s gpu.holder.end GPU-1/gi3 c x1 INFO", "10s gpu.holder.end GPU-1/gi4 d x1 INFO",
			"10s gpu.partition.change GPU-1 [1g,1g,1g,1g]->[2g,2g] x1 INFO",
		}},
		"existing instances remain if new ones are added": {`
			0 GPU-1/gi1@GPU-1:1g
			0 GPU-1/gi2@GPU-1:1g
			10 GPU-1/gi2@GPU-1:1g
			10 GPU-1/gi3@GPU-1:2g`, []string{"10s gpu.partition.change GPU-1 [1g,1g]->[1g,2g] x1 INFO"}},
		"an instance that is missing for less than LostAfter is not a change": {`
			0 GPU-1/gi1@GPU-1:1g
			0 GPU-1/gi2@GPU-1:1g
			80 GPU-1/gi1@GPU-1:1g
			90 GPU-1/gi1@GPU-1:1g
			90 GPU-1/gi2@GPU-1:1g
			170 GPU-1/gi1@GPU-1:1g`, nil},
		"a profile that is unknown or becomes known is not a change": {`
			0 GPU-1/gi1@GPU-1:1g
			0 GPU-1/gi2@GPU-1
			10 GPU-1/gi1@GPU-1
			10 GPU-1/gi2@GPU-1:2g
			20 GPU-1/gi1@GPU-1:1g
			20 GPU-1/gi2@GPU-1:3g`, []string{"20s gpu.partition.change GPU-1 [1g,2g]->[1g,3g] x1 INFO"}},
		"a late frame does not change the layout": {`
			0 GPU-1/gi1@GPU-1:1g
			0 GPU-1/gi2@GPU-1:1g
			20 GPU-1/gi1@GPU-1:2g
			10 GPU-1/gi1@GPU-1:1g
			10 GPU-1/gi2@GPU-1:1g
			90 GPU-1/gi1@GPU-1:2g`, []string{"20s gpu.partition.change GPU-1 [1g,1g]->[2g] x1 INFO"}},
		"a board whose id changes from the UUID to the serial number when it is partitioned is not lost": {`
			0 U1=S1 held by a
			0 U2=S2
			30 U1=S1 hw.gpu.memory.utilization - 0.95
			60 U1=S1 hw.gpu.memory.utilization - 0.95
			80 U2=S2
			80 U3@S1 held by nobody
			80 U4@S1 held by b
			200 U1=S1 held by nobody
			200 U2=S2
			300 U1=S1 held by a
			300 U2=S2`, []string{
			"60s gpu.memory.pressure.start U1 x1 WARN",
			"80s gpu.memory.pressure.end U1 x1 INFO", "80s gpu.holder.end U1 a x1 INFO",
			"80s gpu.partition.change S1 []->[unknown,unknown] x1 INFO",
			"200s gpu.holder.end U4 b x1 INFO",
			"200s gpu.partition.change U1 [unknown,unknown]->[] x1 INFO", "300s gpu.holder.start U1 a x1 INFO",
		}},
		"such a board is not lost even if its first partition has the board's UUID": {`
			0 U1=S1
			10 U1@S1 held by a
			10 U2@S1
			20 U1=S1 held by nobody
			110 U1=S1 held by b
			200 U3=S3`, []string{
			"10s gpu.partition.change S1 []->[unknown,unknown] x1 INFO",
			"20s gpu.holder.end U1 a x1 INFO", "110s gpu.holder.start U1 b x1 INFO",
			"110s gpu.partition.change U1 [unknown,unknown]->[] x1 INFO", "200s gpu.device.found U3 x1 INFO",
			"200s gpu.holder.end U1 b x1 INFO", "200s gpu.device.lost U1 x1 ERROR",
		}},
		"a board whose serial number is the id of another board is a separate board": {`
			0 S1
			10 S1
			10 U1=S1`, []string{"10s gpu.device.found U1 x1 INFO"}},
		"memory pressure": {`
			0 GPU-1 hw.gpu.memory.utilization - 0.95
			30 GPU-1 hw.gpu.memory.utilization - 0.95
			60 GPU-1 hw.gpu.memory.utilization - 0.5
			90 GPU-1 hw.gpu.memory.utilization - 0.5`, []string{
			"30s gpu.memory.pressure.start GPU-1 x1 WARN", "90s gpu.memory.pressure.end GPU-1 x1 INFO",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			squeeze := func(lines []string) (out []string) {
				for _, l := range lines {
					out = append(out, strings.Join(strings.Fields(l), " "))
				}
				return out
			}
			assert.Equal(t, squeeze(c.want), squeeze(history(t, c.frames)))
		})
	}
}

func TestAnExporterThatStaysDownIsReportedAndItsDevicesAreNotLost(t *testing.T) {
	tr := New(DefaultSettings())
	up := func(s int64, up bool) []Event { return tr.Exporter(node, "", "http://e", up, at(s).UnixNano(), at(s)) }
	assert.Empty(t, up(0, true))
	assert.Empty(t, up(10, false))
	down := up(100, false)
	require.Len(t, down, 1)
	assert.Equal(t, ExporterDown, down[0].Name)
	// An exporter that responds with an empty body also counts as down.
	assert.Equal(t, "The exporter at http://e exposes no samples.", down[0].Body)
	assert.Empty(t, up(130, false))
	back := up(200, true)
	require.Len(t, back, 1)
	assert.Equal(t, ExporterUp, back[0].Name)
	assert.Equal(t, "The exporter at http://e exposes samples again.", back[0].Body)
}

// An agent that does not know the node's name may scrape two exporters on that node.
func TestTheBoardsOfAnExporterThatIsDownAreNotLostWhileAnotherAnswers(t *testing.T) {
	for name, of := range map[string]gpudata.Place{
		"the place of the exporter is known":               node,
		"the place of the exporter is that of its devices": {},
	} {
		t.Run(name, func(t *testing.T) {
			tr := New(DefaultSettings())
			var lost []string
			scrape := func(s int64, url, id string, up bool) {
				out := append(tr.Tick(at(s)), tr.Exporter(of, "", url, up, at(s).UnixNano(), at(s))...)
				if up {
					f := &gpudata.Frame{Place: node, Time: at(s).UnixNano()}
					f.Device(id).Observed = true
					out = append(out, tr.Frame(f, at(s), nil)...)
					tr.RecordResponse(url, []*gpudata.Frame{f})
				}
				for _, e := range out {
					lost = append(lost, line(e)+" "+e.Place.Node)
				}
			}
			run := func(from, to int64, b func(s int64) bool) {
				for s := from; s < to; s += 30 {
					scrape(s, "http://a", "GPU-1", true)
					scrape(s+1, "http://b", "GPU-2", b(s))
					scrape(s+2, "http://c", map[bool]string{true: "GPU-3", false: "GPU-4"}[s < 30], true)
				}
			}
			run(0, 600, func(s int64) bool { return s < 60 || s >= 300 })
			tr = restarted(t, tr)
			run(600, 900, func(int64) bool { return false })
			assert.Equal(t, []string{
				"32s gpu.device.found GPU-4 x1 INFO n1", "92s gpu.device.lost GPU-3 x1 ERROR n1",
				"151s gpu.exporter.down  url.full=http://b x1 WARN n1", "301s gpu.exporter.up  url.full=http://b x1 INFO n1",
				"691s gpu.exporter.down  url.full=http://b x1 WARN n1",
			}, lost)
		})
	}
}

// errorsAt returns a frame in which each error counter of GPU-1 has the value n.
func errorsAt(s int64, n float64, kinds int) *gpudata.Frame {
	f := &gpudata.Frame{Place: node, Time: at(s).UnixNano()}
	d := f.Device("GPU-1")
	d.Observed = true
	for k := range kinds {
		d.Samples.Add(gpudata.Sample{Metric: metric("hw.errors"), Own: fmt.Sprintf("kind_%d", k), Value: n})
	}
	return f
}

// The restarted function returns a new tracker with the stored state of another tracker.
func restarted(t *testing.T, tr *Tracker) *Tracker {
	t.Helper()
	next := New(DefaultSettings())
	for _, p := range tr.Places() {
		text, err := json.Marshal(tr.Store(stage.Key(p)))
		require.NoError(t, err)
		var stored Stored
		require.NoError(t, json.Unmarshal(text, &stored))
		require.NoError(t, next.Restore(&stored))
	}
	return next
}

func sum(events []Event) (n int64) {
	for _, e := range events {
		n += e.Count
	}
	return n
}

func TestNoErrorIsLostOrDoubledOverCleanRestarts(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		tr, total, told := New(DefaultSettings()), 0.0, int64(0)
		for s := int64(0); s < 2000; s += 1 + r.Int64N(80) {
			if s > 0 && r.IntN(3) == 0 {
				total += float64(r.IntN(4))
			}
			told += sum(tr.Tick(at(s))) + sum(tr.Frame(errorsAt(s, total, 1), at(s), nil))
			if r.IntN(4) == 0 {
				text, err := json.Marshal(tr.Store(stage.Key(node)))
				require.NoError(t, err)
				var stored Stored
				require.NoError(t, json.Unmarshal(text, &stored))
				tr = New(DefaultSettings())
				require.NoError(t, tr.Restore(&stored))
			}
		}
		told += sum(tr.Flush(at(3000)))
		require.EqualValues(t, total, told, "seed %d", seed)
	}
}

// A board is repartitioned at random, its instances reuse IDs, and some scrapes do not contain all
// rows.
func TestEveryReportedLayoutExisted(t *testing.T) {
	set := DefaultSettings()
	set.Interval = time.Second
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		tr, layout, told := New(set), map[int]string{}, ""
		were, last := map[string]bool{"": true}, map[int]string{}
		see := func(s int64, hidden int) {
			f := &gpudata.Frame{Place: node, Time: at(s).UnixNano()}
			f.Device("GPU-1").Observed = true
			for gi, profile := range layout {
				if gi != hidden {
					d := f.Device(fmt.Sprint("GPU-1/gi", gi))
					d.Observed, d.Parent, d.Profile = true, "GPU-1", profile
				}
			}
			for _, e := range append(tr.Tick(at(s)), tr.Frame(f, at(s), nil)...) {
				require.Equal(t, PartitionChange, e.Name)
				require.EqualValues(t, 1, e.Count)
				require.Equal(t, told, e.Texts[AttrFrom], "seed %d, %d s", seed, s)
				told = e.Texts[AttrTo]
				require.True(t, were[told], "seed %d, %d s: %q", seed, s, told)
			}
		}
		see(0, 0)
		for s := int64(10); s < 3000; s += 10 {
			hidden := 0
			switch r.IntN(8) {
			case 0: // delete some instances and create others
				maps.Copy(last, layout)
				for gi := 1; gi < 15; gi++ {
					if r.IntN(2) == 0 {
						delete(layout, gi)
					}
				}
				for range r.IntN(4) {
					gi, profile := 1+r.IntN(14), []string{"1g", "2g", "3g"}[r.IntN(3)]
					if last[gi] != profile { // an instance with the same profile would look like the deleted instance
						layout[gi] = profile
					}
				}
			case 1:
				hidden = r.IntN(15)
			}
			were[cut(layout)] = true
			if hidden != 0 {
				see(s, hidden)
				s += 10
			}
			see(s, 0)
		}
		see(3100, 0)
		require.Equal(t, cut(layout), told, "seed %d", seed)
	}
}

func cut(layout map[int]string) string { return strings.Join(slices.Sorted(maps.Values(layout)), ",") }

// A board that is not in the stored state is new, because the baseline ended before the restart.
func TestANewBoardAfterARestartIsFound(t *testing.T) {
	for _, test := range []struct {
		state bool
		want  int
	}{{true, 1}, {false, 0}} {
		tr := New(DefaultSettings())
		assert.Empty(t, tr.Frame(errorsAt(0, 0, 1), at(0), nil))
		assert.Empty(t, tr.Frame(errorsAt(100, 0, 1), at(100), nil))
		text, err := json.Marshal(tr.Store(stage.Key(node)))
		require.NoError(t, err)
		tr = New(DefaultSettings())
		if test.state {
			var stored Stored
			require.NoError(t, json.Unmarshal(text, &stored))
			require.NoError(t, tr.Restore(&stored))
		}
		assert.Empty(t, tr.Frame(errorsAt(110, 0, 1), at(110), nil))
		f := errorsAt(111, 0, 1)
		f.Device("GPU-2").Observed = true
		f.Devices = slices.DeleteFunc(f.Devices, func(d *gpudata.DeviceFrame) bool { return d.Device.ID() == "GPU-1" }) // GPU-1 belongs to another exporter
		assert.Len(t, tr.Frame(f, at(111), nil), test.want)
	}
}

func TestAStormOfRepeatsStaysBoundedAndIsCounted(t *testing.T) {
	const kinds, repeats = 29, 800_000 / 29
	tr, records, told := New(DefaultSettings()), 0, int64(0)
	note := func(events []Event) { records += len(events); told += sum(events) }
	for i := range int64(repeats + 1) {
		note(tr.Tick(at(i)))
		note(tr.Frame(errorsAt(i, float64(i), kinds), at(i), nil))
	}
	note(tr.Flush(at(repeats + 1)))
	assert.EqualValues(t, kinds*repeats, told)
	assert.LessOrEqual(t, records, kinds*(repeats/60+3))
	assert.Len(t, tr.outlet.folds, kinds)
}

func TestSuppressedEventsAreCountedAndReported(t *testing.T) {
	set := DefaultSettings()
	set.MaxPerMinute = 2
	tr := New(set)
	tr.Frame(errorsAt(0, 0, 5), at(0), nil)
	assert.Len(t, tr.Frame(errorsAt(10, 1, 5), at(10), nil), 2)
	assert.Empty(t, tr.Tick(at(60)))
	said := tr.Tick(at(70))
	require.Len(t, said, 1)
	assert.Equal(t, Suppressed, said[0].Name)
	assert.EqualValues(t, 3, said[0].Count)
}

func TestSuppressedEventsAreReportedAtShutdown(t *testing.T) {
	set := DefaultSettings()
	set.MaxPerMinute = 1
	tr := New(set)
	tr.Frame(errorsAt(0, 0, 3), at(0), nil)
	require.Len(t, tr.Frame(errorsAt(10, 1, 3), at(10), nil), 1)
	said := tr.Suppressed(at(11))
	require.Len(t, said, 1)
	assert.EqualValues(t, 2, said[0].Count)
	assert.Empty(t, tr.Suppressed(at(12)))
}

func TestTheStateIsBounded(t *testing.T) {
	tr := New(DefaultSettings())
	for i := range maxPlaces + 5 {
		f := errorsAt(0, 0, 1)
		f.Place.Node = fmt.Sprint("n", i)
		tr.Frame(f, at(0), nil)
	}
	assert.Len(t, tr.Places(), maxPlaces)
	assert.EqualValues(t, 5, tr.Refused.Load())
	for i := range maxExporters + 5 {
		tr.Exporter(gpudata.Place{Node: "n0"}, "", fmt.Sprint("http://e", i), true, at(0).UnixNano(), at(0))
	}
	assert.Len(t, placeOf(tr, gpudata.Place{Node: "n0"}).Exporters, maxExporters)
	assert.Len(t, tr.Forget(at(86_401)), maxPlaces, "the nodes sent nothing for a day")
	assert.Empty(t, tr.Places())
}

// BenchmarkFrame uses a node with 8 boards of 7 instances each. All instances have a holder.
func BenchmarkFrame(b *testing.B) {
	tr := New(DefaultSettings())
	f := &gpudata.Frame{Place: node}
	devices := 0
	for i := range 8 {
		for k := range 8 {
			id := fmt.Sprintf("GPU-%d", i)
			d := f.Device(id + [...]string{"", "/gi7", "/gi8", "/gi9", "/gi10", "/gi11", "/gi12", "/gi13"}[k])
			d.Observed = true
			devices++
			if k > 0 {
				d.Parent, d.Profile = id, "1g.10gb"
				d.User(gpudata.Holder{Namespace: "team", Pod: fmt.Sprint("pod-", i, "-", k), Container: "main"}).Holds = true
			}
			for _, own := range []string{"power", "thermal", "sync_boost", "board_limit"} {
				d.Samples.Add(gpudata.Sample{Metric: metric(throttleTime), Own: own})
			}
			d.Samples.Add(gpudata.Sample{Metric: metric("hw.errors"), Own: "xid_31"})
			d.Samples.Add(gpudata.Sample{Metric: metric("hw.gpu.memory.utilization"), Value: 0.5})
			for range 20 {
				d.Samples.Add(gpudata.Sample{Metric: metric("gpu.sm.active"), Value: 0.5})
			}
		}
	}
	for b.Loop() {
		f.Time += 10e9
		tr.Frame(f, time.Unix(0, f.Time), nil)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(devices), "ns/device")
}

func TestEventsOfHoldersAreDisabledByDefault(t *testing.T) {
	tr := New(DefaultSettings())
	for i, pod := range []string{"a", "b"} {
		f := &gpudata.Frame{Place: node, Time: at(int64(10 * i)).UnixNano()}
		d := f.Device("GPU-1")
		d.Observed, d.HoldersKnown = true, true
		d.User(gpudata.Holder{Namespace: "team", Pod: pod}).Holds = true
		assert.Empty(t, tr.Frame(f, at(int64(10*i)), nil))
	}
}

func TestALostBoardIsReportedWithItsHolderAndFoundWithout(t *testing.T) {
	tr := New(DefaultSettings())
	var got []string
	see := func(s int64, boards ...string) {
		f := &gpudata.Frame{Place: node, Time: at(s).UnixNano()}
		for _, id := range boards {
			d := f.Device(id)
			d.Observed, d.HoldersKnown = true, true
			d.User(gpudata.Holder{Namespace: "team", Pod: "pod-of-" + id}).Holds = true
		}
		for _, e := range append(tr.Tick(at(s)), tr.Frame(f, at(s), nil)...) {
			got = append(got, line(e)+" "+e.Holder.Pod)
		}
	}
	see(0, "GPU-1", "GPU-2")
	see(90, "GPU-2")
	see(3600, "GPU-1", "GPU-2")
	assert.Equal(t, []string{
		"90s gpu.device.lost GPU-1 x1 ERROR pod-of-GPU-1",
		"3600s gpu.device.found GPU-1 x1 INFO ", // the pod may have ended during the hour
	}, got)
}

// A board may be replaced while its exporter is down for more than a day. Another exporter in the
// place is up.
func TestABoardThatDisappearsWhileItsExporterIsDownForADayIsLost(t *testing.T) {
	set := DefaultSettings()
	set.Holders = true
	tr := New(set)
	var got []string
	scrape := func(s int64, url, id string, up bool) {
		out := append(tr.Tick(at(s)), tr.Exporter(node, "", url, up, at(s).UnixNano(), at(s))...)
		if up {
			f := &gpudata.Frame{Place: node, Time: at(s).UnixNano()}
			d := f.Device(id)
			d.Observed, d.HoldersKnown = true, true
			d.User(gpudata.Holder{Namespace: "team", Pod: "pod-of-" + id}).Holds = true
			out = append(out, tr.Frame(f, at(s), nil)...)
			tr.RecordResponse(url, []*gpudata.Frame{f})
		}
		for _, e := range out {
			got = append(got, strings.TrimSpace(line(e)))
		}
	}
	const day = 86_400
	for s := int64(0); s < day+1000; s += 50 {
		down, old := s >= 100 && s < day+500, s < 100
		scrape(s, "http://a", "GPU-1", true)
		scrape(s+1, "http://b", map[bool]string{true: "GPU-2", false: "GPU-3"}[old], !down)
	}
	assert.Equal(t, []string{
		"201s gpu.exporter.down  url.full=http://b x1 WARN",
		"86901s gpu.exporter.up  url.full=http://b x1 INFO", "86901s gpu.device.found GPU-3 x1 INFO",
		"87000s gpu.holder.end GPU-2 pod-of-GPU-2 x1 INFO", "87000s gpu.device.lost GPU-2 x1 ERROR",
	}, got)
	assert.NotContains(t, placeOf(tr, node).Devices, "GPU-2")
}

func TestAStateWithHoldersCausesNoEventsAfterHoldersAreDisabled(t *testing.T) {
	set := DefaultSettings()
	set.Holders = true
	tr := New(set)
	see := func(s int64, ids ...string) (names []string) {
		f := &gpudata.Frame{Place: node, Time: at(s).UnixNano()}
		for _, id := range ids {
			d := f.Device(id)
			d.Observed, d.HoldersKnown = true, true
			d.User(gpudata.Holder{Namespace: "team", Pod: "a"}).Holds = true
		}
		for _, e := range append(tr.Tick(at(s)), tr.Frame(f, at(s), nil)...) {
			names = append(names, line(e))
		}
		return names
	}
	assert.Empty(t, see(0, "GPU-1", "GPU-2"))
	tr = restarted(t, tr) // with the default settings
	assert.Empty(t, see(10, "GPU-1", "GPU-2"))
	assert.Equal(t, []string{"100s gpu.device.lost GPU-1 x1 ERROR"}, see(100, "GPU-2"))
}

// If a collector is down, all exporters in a place stop providing samples at the same time, and
// each of them is first scraped again at a different time. A board that has been exchanged in the
// meantime is still lost.
func TestBoardsOfAnExporterThatIsScrapedLaterAfterADowntimeAreNotLost(t *testing.T) {
	set := DefaultSettings()
	set.Holders = true
	tr := New(set)
	var got []string
	scrape := func(s int64, url string, ids ...string) {
		out := append(tr.Tick(at(s)), tr.Exporter(node, "", url, true, at(s).UnixNano(), at(s))...)
		f := &gpudata.Frame{Place: node, Time: at(s).UnixNano()}
		for _, id := range ids {
			d := f.Device(id)
			d.Observed, d.HoldersKnown = true, true
			d.User(gpudata.Holder{Namespace: "team", Pod: "pod-of-" + id}).Holds = true
		}
		out = append(out, tr.Frame(f, at(s), nil)...)
		tr.RecordResponse(url, []*gpudata.Frame{f})
		for _, e := range out {
			got = append(got, strings.TrimSpace(line(e)))
		}
	}
	for s := int64(0); s <= 100; s += 50 {
		scrape(s, "http://a", "GPU-1", "GPU-2")
		scrape(s+25, "http://b", "GPU-3")
	}
	text, err := json.Marshal(tr.Store(stage.Key(node)))
	require.NoError(t, err)
	var stored Stored
	require.NoError(t, json.Unmarshal(text, &stored))
	tr = New(set)
	require.NoError(t, tr.Restore(&stored))
	for s := int64(400); s <= 550; s += 50 {
		scrape(s, "http://a", "GPU-1")
		scrape(s+25, "http://b", "GPU-3")
	}
	assert.Equal(t, []string{"400s gpu.holder.end GPU-2 pod-of-GPU-2 x1 INFO", "400s gpu.device.lost GPU-2 x1 ERROR"}, got)
}

func TestHoldersAndMergedEventsSurviveARestart(t *testing.T) {
	set := DefaultSettings()
	set.Holders = true
	tr := New(set)
	see := func(s int64, pods ...string) (names []string) {
		f := &gpudata.Frame{Place: node, Time: at(s).UnixNano()}
		d := f.Device("GPU-1")
		d.Observed, d.HoldersKnown = true, true
		for _, pod := range pods {
			d.User(gpudata.Holder{Namespace: "team", Pod: pod, UID: "uid-" + pod}).Holds = true
		}
		for _, e := range append(tr.Tick(at(s)), tr.Frame(f, at(s), nil)...) {
			names = append(names, line(e))
		}
		return names
	}
	assert.Empty(t, see(10, "a"))
	assert.Equal(t, []string{"20s gpu.holder.end GPU-1 a x1 INFO"}, see(20))
	assert.Equal(t, []string{"30s gpu.holder.start GPU-1 a x1 INFO"}, see(30, "a"))
	assert.Empty(t, see(40), "the event is delayed to be merged")

	text, err := json.Marshal(tr.Store(stage.Key(node)))
	require.NoError(t, err)
	var stored Stored
	require.NoError(t, json.Unmarshal(text, &stored))
	tr = New(set)
	require.NoError(t, tr.Restore(&stored))
	assert.Equal(t, []string{"50s gpu.holder.start GPU-1 b x1 INFO"}, see(50, "b"))
	assert.Equal(t, []string{"40s gpu.holder.end GPU-1 a x1 INFO"}, see(90, "b"))
}

// placeOf returns the state of a place.
func placeOf(tr *Tracker, at gpudata.Place) (p *place) {
	tr.places.Visit(at, func(of *place) { p = of })
	return p
}

// In the receivers' stages without gpu_k8s, only the labels of the exporter name the holders. A frame
// that names no holder leaves the holders unknown.
func TestHoldersFromLabelsHaveEventsWithoutGPUK8s(t *testing.T) {
	set := DefaultSettings()
	set.Holders = true
	tr := New(set)
	var got []string
	for i, pod := range []string{"a", "", "b", "b"} {
		f := &gpudata.Frame{Place: node, Time: at(int64(10 * i)).UnixNano()}
		d := f.Device("GPU-1")
		d.Observed = true
		if pod != "" {
			d.User(gpudata.Holder{Namespace: "team", Pod: pod}).Holds = true
		}
		for _, e := range tr.Frame(f, at(int64(10*i)), nil) {
			got = append(got, line(e))
		}
	}
	assert.Equal(t, []string{"20s gpu.holder.end GPU-1 a x1 INFO", "20s gpu.holder.start GPU-1 b x1 INFO"}, got)
}

// Otherwise, the errors of an earlier holder would be counted for a later holder.
func TestErrorsOfDifferentHoldersAreNotMerged(t *testing.T) {
	tr := New(DefaultSettings())
	var got []string
	see := func(s int64, pod string, errors float64) {
		f := &gpudata.Frame{Place: node, Time: at(s).UnixNano()}
		d := f.Device("GPU-1")
		d.Observed, d.HoldersKnown = true, true
		d.User(gpudata.Holder{Namespace: "team", Pod: pod}).Holds = true
		d.Samples.Add(gpudata.Sample{Metric: metric("hw.errors"), Own: "xid_31", Value: errors})
		for _, e := range append(tr.Tick(at(s)), tr.Frame(f, at(s), nil)...) {
			if e.Name == XID {
				got = append(got, fmt.Sprintf("%s x%d", e.Holder.Pod, e.Count))
			}
		}
	}
	see(0, "a", 0)
	see(10, "a", 1)
	see(20, "a", 6)
	see(30, "b", 6)
	see(40, "b", 7)
	see(100, "b", 7)
	assert.Equal(t, []string{"a x1", "b x1", "a x5"}, got)
}

func TestTheBodyOfAMergedEventAgreesWithItsAttributes(t *testing.T) {
	tr := New(DefaultSettings())
	var got []string
	for i, state := range []string{"ok", "failed", "ok", "degraded"} {
		s := int64(10 * i)
		f := &gpudata.Frame{Place: node, Time: at(s).UnixNano()}
		d := f.Device("GPU-1")
		d.Observed = true
		d.Samples.Add(gpudata.Sample{Metric: metric("hw.errors"), Own: "corrected", Value: float64(i * i)})
		d.Samples.Add(gpudata.Sample{Metric: metric(statusMetric), Own: state, Value: 1})
		for _, e := range tr.Frame(f, at(s), nil) {
			got = append(got, e.Body)
		}
	}
	for _, e := range tr.Tick(at(100)) {
		got = append(got, e.Body)
	}
	assert.Equal(t, []string{
		"GPU GPU-1: 1 x corrected.", "GPU GPU-1: hw.status changed from ok to failed.",
		"GPU GPU-1: 8 x corrected.", "GPU GPU-1: hw.status changed 2 times, from failed to degraded.",
	}, got)
}

func TestAMergedEventHasTheHighestSeverity(t *testing.T) {
	tr := New(DefaultSettings())
	for i, state := range []string{"ok", "degraded", "failed", "degraded"} {
		f := &gpudata.Frame{Place: node, Time: at(int64(10 * i)).UnixNano()}
		d := f.Device("GPU-1")
		d.Observed = true
		d.Samples.Add(gpudata.Sample{Metric: metric(statusMetric), Own: state, Value: 1})
		tr.Frame(f, at(int64(10*i)), nil)
	}
	out := tr.Tick(at(100))
	require.Len(t, out, 1)
	assert.Equal(t, Err, out[0].Severity, "the board failed in between")
}

func TestASuppressedIncidentCountsAsOneEvent(t *testing.T) {
	set := DefaultSettings()
	set.MaxPerMinute = 1
	tr := New(set)
	for i, total := range []float64{0, 1, 101} {
		f := &gpudata.Frame{Place: node, Time: at(int64(10 * i)).UnixNano()}
		d := f.Device("GPU-1")
		d.Observed = true
		d.Samples.Add(gpudata.Sample{Metric: metric("hw.errors"), Own: "xid_31", Value: total})
		tr.Frame(f, at(int64(10*i)), nil)
	}
	out := tr.Flush(at(30))
	require.Len(t, out, 1)
	assert.EqualValues(t, 101, out[0].Count, "100 XID errors and one incident")
}

// The exporter http://a, which exposed GPU-1, is no longer scraped, for example because its pod was
// deleted. Another exporter of the node is still up.
func TestTheBoardsOfAnExporterThatIsNoLongerScrapedAreLostOnlyIfItsSuccessorLacksThem(t *testing.T) {
	for name, c := range map[string]struct {
		failed    bool     // whether the last scrape of http://a fails
		successor []string // the boards of http://c, which appears at 200s
		want      []string
	}{
		"no successor":              {false, nil, nil},
		"a successor with GPU-1":    {false, []string{"GPU-1", "GPU-3"}, []string{"200s gpu.device.found GPU-3 x1 INFO"}},
		"a successor without GPU-1": {false, []string{"GPU-3"}, []string{"200s gpu.device.found GPU-3 x1 INFO", "290s gpu.device.lost GPU-1 x1 ERROR"}},
		"a successor without GPU-1 after a failed scrape": {
			true, []string{"GPU-3"}, []string{"200s gpu.device.found GPU-3 x1 INFO", "290s gpu.device.lost GPU-1 x1 ERROR"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tr := New(DefaultSettings())
			var got []string
			scrape := func(s int64, url string, boards ...string) {
				out := tr.Exporter(node, "", url, true, at(s).UnixNano(), at(s))
				f := &gpudata.Frame{Place: node, Time: at(s).UnixNano()}
				for _, id := range boards {
					f.Device(id).Observed = true
				}
				out = append(out, tr.Frame(f, at(s), nil)...)
				tr.RecordResponse(url, []*gpudata.Frame{f})
				for _, e := range out {
					got = append(got, line(e))
				}
			}
			for s := int64(0); s < 600; s += 10 {
				if s < 100 {
					scrape(s, "http://a", "GPU-1")
				}
				if s == 100 && c.failed {
					assert.Empty(t, tr.Exporter(node, "", "http://a", false, at(s).UnixNano(), at(s)))
				}
				if s >= 200 && c.successor != nil {
					scrape(s, "http://c", c.successor...)
				}
				scrape(s+1, "http://b", "GPU-2")
			}
			assert.Equal(t, c.want, got)
		})
	}
}

func TestAnExporterFromBeforeAClockStepIsNotASuccessor(t *testing.T) {
	tr := New(DefaultSettings())
	var got []string
	scrape := func(s, wall int64, url, board string) {
		out := tr.Exporter(node, "", url, true, at(s).UnixNano(), at(wall))
		f := &gpudata.Frame{Place: node, Time: at(s).UnixNano()}
		f.Device(board).Observed = true
		out = append(out, tr.Frame(f, at(wall), nil)...)
		tr.RecordResponse(url, []*gpudata.Frame{f})
		for _, e := range out {
			got = append(got, line(e))
		}
	}
	for wall := int64(0); wall < 1800; wall += 10 {
		s := wall
		if wall >= 600 {
			s -= 1000 // the clock was set back
		}
		if wall < 760 {
			scrape(s, wall, "http://a", "GPU-1")
		}
		scrape(s+1, wall+1, "http://b", "GPU-2")
	}
	assert.Empty(t, got)
}
