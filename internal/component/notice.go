package component

import (
	"sync"
	"time"
)

// noticeGap is the least time between two calls of a subscriber: thousands of
// objects that arrive one by one are few notices.
const noticeGap = 100 * time.Millisecond

// Notice is a channel that holds at most one notice that something changed.
type Notice chan struct{}

// NewNotice returns a Notice without one.
func NewNotice() Notice { return make(Notice, 1) }

// Give leaves a notice, unless there is one already.
func (n Notice) Give() {
	select {
	case n <- struct{}{}:
	default:
	}
}

// Notices notifies subscribers of a change. The zero value has no subscribers.
type Notices struct {
	mu          sync.Mutex
	subscribers map[Notice]struct{}
}

// Give leaves a notice for every subscriber.
func (n *Notices) Give() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for s := range n.subscribers {
		s.Give()
	}
}

// Subscribe calls f, in a goroutine of its own, after changes: once for any number of them
// while f runs or shortly after it ran. Unsubscribe waits for f, which must not call it.
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

// deliver calls f once for the notices of each noticeGap.
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
