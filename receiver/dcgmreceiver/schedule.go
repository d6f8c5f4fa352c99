package dcgmreceiver

import (
	"context"
	"time"
)

// schedule is when an endpoint is scraped: at offset after the start and then at
// every interval.
type schedule struct {
	offset, interval time.Duration
}

// run calls work on a fixed grid until ctx ends. A tick during a call of work is skipped, not made
// up for: the next call is on the grid again.
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
		// A tick during the call is waiting in the channel.
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
