package events

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// clocked is a tracker of a node whose clock differs from the tracker's clock.
type clocked struct {
	*Tracker
	ahead int64 // how far the node's clock is ahead of the wall clock, in seconds
	got   []string
}

// see sends the tracker a frame with GPU-1 at the given wall clock time, which is in seconds. The
// frame contains the given total for XID 31, and may contain other boards.
func (c *clocked) see(wall int64, xids float64, others ...string) {
	c.frame(wall, c.ahead, xids, others...)
}

func (c *clocked) frame(wall, ahead int64, xids float64, others ...string) {
	f := &gpudata.Frame{Place: node, Time: at(wall + ahead).UnixNano()}
	d := f.Device("GPU-1")
	d.Observed = true
	d.Samples.Add(gpudata.Sample{Metric: metric("hw.errors"), Own: "xid_31", Value: xids})
	for _, id := range others {
		f.Device(id).Observed = true
	}
	c.note(c.Tick(at(wall)))
	c.note(c.Frame(f, at(wall), nil))
}

func (c *clocked) note(events []Event) {
	for _, e := range events {
		if e.Name != XIDIncident {
			c.got = append(c.got, line(e))
		}
	}
}

func TestAFrameFromTheFutureAddsAndHidesNoEvent(t *testing.T) {
	c := &clocked{Tracker: New(DefaultSettings())}
	c.see(0, 0)
	c.frame(5, 86_400, 7)
	c.frame(6, 61, 8)
	assert.EqualValues(t, 2, c.Skipped[Future].Load())
	c.see(10, 1)
	c.Tracker = restarted(t, c.Tracker)
	c.see(100, 3)
	assert.Equal(t, []string{"10s gpu.xid GPU-1 error.type=xid_31 x1 WARN", "100s gpu.xid GPU-1 error.type=xid_31 x2 WARN"}, c.got)
}

func TestAClockThatIsSetBackIsABaselineAndNotAnEvent(t *testing.T) {
	for name, restart := range map[string]bool{"went on": false, "restarted": true} {
		t.Run(name, func(t *testing.T) {
			c := &clocked{Tracker: New(DefaultSettings())}
			c.see(0, 0)
			c.see(10, 0)
			if c.ahead = -3600; restart {
				c.Tracker = restarted(t, c.Tracker)
			}
			for wall := int64(20); wall <= 130; wall += 10 { // two XIDs occur while all samples are older than the newest sample
				c.see(wall, float64(min(wall/30, 2)))
			}
			assert.Empty(t, c.got)
			assert.EqualValues(t, 1, c.Skipped[ClockSetBack].Load())
			c.see(140, 3)
			assert.Equal(t, []string{"-3460s gpu.xid GPU-1 error.type=xid_31 x1 WARN"}, c.got)
		})
	}
}

func TestOneBatchFromAnHourAgoChangesNothing(t *testing.T) {
	c := &clocked{Tracker: New(DefaultSettings())}
	c.see(0, 5)
	c.see(10, 5)
	c.frame(15, -3600, 2)
	c.see(20, 6)
	assert.Equal(t, []string{"20s gpu.xid GPU-1 error.type=xid_31 x1 WARN"}, c.got)
}

func TestABoardIsLostAndFoundAfterTheClockWasSetBack(t *testing.T) {
	c := &clocked{Tracker: New(DefaultSettings())}
	c.see(0, 0, "GPU-2")
	c.see(10, 0, "GPU-2")
	c.ahead = -3600
	for wall := int64(20); wall <= 300; wall += 10 { // GPU-2 has been missing since the clock was set back
		c.see(wall, 0)
	}
	c.see(310, 0, "GPU-2")
	assert.Equal(t, []string{
		"-3390s gpu.device.lost GPU-2 x1 ERROR", // 90 s after the clock was set back; the last frame before that contained GPU-2
		"-3290s gpu.device.found GPU-2 x1 INFO",
	}, c.got)
}

