package kube

import (
	"sync"
	"time"
)

// noticeGap is the least time between two calls of a subscriber: thousands of
// objects that arrive one by one are few notices.
const noticeGap = 100 * time.Millisecond

// signal holds at most one notice.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

// notify leaves a notice unless there is one already.
func (s signal) notify() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// notices tells subscribers that something changed. The zero value has none.
type notices struct {
	mu          sync.Mutex
	subscribers map[signal]struct{}
}

func (n *notices) notify() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for s := range n.subscribers {
		s.notify()
	}
}

// subscribe calls f after changes until unsubscribe, which waits for f.
func (n *notices) subscribe(f func()) (unsubscribe func()) {
	changed, stop, stopped := newSignal(), make(chan struct{}), make(chan struct{})
	n.mu.Lock()
	if n.subscribers == nil {
		n.subscribers = map[signal]struct{}{}
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
func deliver(changed, stop <-chan struct{}, f func()) {
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
