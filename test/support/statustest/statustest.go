// Package statustest lets tests read the status that components report to their host.
package statustest

import (
	"slices"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/component/componenttest"
)

// Host is a host that records the reported status events. Its methods are safe for concurrent use.
type Host struct {
	component.Host

	mu     sync.Mutex
	events []*componentstatus.Event
}

var _ componentstatus.Reporter = (*Host)(nil)

// NewHost returns a host without extensions.
func NewHost() *Host { return Around(componenttest.NewNopHost()) }

// Around returns a host with the extensions of another host.
func Around(host component.Host) *Host { return &Host{Host: host} }

// Report implements componentstatus.Reporter.
func (h *Host) Report(e *componentstatus.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

// Reset deletes the recorded events.
func (h *Host) Reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = nil
}

// Events returns the recorded events in order.
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

// Last returns the error of the newest event or, if the event has no error, its status. It returns
// "" if no event was recorded.
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
