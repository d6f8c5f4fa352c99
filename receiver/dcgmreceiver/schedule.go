package dcgmreceiver

import (
	"context"
	"time"
)

// schedule defines when an endpoint is scraped: for the first time after offset, and then once per
// interval.
type schedule struct {
	offset, interval time.Duration
}

// run calls work at fixed times until ctx ends. If a call takes longer than the interval, run skips
// the times that it missed.
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
