package component

import (
	"context"
	"sync"
	"time"
)

// EveryTick calls f at each interval until ctx ends. The first call is after one interval.
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

// Ending ends a component once, and limits how long its Shutdown waits. The zero value is ready for
// use.
type Ending struct {
	once sync.Once
	done chan struct{}
	err  error
}

// Run calls end on the first call, and returns its error. If ctx ends earlier, Run returns the
// error of ctx, and end continues.
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
