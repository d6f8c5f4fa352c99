package idle

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
)

func TestALayoutIsTheProfilesInUse(t *testing.T) {
	assert.Equal(t, Layout(""), LayoutOf(nil))
	assert.Equal(t, Layout("1g.10gb*2,3g.40gb*1"), LayoutOf([]string{"1g.10gb", "3g.40gb", "1g.10gb"}))
	assert.Equal(t, Layout("1g.10gb*1,?*1"), LayoutOf([]string{"", "1g.10gb"}))
	assert.Equal(t, Layout("3g.40gb*1"), LayoutOf([]string{"1c.3g.40gb"}), "compute instances are ignored")
}

func TestTheMostSpecificConfiguredBaselineApplies(t *testing.T) {
	all := 1.0
	table := Table{
		ByUUID:  map[string]float64{"GPU-1": 3},
		ByModel: map[string]float64{catalogue.FoldModel("NVIDIA H100 80GB HBM3"): 2}, All: &all,
	}
	for _, tt := range []struct {
		uuid, model string
		want        float64
	}{
		{"GPU-1", "NVIDIA-H100-80GB-HBM3", 3},
		{"GPU-2", "nvidia-h100-80gb-hbm3", 2},
		{"GPU-2", "NVIDIA H100", 1},
	} {
		got, ok := table.Lookup(tt.uuid, tt.model)
		assert.True(t, ok)
		assert.Equal(t, tt.want, got, "%+v", tt)
	}
	table.All = nil
	_, ok := table.Lookup("GPU-2", "NVIDIA H100")
	assert.False(t, ok)
}

const (
	expire = 24 * time.Hour
	minute = int64(time.Minute)
	second = int64(time.Second)
)

func at(hours int) int64 { return int64(time.Duration(hours) * time.Hour) }

// quiet adds a run of samples that ends at time t, and reports whether the baseline changed.
func (l *Learner) quiet(layout Layout, t int64, watts float64, expire time.Duration) bool {
	l.Busy()
	changed := false
	for _, before := range []int64{minute, minute / 2, 0} {
		changed = l.sample(layout, t-before, watts, expire) || changed
	}
	return changed
}

// sample adds one sample. The board is known to be idle at the time of the sample.
func (l *Learner) sample(layout Layout, t int64, watts float64, expire time.Duration) bool {
	return l.AddIdle(Sample{Layout: layout, Time: t, Watts: watts, Until: t}, expire)
}

// known returns the learned baseline, or -1 if no baseline has been learned.
func (l *Learner) known(layout Layout, t int64) float64 {
	if w, ok := l.Lookup(layout, t, expire); ok {
		return w
	}
	return -1
}

func TestOnlyARunOfQuietSamplesIsLearned(t *testing.T) {
	type step struct {
		seconds int64
		watts   float64 // watts is 0 if the board is busy.
		want    float64 // want is -1 if there must be no baseline.
	}
	for name, steps := range map[string][]step{
		"three samples in a minute": {{0, 50, -1}, {30, 52, -1}, {60, 51, 52}},
		"three samples in 20 s":     {{0, 50, -1}, {10, 50, -1}, {20, 50, -1}, {59, 50, -1}, {61, 50, 50}},
		"two samples in an hour":    {{0, 50, -1}, {3600, 50, -1}, {3601, 50, 50}},
		"a run with a busy sample":  {{0, 50, -1}, {30, 50, -1}, {45, 0, -1}, {60, 50, -1}, {90, 50, -1}, {120, 50, 50}},
		"one wrong value of a sensor": {
			{0, 50, -1}, {30, 50, -1}, {60, 50, 50}, {90, 3, 50}, {120, 50, 50}, {150, 50, 50}, {180, 50, 50}, {210, 50, 50},
		},
		"a board that becomes idle": {
			{0, 120, -1}, {30, 80, -1}, {60, 50, 120}, {90, 50, 120}, {120, 50, 120}, {150, 50, 50},
		},
		"a repeated sample":          {{0, 50, -1}, {60, 50, -1}, {60, 50, -1}, {60, 50, -1}, {90, 50, 50}},
		"a clock that is set back":   {{7200, 50, -1}, {7230, 50, -1}, {0, 60, -1}, {30, 60, -1}, {60, 60, 60}},
		"the lowest of several runs": {{0, 50, -1}, {30, 50, -1}, {60, 50, 50}, {90, 45, 50}, {120, 45, 50}, {150, 45, 45}},
		"a run with a higher power":  {{0, 50, -1}, {30, 50, -1}, {60, 50, 50}, {90, 55, 50}, {120, 55, 50}, {150, 55, 50}},
	} {
		t.Run(name, func(t *testing.T) {
			var l Learner
			for _, s := range steps {
				now := at(1) + s.seconds*second
				if s.watts == 0 {
					l.Busy()
				} else {
					l.sample("", now, s.watts, expire)
				}
				assert.Equal(t, s.want, l.known("", now), "at %d s", s.seconds)
			}
		})
	}
}