func TestALateFrameDoesNotFindABoardThatWasLostLater(t *testing.T) {
	c := &clocked{Tracker: New(DefaultSettings())}
	c.see(0, 0, "GPU-2")
	for wall := int64(10); wall <= 100; wall += 10 {
		c.see(wall, 0)
	}
	c.frame(101, -50, 0, "GPU-2")
	assert.Equal(t, []string{"90s gpu.device.lost GPU-2 x1 ERROR"}, c.got)
	c.see(110, 0, "GPU-2")
	assert.Len(t, c.got, 2)
}

func TestActiveConditionsContinueWhenTheClockIsSetBack(t *testing.T) {
	tr := New(DefaultSettings())
	var got []string
	see := func(wall, sample int64, used float64) {
		f := &gpudata.Frame{Place: node, Time: at(sample).UnixNano()}
		d := f.Device("GPU-1")
		d.Observed = true
		d.Samples.Add(gpudata.Sample{Metric: metric("hw.gpu.memory.utilization"), Value: used})
		for _, e := range append(tr.Tick(at(wall)), tr.Frame(f, at(wall), nil)...) {
			got = append(got, fmt.Sprintf("%s %.0f", line(e), e.Numbers[AttrDuration]))
		}
	}
	for s := int64(0); s <= 60; s += 10 {
		see(s, s, 0.95)
	}
	for s := int64(70); s <= 400; s += 10 {
		used := 0.95
		if s >= 300 {
			used = 0.1
		}
		see(s, s-3600, used)
	}
	// Only samples that arrive at 170 s or later determine the end of the condition.
	assert.Equal(t, []string{"30s gpu.memory.pressure.start GPU-1 x1 WARN 0", "-3270s gpu.memory.pressure.end GPU-1 x1 INFO 190"}, got)
}

func TestAnExporterIsDownAndUpAfterTheClockWasSetBack(t *testing.T) {
	tr := New(DefaultSettings())
	var got []string
	up := func(wall, sample int64, up bool) {
		for _, e := range append(tr.Tick(at(wall)), tr.Exporter(node, "", "http://e", up, at(sample).UnixNano(), at(wall))...) {
			got = append(got, line(e))
		}
	}
	up(0, 0, true)
	up(5, -3595, false) // a late sample: the exporter has responded since the sample's timestamp
	up(10, 10, false)
	up(15, 86_400, true) // a sample from the future
	up(20, 20, false)
	for wall := int64(30); wall <= 300; wall += 10 {
		up(wall, wall-3600, wall > 250)
	}
	assert.Equal(t, []string{
		"-3390s gpu.exporter.down  url.full=http://e x1 WARN", "-3340s gpu.exporter.up  url.full=http://e x1 INFO",
	}, got)
}

// The state of a node whose clock is more than a day behind must not be deleted at every tick.
func TestANodeWhoseClockIsSlowHasEvents(t *testing.T) {
	c := &clocked{Tracker: New(DefaultSettings()), ahead: -2 * 86_400}
	for wall := int64(0); wall <= 120; wall += 10 {
		c.see(wall, float64(wall/50))
		require.Empty(t, c.Forget(at(wall)))
	}
	assert.Len(t, c.got, 2)
	assert.Len(t, c.Forget(at(86_521)), 1, "the node sent nothing for a day")
}

// Frames with wrong timestamps must neither cause nor hide events.
func TestWrongTimestampsOfSingleFramesAddAndHideNoEvent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		right, wrong := &clocked{Tracker: New(DefaultSettings())}, &clocked{Tracker: New(DefaultSettings())}
		xids := 0.0
		for wall := int64(10); wall < 1000; wall += rapid.Int64Range(1, 80).Draw(t, "step") {
			if rapid.IntRange(0, 3).Draw(t, "wrong") == 0 {
				ahead := rapid.SampledFrom([]int64{61, 3600, 86_400, -3600}).Draw(t, "ahead")
				if wall > 10 || ahead > 0 {
					wrong.frame(wall, ahead, rapid.Float64Range(0, 9).Draw(t, "value"))
				}
			}
			xids += float64(rapid.IntRange(0, 2).Draw(t, "xids"))
			right.see(wall, xids)
			wrong.see(wall, xids)
		}
		right.note(right.Flush(at(2000)))
		wrong.note(wrong.Flush(at(2000)))
		require.Equal(t, right.got, wrong.got)
	})
}
