package idle

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestALayoutIsTheProfilesInUse(t *testing.T) {
	assert.Equal(t, Layout(""), LayoutOf(nil))
	assert.Equal(t, Layout("1g.10gb*2,3g.40gb*1"), LayoutOf([]string{"1g.10gb", "3g.40gb", "1g.10gb"}))
	assert.Equal(t, Layout("1g.10gb*1,?*1"), LayoutOf([]string{"", "1g.10gb"}))
	for text, want := range map[string]Layout{
		"1g.10gb*7":                   "1g.10gb*7",
		" 3g.40gb , 1g.10gb*4":        "1g.10gb*4,3g.40gb*1",
		"1g.10gb,1g.10gb*2":           "1g.10gb*3",
		"1g.10gb+me*1, 1c.3g.40gb*02": "1c.3g.40gb*2,1g.10gb+me*1",
	} {
		got, err := ParseLayout(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got)
	}
	for text, want := range map[string]string{
		"":           `"" is not a MIG profile`,
		"7":          `"7" is not a MIG profile`,
		"1g.10gb*":   `"" is not a number of instances`,
		"1g.10gb*0":  `"0" is not a number of instances`,
		"1g.10gb*65": `"65" is not a number of instances`,
		"1g.10gb*2,": `"" is not a MIG profile`,
	} {
		_, err := ParseLayout(text)
		assert.ErrorContains(t, err, want, text)
	}
}

func TestTheMostSpecificConfiguredBaselineCounts(t *testing.T) {
	all := 1.0
	table := Table{
		ByUUID: map[string]float64{"GPU-1": 4}, ByLayout: map[Layout]float64{"1g.10gb*7": 3, "": 9},
		ByModel: map[string]float64{FoldModel("NVIDIA H100 80GB HBM3"): 2}, All: &all,
	}
	for _, tt := range []struct {
		uuid, model string
		layout      Layout
		want        float64
	}{
		{"GPU-1", "NVIDIA-H100-80GB-HBM3", "1g.10gb*7", 4},
		{"GPU-2", "NVIDIA-H100-80GB-HBM3", "1g.10gb*7", 3},
		{"GPU-2", "nvidia-h100-80gb-hbm3", "1g.10gb*6", 2},
		{"GPU-2", "NVIDIA H100", "", 1},
	} {
		got, ok := table.Lookup(tt.uuid, tt.model, tt.layout)
		assert.True(t, ok)
		assert.Equal(t, tt.want, got, "%+v", tt)
	}
	table.All = nil
	_, ok := table.Lookup("GPU-2", "NVIDIA H100", "")
	assert.False(t, ok)
}

const expire = 24 * time.Hour

func at(hours int) int64 { return int64(time.Duration(hours) * time.Hour) }

func TestTheLowestPowerIsLearned(t *testing.T) {
	var l Learner
	_, ok := l.Lookup("", at(1), expire)
	require.False(t, ok, "nothing was seen")
	assert.True(t, l.Quiet("", at(1), 50, expire))
	assert.False(t, l.Quiet("", at(1)+1, 55, expire), "there is nothing new to store")
	assert.True(t, l.Quiet("", at(1)+2, 45, expire))
	got, ok := l.Lookup("", at(2), expire)
	assert.True(t, ok)
	assert.Equal(t, 45.0, got)
}

func TestEachLayoutHasItsOwnBaseline(t *testing.T) {
	var l Learner
	l.Quiet("", at(1), 50, expire)
	l.Quiet("1g.10gb*7", at(2), 70, expire)
	got, _ := l.Lookup("1g.10gb*7", at(3), expire)
	assert.Equal(t, 70.0, got)
	got, _ = l.Lookup("", at(3), expire)
	assert.Equal(t, 50.0, got)
	_, ok := l.Lookup("1g.10gb*6", at(3), expire)
	assert.False(t, ok)
}

func TestABaselineExpiresWhenNothingWasQuietForLong(t *testing.T) {
	var l Learner
	l.Quiet("", at(1), 50, expire)
	_, ok := l.Lookup("", at(25), expire)
	assert.True(t, ok)
	_, ok = l.Lookup("", at(25)+1, expire)
	assert.False(t, ok)
	l.Quiet("", at(100), 50, expire)
	_, ok = l.Lookup("", at(1), expire)
	assert.False(t, ok, "time that ran backwards is no proof of anything")
}

func TestALowestPowerOfLongAgoGivesWay(t *testing.T) {
	var l Learner
	for h := 1; h <= 25; h++ {
		l.Quiet("", at(h), map[bool]float64{true: 50, false: 100}[h == 1], expire)
	}
	got, _ := l.Lookup("", at(25), expire)
	assert.Equal(t, 50.0, got)
	l.Quiet("", at(26), 100, expire)
	got, _ = l.Lookup("", at(26), expire)
	assert.Equal(t, 100.0, got, "a driver that keeps idle boards at 100 W is believed after a day")
}

func TestQuietTimesAreStoredNowAndThen(t *testing.T) {
	var l Learner
	changes := 0
	for h := range 101 {
		if l.Quiet("", at(h), 50+float64(h), 1000*time.Hour) {
			changes++
		}
	}
	assert.Equal(t, 1, changes)
	assert.True(t, l.Quiet("", at(300), 500, 1000*time.Hour))
}

func TestABoardRemembersFewLayouts(t *testing.T) {
	var l Learner
	for i := range 100 {
		l.Quiet(Layout(fmt.Sprint(i)), at(i), 50, expire)
	}
	assert.Len(t, l.Baselines, maxLayouts)
	assert.Contains(t, l.Baselines, Layout("99"))
	assert.Contains(t, l.Baselines, Layout("92"))
}