func TestARunIsUsedOnlyAfterItIsCertainlyIdle(t *testing.T) {
	var l Learner
	sample := func(seconds, until int64, watts float64) {
		l.AddIdle(Sample{Time: at(1) + seconds*second, Watts: watts, Until: at(1) + until*second}, expire)
	}
	// The board's only process list is from second 0. Later, a job starts.
	for _, s := range []int64{0, 30, 60, 90} {
		sample(s, 0, 500)
		require.Equal(t, -1.0, l.known("", at(2)))
	}
	l.Busy()
	sample(200, 190, 50)
	sample(230, 220, 50)
	sample(260, 250, 50)
	assert.Equal(t, -1.0, l.known("", at(2)))
	sample(290, 280, 60)
	assert.Equal(t, 50.0, l.known("", at(2)), "the last sample is not certain yet")
}

func TestEachLayoutHasItsOwnBaseline(t *testing.T) {
	var l Learner
	l.quiet("", at(1), 50, expire)
	l.quiet("1g.10gb*7", at(2), 70, expire)
	assert.Equal(t, 70.0, l.known("1g.10gb*7", at(3)))
	assert.Equal(t, 50.0, l.known("", at(3)))
	assert.Equal(t, -1.0, l.known("1g.10gb*6", at(3)))

	l.sample("", at(4), 40, expire)
	l.sample("", at(4)+minute, 40, expire)
	l.sample("1g.10gb*6", at(4)+2*minute, 40, expire)
	assert.Equal(t, 50.0, l.known("", at(5)), "a run has only one layout")
	assert.Equal(t, -1.0, l.known("1g.10gb*6", at(5)))
}

func TestABaselineExpiresWithoutIdleSamples(t *testing.T) {
	var l Learner
	l.quiet("", at(1), 50, expire)
	assert.Equal(t, 50.0, l.known("", at(25)))
	assert.Equal(t, -1.0, l.known("", at(25)+1))
	l.quiet("", at(100), 50, expire)
	assert.Equal(t, -1.0, l.known("", at(1)), "if the clock was set back, the baseline is not trusted")
}

func TestAnExpiredLowestPowerIsReplacedByTheLowestSince(t *testing.T) {
	var l Learner
	l.quiet("", at(1), 50, expire)
	for h := 2; h <= 25; h++ {
		l.quiet("", at(h), map[bool]float64{true: 90, false: 100}[h == 20], expire)
	}
	assert.Equal(t, 50.0, l.known("", at(25)))
	l.quiet("", at(26), 120, expire)
	assert.Equal(t, 90.0, l.known("", at(26)), "a new idle power of 90 W is used after a day")
	for h := 27; h <= 44; h++ {
		l.quiet("", at(h), 110, expire)
	}
	assert.Equal(t, 90.0, l.known("", at(44)))
	l.quiet("", at(45), 120, expire)
	assert.Equal(t, 110.0, l.known("", at(45)))
}

func TestIdleTimesAreReportedPeriodically(t *testing.T) {
	var l Learner
	var changes []int
	for h := 1; h <= 301; h++ {
		if l.quiet("", at(h), 50+float64(h), 1000*time.Hour) {
			changes = append(changes, h)
		}
	}
	assert.Equal(t, []int{1, 102, 203}, changes, "a change of less than a tenth of expire is not stored")
}

func TestTheNumberOfLayoutsIsLimited(t *testing.T) {
	var l Learner
	for i := range 100 {
		l.quiet(Layout(fmt.Sprint(i)), at(i+1), 50, expire)
	}
	assert.Len(t, l.Baselines, maxLayouts)
	assert.Contains(t, l.Baselines, Layout("99"))
	assert.Contains(t, l.Baselines, Layout("92"))
}
