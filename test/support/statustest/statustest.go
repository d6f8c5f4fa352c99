// Package statustest lets tests see the status that components tell their host.
package statustest

import (
	"slices"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/component/componenttest"
)

// Host is a host that keeps what components report. Its methods are safe for concurrent
// use.
type Host struct {
	component.Host

	mu     sync.Mutex
	events []*componentstatus.Event
}

var _ componentstatus.Reporter = (*Host)(nil)

// NewHost returns a host without extensions.
func NewHost() *Host { return Around(componenttest.NewNopHost()) }

// Around returns a host that has the extensions of another one.
func Around(host component.Host) *Host { return &Host{Host: host} }

// Report implements componentstatus.Reporter.
func (h *Host) Report(e *componentstatus.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

// Reset forgets what was reported until now.
func (h *Host) Reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = nil
}

// Events returns what was reported until now, in its order.
func (h *Host) Events() []*componentstatus.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.events)
}

// Statuses returns the statuses of the events.
func (h *Host) Statuses() []componentstatus.Status {
	var statuses []componentstatus.Status
	for _, e := range h.Events() {
		statuses = append(statuses, e.Status())
	}
	return statuses
}

// Last returns the newest event as a text: what is wrong, or the status where nothing
// is, or "" without any event.
func (h *Host) Last() string {
	events := h.Events()
	if len(events) == 0 {
		return ""
	}
	e := events[len(events)-1]
	if e.Err() != nil {
		return e.Err().Error()
	}
	return e.Status().String()
}
