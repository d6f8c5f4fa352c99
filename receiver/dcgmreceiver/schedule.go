package dcgmreceiver

import (
	"context"
	"time"
)

// schedule has the times at which an endpoint is scraped: offset after the start, and then every
// interval.
type schedule struct {
	offset, interval time.Duration
}

// run calls work on a fixed grid until ctx is done. If a tick occurs during a call, it is skipped:
// the next call is at the next time of the grid.
func (s schedule) run(ctx context.Context, work func()) {
	timer := time.NewTimer(s.offset)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return
	case <-timer.C:
	}
	ticker := time.NewTicker(s.interval)
	defer ticker.Stop()
	for {
		work()
		// Discard the tick that occurred during the call.
		select {
		case <-ticker.C:
		default:
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
