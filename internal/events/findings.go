package events

import (
	"maps"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// The findings method sends events for the findings that start or end in the frame.
func (c *frame) findings() {
	for i := range c.f.Findings {
		x := &c.f.Findings[i]
		k := c.place.Devices[x.Device]
		if k == nil {
			k = &device{}
		}
		e := Event{Name: FindingEnd, Severity: Warn, Body: x.Body, Own: [2]string{signal.Finding, x.Name}, Texts: x.Texts, Numbers: x.Numbers, Lists: x.Lists}
		if x.Start {
			e.Name = FindingStart
		} else {
			e.Numbers = maps.Clone(x.Numbers)
			if e.Numbers == nil {
				e.Numbers = map[string]float64{}
			}
			e.Numbers[AttrDuration] = x.Duration.Seconds()
		}
		id := x.Device
		if x.Workload {
			id = ""
		}
		c.emit(k, id, e)
	}
}
