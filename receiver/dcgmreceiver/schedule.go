package dcgmreceiver

import (
	"context"
	"time"
)

// The schedule type defines when an endpoint is scraped: first after the offset, and then once per
// interval.
type schedule struct {
	offset, interval time.Duration
}

// The run method calls the work function first after the offset, and then once per interval, until
// ctx ends. If a call takes longer than the interval, the method skips the missed calls and passes
// their number to the skipped function.
func (s schedule) run(ctx context.Context, work func(), skipped func(n int64)) {
	timer := time.NewTimer(s.offset)
	defer timer.Stop()
	due := time.Now().Add(s.offset)
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		work()
		missed := int64(time.Since(due) / s.interval)
		if missed > 0 && ctx.Err() == nil {
			skipped(missed)
		}
		due = due.Add(time.Duration(missed+1) * s.interval)
		timer.Reset(time.Until(due))
	}
}
