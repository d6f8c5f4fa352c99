// Package statustest lets tests read the status that components report to their Collector host.
package statustest

import (
	"slices"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/component/componenttest"
)

// Host is a Collector host that records reported status events. Host's methods are safe for
// concurrent use.
type Host struct {
	component.Host

	mu     sync.Mutex
	events []*componentstatus.Event
}

var _ componentstatus.Reporter = (*Host)(nil)

// NewHost returns a Host without extensions.
func NewHost() *Host { return Around(componenttest.NewNopHost()) }

// Around returns a Host with the extensions of the given host.
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

// Events returns the recorded events in chronological order.
func (h *Host) Events() []*componentstatus.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.events)
}

// Statuses returns the statuses of the recorded events in chronological order.
func (h *Host) Statuses() []componentstatus.Status {
	var statuses []componentstatus.Status
	for _, e := range h.Events() {
		statuses = append(statuses, e.Status())
	}
	return statuses
}

// Last returns the error message of the most recent event or, if that event has no error, the
// event's status. If no event was recorded, Last returns "".
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
