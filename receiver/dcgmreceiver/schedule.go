package dcgmreceiver

import (
	"context"
	"time"
)

// schedule defines when an endpoint is scraped: The first scrape happens after the offset. Further
// scrapes happen once per interval.
type schedule struct {
	offset, interval time.Duration
}

// run calls the given function after the offset and then once per interval, until ctx ends. If a
// call takes longer than the interval, the missed calls are skipped.
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
		// Discard a tick that occurred during the call.
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
