package events

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// incidentGap is how long a place must have no XID events before the place's incident ends.
const incidentGap = 3 * time.Minute

// incident is a group of XID events in one place. Events are grouped because one fault often causes
// several codes on several devices.
type incident struct {
	// First and Last are the sample times of the first and the last event.
	First, Last int64
	// Arrived is the wall clock time at which the last event arrived.
	Arrived int64
	Host    string `json:",omitempty"`
	// Resource contains the Resource attributes of the place.
	Resource map[string]any `json:",omitempty"`
	// Codes contains the XID codes, and Devices contains the hw.id of each device. Both lists are
	// sorted.
	Codes, Devices []string
	// Action is the most severe action.
	Action   string `json:",omitempty"`
	Severity Severity
	Count    int64
}

// actions lists the actions in the XID catalog, from most to least severe.
var actions = []string{
	"reboot_node", "reset_gpu", "workflow", "contact_support", "check_connections", "update_software", "restart_vm", "restart_app",
	"none", "unstated",
}

// stronger returns the more severe of two actions. Either action may be empty.
func stronger(a, b string) string {
	if a == "" || b != "" && slices.Index(actions, b) < slices.Index(actions, a) {
		return b
	}
	return a
}

// group adds a device's XID event to the incident of the device's place. If the times of the event
// and the incident's last event differ by at least incidentGap, group ends the incident and starts
// a new one.
func (c *frame) group(id, code string, e *Event) {
	i := c.place.Incident
	if i != nil && time.Duration(c.f.Time-i.Last).Abs() >= incidentGap {
		c.out = c.outlet.send(c.out, c.place.endIncident(), c.now)
		i = nil
	}
	if i == nil {
		i = &incident{First: c.f.Time, Last: c.f.Time}
		c.place.Incident = i
	}
	i.First, i.Last, i.Arrived = min(i.First, c.f.Time), max(i.Last, c.f.Time), c.now
	i.Host = c.f.Host
	if c.describe != nil {
		i.Resource = c.describe(c.f, gpudata.Holder{})
	}
	i.Codes, i.Devices = include(i.Codes, code), include(i.Devices, id)
	i.Action = stronger(i.Action, e.Texts[AttrAction])
	i.Severity = max(i.Severity, e.Severity)
	i.Count += e.Count
}

// include adds text to a sorted list unless the list already contains the text.
func include(list []string, text string) []string {
	at, found := slices.BinarySearch(list, text)
	if found {
		return list
	}
	return slices.Insert(list, at, strings.Clone(text))
}

// endIncidents ends the incidents whose last event arrived at least incidentGap ago. The events of
// the ended incidents are appended to the list of events to send. If the last argument is true,
// endIncidents ends all incidents.
func (t *Tracker) endIncidents(out []Event, now int64, all bool) []Event {
	var ended []Event
	t.places.Each(func(_ string, p *place) {
		i := p.Incident
		if i == nil {
			return
		}
		if now < i.Arrived { // the clock was set back
			i.Arrived = now
		}
		if all || now-i.Arrived >= int64(incidentGap) {
			ended = append(ended, p.endIncident())
		}
	})
	slices.SortFunc(ended, func(a, b Event) int { return cmp.Or(cmp.Compare(a.Time, b.Time), a.Place.Compare(b.Place)) })
	for _, e := range ended {
		out = t.outlet.send(out, e, now)
	}
	return out
}

// endIncident ends the incident of the place and returns the incident's event.
func (p *place) endIncident() Event {
	at := p.at
	i := p.Incident
	p.Incident = nil
	took := seconds(i.Last - i.First)
	e := Event{
		Name: XIDIncident, Time: i.Last, Place: at, Host: i.Host, Resource: i.Resource, Severity: i.Severity, Count: i.Count,
		Lists:   map[string][]string{AttrCodes: i.Codes, AttrDevices: i.Devices},
		Numbers: map[string]float64{AttrDuration: took},
		Body: fmt.Sprintf("Node %s: %d XID errors (%s) on %d devices within %.0f s.",
			cmp.Or(at.Node, i.Host), i.Count, strings.Join(i.Codes, ", "), len(i.Devices), took),
	}
	if i.Action != "" {
		e.Texts = map[string]string{AttrAction: i.Action}
		e.Body += " Strongest action: " + i.Action + "."
	}
	return e
}
