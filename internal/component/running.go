package component

import (
	"context"
	"sync"
	"time"
)

// EveryTick calls f again and again, the first time after the interval, until ctx ends.
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

// Ending is the end of a component, whose Shutdown waits no longer than it may. The zero
// value is ready for use.
type Ending struct {
	once sync.Once
	done chan struct{}
	err  error
}

// Run calls end, the first time, and returns its error. When ctx ends before, it returns the
// error of ctx, and end goes on.
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
