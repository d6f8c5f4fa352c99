package gpuviewexporter

import (
	"context"
	"sync"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuviewexporter/internal/live"
	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuviewexporter/internal/store"
	base "github.com/otelcol-gpu/otelcol-gpu/internal/component"
)

const (
	// settle is how long after the first batch of a window the patch is made, so
	// that a window which comes in several batches is one patch.
	settle = 500 * time.Millisecond
	// backlog is how many patches a page may be behind before it is let go.
	backlog = 4
	// heartbeat is the longest time between two patches: they tell the page the
	// time, and keep proxies from closing a connection on which nothing happens.
	heartbeat = 15 * time.Second
)

// hub hands patches to the pages that are open.
type hub struct {
	store *store.Store
	limit int

	changed base.Notice // of the store

	mu       sync.Mutex
	clients  map[chan [][]byte]struct{}
	sequence uint64
	// batch is the last batch of the store that a patch contains.
	batch uint64
	// refused and slow count pages that were not let in, or let go.
	refused, slow int64
	closed        bool
}

func newHub(s *store.Store, limit int) *hub {
	return &hub{store: s, limit: limit, changed: base.NewNotice(), clients: map[chan [][]byte]struct{}{}}
}

// run sends a patch after each change and at each heartbeat, until ctx ends.
func (h *hub) run(ctx context.Context) {
	defer h.close()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(heartbeat):
		case <-h.changed:
			select {
			case <-ctx.Done():
				return
			case <-time.After(settle):
			}
		}
		h.publish(time.Now())
	}
}

// publish sends what changed since the last patch. A page that has backlog
// patches to take still is let go: it will come again and begin with a snapshot.
func (h *hub) publish(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sequence++
	patch, batch := live.Patch(h.store, now, h.sequence, h.batch)
	h.batch = batch
	if len(h.clients) == 0 {
		return
	}
	parts := patch.Parts()
	for c := range h.clients {
		select {
		case c <- parts:
		default:
			close(c)
			h.letGo(c)
		}
	}
}

// snapshot returns everything, for a page to apply later patches to.
func (h *hub) snapshot(now time.Time) *live.Snapshot {
	h.mu.Lock()
	sequence := h.sequence
	h.mu.Unlock()
	return live.Snap(h.store, now, sequence)
}

// join returns a channel of patches in parts, which is closed when the page is let go;
// false when there are too many pages, or none are served any more.
func (h *hub) join() (chan [][]byte, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, false
	}
	if len(h.clients) >= h.limit {
		h.refused++
		return nil, false
	}
	c := make(chan [][]byte, backlog)
	h.clients[c] = struct{}{}
	return c, true
}

// letGo counts a page that is too slow, once. It needs the lock.
func (h *hub) letGo(c chan [][]byte) {
	if _, open := h.clients[c]; open {
		delete(h.clients, c)
		h.slow++
	}
}

// leave forgets a page, and counts it where it did not take a patch in time.
func (h *hub) leave(c chan [][]byte, tooSlow bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if tooSlow {
		h.letGo(c)
	}
	delete(h.clients, c)
}

// counts returns how many pages are open, were refused, and were let go.
func (h *hub) counts() (clients, refused, slow int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return int64(len(h.clients)), h.refused, h.slow
}

// close lets all pages go.
func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for c := range h.clients {
		delete(h.clients, c)
		close(c)
	}
}
