package componenthelper

import (
	"sync"
	"time"
)

// noticeGap is the minimum time between two calls to the same subscriber. If thousands of objects
// arrive one by one, the gap reduces the number of calls to a few.
const noticeGap = 100 * time.Millisecond

// Notice is a channel that signals a change. A Notice holds at most one signal.
type Notice chan struct{}

// NewNotice returns a Notice without a signal.
func NewNotice() Notice { return make(Notice, 1) }

// Notify sends a signal unless one is already pending.
func (n Notice) Notify() {
	select {
	case n <- struct{}{}:
	default:
	}
}

// Notices notifies subscribers of changes. The zero value has no subscribers.
type Notices struct {
	mu          sync.Mutex
	subscribers map[Notice]struct{}
}

// Notify notifies every subscriber.
func (n *Notices) Notify() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for s := range n.subscribers {
		s.Notify()
	}
}

// Subscribe starts a goroutine that calls f after each change. If several changes occur during a
// call to f or shortly after it, f is called only once more for all of them. The returned
// unsubscribe function waits until f has returned, so f must not call unsubscribe.
func (n *Notices) Subscribe(f func()) (unsubscribe func()) {
	changed, stop, stopped := NewNotice(), make(chan struct{}), make(chan struct{})
	n.mu.Lock()
	if n.subscribers == nil {
		n.subscribers = map[Notice]struct{}{}
	}
	n.subscribers[changed] = struct{}{}
	n.mu.Unlock()
	go func() {
		defer close(stopped)
		deliver(changed, stop, f)
	}()
	return sync.OnceFunc(func() {
		n.mu.Lock()
		delete(n.subscribers, changed)
		n.mu.Unlock()
		close(stop)
		<-stopped
	})
}

// deliver calls f after each change, but at most once per noticeGap.
func deliver(changed Notice, stop <-chan struct{}, f func()) {
	gap := time.NewTimer(0)
	defer gap.Stop()
	for {
		select {
		case <-stop:
			return
		case <-gap.C:
		}
		select {
		case <-stop:
			return
		case <-changed:
		}
		f()
		gap.Reset(noticeGap)
	}
}
