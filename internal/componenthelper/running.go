package componenthelper

import (
	"context"
	"sync"
	"time"
)

// EveryTick calls f once per interval until ctx is done. The first call to f happens after one
// interval.
func EveryTick(ctx context.Context, interval time.Duration, f func(now time.Time)) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			f(time.Now())
		case <-ctx.Done():
			return
		}
	}
}

// Ending shuts a component down once and limits how long Shutdown waits. The zero value is ready
// for use.
type Ending struct {
	once sync.Once
	done chan struct{}
	err  error
}

// Run calls the end function, but only in the first call to Run. Every call to Run returns the
// error from the end function. If ctx is done before the end function returns, Run returns ctx's
// error, and the end function continues in the background.
func (e *Ending) Run(ctx context.Context, end func() error) error {
	e.once.Do(func() {
		e.done = make(chan struct{})
		go func() {
			defer close(e.done)
			e.err = end()
		}()
	})
	select {
	case <-e.done:
		return e.err
	case <-ctx.Done():
		return ctx.Err()
	}
}
