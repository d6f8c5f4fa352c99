package usage

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

const paceGap = 90 * time.Second

var wrongs = rapid.OneOf(rapid.Int64Range(-7200, -31), rapid.Int64Range(31, 7200))

// accounts adds up the increases in the counters of a Ledger, as a backend does.
type accounts struct {
	Ledger
	ended float64 // ended is the total of all counters before the counters restarted.
	last  float64
}

// frame adds a frame with the time t. The board in the frame is unallocated.
func (a *accounts) frame(t int64, now time.Time, maxGap time.Duration) Step {
	step, from, length := a.Advance(t, now, maxGap)
	if step == Restarted {
		a.ended += a.last
	}
	if step == Charged {
		a.Charge(Interval{From: from, Length: length}, 1, 0)
	}
	a.last = a.Unallocated.Value + a.Unobserved.Value
	return step
}

func (a *accounts) total() float64 { return a.ended + a.last }

// The counted time equals the time that has passed, even if the clock of a node is changed.
func TestAClockStepDoesNotChangeTheCountedTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		maxGap := rapid.SampledFrom([]time.Duration{15 * time.Second, paceGap}).Draw(t, "max_gap")
		interval := rapid.SampledFrom([]time.Duration{time.Second, 10 * time.Second}).Draw(t, "interval")
		began := time.Unix(1_700_000_000, 0)
		now := began
		offset := time.Duration(rapid.Int64Range(-7200, 55).Draw(t, "offset")) * time.Second
		var a accounts
		steps := rapid.IntRange(0, 4).Draw(t, "steps")
		for range steps {
			for range rapid.IntRange(2, 40).Draw(t, "frames") {
				a.frame(now.Add(offset).UnixNano(), now, maxGap)
				now = now.Add(interval)
			}
			offset = time.Duration(rapid.OneOf(rapid.Int64Range(-7200, 7200), rapid.Int64Range(-100, 55), rapid.Just(int64(0))).Draw(t, "offset")) * time.Second
		}
		// In the last part of the test, the clock is correct.
		for range 300*time.Second/interval + 1 {
			a.frame(now.UnixNano(), now, maxGap)
			now = now.Add(interval)
		}
		passed := (now.Sub(began) - interval).Seconds()
		// Forward clock steps of up to maxRise cannot be distinguished from delays.
		tolerance := float64(steps+1) * (maxRise + interval).Seconds()
		require.InDelta(t, passed, a.total(), tolerance)
	})
}

// One frame has a wrong timestamp. All other timestamps are correct.
func TestOneWrongTimestampAddsNoTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		maxGap := rapid.SampledFrom([]time.Duration{15 * time.Second, paceGap}).Draw(t, "max_gap")
		wrong := time.Duration(wrongs.Draw(t, "wrong")) * time.Second
		at := rapid.IntRange(0, 30).Draw(t, "at")
		began := time.Unix(1_700_000_000, 0)
		var a accounts
		const frames, interval = 80, 5 * time.Second
		for i := range frames {
			now := began.Add(time.Duration(i) * interval)
			stamp := now
			if i == at {
				stamp = now.Add(wrong)
			}
			a.frame(stamp.UnixNano(), now, maxGap)
			require.LessOrEqual(t, a.total(), now.Sub(began).Seconds()+1e-9, "frame %d", i)
		}
		first := 0.0
		if at == 0 && wrong > gpudata.MaxAhead { // The first frame is dropped, so the counted time starts at the second frame.
			first = interval.Seconds()
		}
		require.InDelta(t, (frames-1)*interval.Seconds()-first, a.total(), 1e-6)
	})
}

// The frames of a backlog or a recording arrive faster than their timestamps advance. The counted
// time must follow the timestamps, including the gaps between timestamps.
func TestTheTimestampsOfABacklogCount(t *testing.T) {
	for name, lag := range map[string]time.Duration{"a backlog": time.Hour, "a recording": 1000 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			began := time.Unix(1_700_000_000, 0)
			var a accounts
			stamp := began.Add(-lag)
			for i := range 10 {
				a.frame(stamp.UnixNano(), began.Add(time.Duration(i)*time.Millisecond), paceGap)
				stamp = stamp.Add(30 * time.Second)
			}
			a.frame(began.Add(time.Second).UnixNano(), began.Add(time.Second), paceGap) // All other frames of the backlog were lost.
			require.InDelta(t, lag.Seconds()+1, a.total(), 1e-6)
		})
	}
}

// During a network outage, the sender queues frames. If some of the queued frames are lost, the
// length of the gap is the difference between the timestamps before and after the gap.
func TestABacklogAfterAnOutageIsNotAClockStep(t *testing.T) {
	began := time.Unix(1_700_000_000, 0)
	var a accounts
	for i := range 10 {
		now := began.Add(time.Duration(i) * 10 * time.Second)
		a.frame(now.UnixNano(), now, paceGap)
	}
	healed := began.Add(time.Hour)
	for i := 10; i < 100; i++ {
		a.frame(began.Add(time.Duration(i)*10*time.Second).UnixNano(), healed, paceGap)
	}
	a.frame(healed.UnixNano(), healed, paceGap)
	require.InDelta(t, time.Hour.Seconds(), a.total(), 1e-6)
	require.InDelta(t, time.Hour.Seconds()-990, a.Unobserved.Value, 1e-6)
}

func TestAClockThatStaysAheadCountsAfterMaxGap(t *testing.T) {
	began := time.Unix(1_700_000_000, 0)
	var a accounts
	early := 0
	for i := range 40 {
		now := began.Add(time.Duration(i) * 10 * time.Second)
		stamp := now
		if i >= 5 {
			stamp = stamp.Add(50 * time.Second)
		}
		if a.frame(stamp.UnixNano(), now, 45*time.Second) == Early {
			early++
		}
	}
	require.Equal(t, 5, early)
	require.InDelta(t, 390, a.total(), 1e-6)
}

// The second frame after a clock was set back is not taken for a part of a backlog.
func TestAClockThatIsSetForwardSoonAfterItWasSetBackAddsNoTime(t *testing.T) {
	began := time.Unix(1_700_000_000, 0)
	var a accounts
	for i := range 40 {
		now := began.Add(time.Duration(i) * 10 * time.Second)
		var offset time.Duration
		switch i {
		case 2, 3, 4:
			offset = -177 * time.Second // The third of these frames shows that the clock was set back.
		case 5, 6:
			offset = -16 * time.Second
		}
		a.frame(now.Add(offset).UnixNano(), now, 15*time.Second)
	}
	require.InDelta(t, 390, a.total(), maxRise.Seconds())
}
