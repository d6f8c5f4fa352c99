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
	// patchDelay is the delay between the first batch of a window and the patch. A
	// window that arrives in several batches then becomes one patch.
	patchDelay = 500 * time.Millisecond
	// maxQueuedPatches is how many patches may wait for a page before the page is disconnected.
	maxQueuedPatches = 4
	// heartbeat is the longest time between two patches. A patch contains the
	// exporter's time, and it prevents proxies from closing an idle connection.
	heartbeat = 15 * time.Second
)

// hub sends patches to the open pages.
type hub struct {
	store *store.Store
	limit int

	changed base.Notice // receives a signal when the store has changed

	mu       sync.Mutex
	clients  map[chan [][]byte]struct{}
	sequence uint64
	// batch is the number of the store's last batch that a patch contains.
	batch uint64
	// refused counts pages above the limit, slow counts pages that were disconnected.
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
			case <-time.After(patchDelay):
			}
		}
		h.publish(time.Now())
	}
}

// publish sends the changes since the last patch. It disconnects a page if maxQueuedPatches
// patches wait for it. The page then reconnects and starts with a snapshot.
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
			h.dropSlow(c)
		}
	}
}

// snapshot returns the full state, to which a page applies later patches.
func (h *hub) snapshot(now time.Time) *live.Snapshot {
	h.mu.Lock()
	sequence := h.sequence
	h.mu.Unlock()
	return live.Snap(h.store, now, sequence)
}

// join returns a channel of patches, each in parts. The channel is closed when the page is
// disconnected. join returns false if there are too many pages or the hub is closed.
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
	c := make(chan [][]byte, maxQueuedPatches)
	h.clients[c] = struct{}{}
	return c, true
}

// dropSlow disconnects a page that is too slow and counts it once. The caller holds the lock.
func (h *hub) dropSlow(c chan [][]byte) {
	if _, open := h.clients[c]; open {
		delete(h.clients, c)
		h.slow++
	}
}

// remove removes a page and counts it as slow if it did not read a patch in time.
func (h *hub) remove(c chan [][]byte, tooSlow bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if tooSlow {
		h.dropSlow(c)
	}
	delete(h.clients, c)
}

// counts returns the numbers of open pages, refused pages and pages disconnected as slow.
func (h *hub) counts() (clients, refused, slow int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return int64(len(h.clients)), h.refused, h.slow
}

// close disconnects all pages.
func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for c := range h.clients {
		delete(h.clients, c)
		close(c)
	}
}
