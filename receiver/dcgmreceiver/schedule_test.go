package dcgmreceiver

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// The calls function runs a schedule for the given total time and returns the times of the calls,
// relative to the start. The call with index i takes work[i]. Calls beyond the last element of work
// take no time.
func calls(s schedule, total time.Duration, work ...time.Duration) (at []time.Duration, skipped int64) {
	start := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), total)
	defer cancel()
	s.run(ctx, func() {
		at = append(at, time.Since(start))
		if n := len(at) - 1; n < len(work) {
			<-time.After(work[n])
		}
	}, func(n int64) { skipped += n })
	return at, skipped
}

func TestSchedule(t *testing.T) {
	for _, tt := range []struct {
		name    string
		s       schedule
		work    []time.Duration
		want    []time.Duration
		skipped int64
	}{
		{
			name: "the first call comes after the offset and the others at every interval",
			s:    schedule{offset: 4 * time.Second, interval: 15 * time.Second},
			want: []time.Duration{4 * time.Second, 19 * time.Second, 34 * time.Second, 49 * time.Second},
		},
		{
			name: "without offset the first call comes at once",
			s:    schedule{interval: 20 * time.Second},
			want: []time.Duration{0, 20 * time.Second, 40 * time.Second},
		},
		{
			name:    "times that were missed are skipped and the grid is kept",
			s:       schedule{interval: 15 * time.Second},
			work:    []time.Duration{5 * time.Second, 16 * time.Second},
			want:    []time.Duration{0, 15 * time.Second, 45 * time.Second},
			skipped: 1,
		},
		{
			name:    "every missed time counts",
			s:       schedule{offset: time.Second, interval: 10 * time.Second},
			work:    []time.Duration{45 * time.Second},
			want:    []time.Duration{time.Second, 51 * time.Second},
			skipped: 4,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				at, skipped := calls(tt.s, 59*time.Second, tt.work...)
				assert.Equal(t, tt.want, at)
				assert.Equal(t, tt.skipped, skipped)
			})
		})
	}
}

func TestAScheduleEndsWithItsContextBeforeTheFirstCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at, skipped := calls(schedule{offset: time.Hour, interval: time.Second}, time.Minute)
		assert.Empty(t, at)
		assert.Zero(t, skipped)
	})
}
