// Package events finds transitions in frames: conditions that start or end, counters that increase,
// and states of a device that change. The package does not use pdata or logs. Callers pass the
// current time. A place is a node; see [gpudata.Place].
package events

import (
	"fmt"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// The following constants are the names of events, which are used as event_name.
const (
	XID             = "gpu.xid"
	XIDIncident     = "gpu.xid.incident"
	Error           = "gpu.error"
	ThrottleStart   = "gpu.throttle.start"
	ThrottleEnd     = "gpu.throttle.end"
	PressureStart   = "gpu.memory.pressure.start"
	PressureEnd     = "gpu.memory.pressure.end"
	StatusChange    = "gpu.status.change"
	DeviceLost      = "gpu.device.lost"
	DeviceFound     = "gpu.device.found"
	PartitionChange = "gpu.partition.change"
	ExporterDown    = "gpu.exporter.down"
	ExporterUp      = "gpu.exporter.up"
	HolderStart     = "gpu.holder.start"
	HolderEnd       = "gpu.holder.end"
	FindingStart    = "gpu.finding.start"
	FindingEnd      = "gpu.finding.end"
	Suppressed      = "gpu.events.suppressed"
)

// The following constants are the keys of event attributes.
const (
	AttrCount         = "gpu.event.count"
	AttrSource        = "gpu.event.source"
	AttrRatio         = "gpu.event.ratio"
	AttrDuration      = "gpu.event.duration"
	AttrMetric        = "gpu.event.metric"
	AttrFrom          = "gpu.event.from"
	AttrTo            = "gpu.event.to"
	AttrMeaning       = "gpu.xid.meaning"
	AttrAction        = "gpu.xid.action"
	AttrCodes         = "gpu.xid.codes"
	AttrDevices       = "gpu.incident.devices"
	AttrCatalogueDate = "gpu.catalogue.date"
)

// Severity is the severity of an event.
type Severity uint8

// The severities of events.
const (
	Info Severity = iota
	Warn
	Err
)

// Event is a transition, or several equal transitions that were merged.
type Event struct {
	Name string
	// Time is the sample time of the transition. For merged transitions, Time is the time of the
	// last transition.
	Time int64
	// Place and Host describe where the transition occurred. Place and Host are empty if they are
	// unknown.
	Place gpudata.Place
	Host  string
	// Device is the hw.id of the device. Device is empty for events that are not about a single
	// device.
	Device      string `json:",omitempty"`
	Description gpudata.Description
	// Holder is the holder that a holder event is about. For other events, Holder is the holder of
	// the device if exactly one holder is known, and the zero Holder otherwise.
	Holder gpudata.Holder
	// Strategy and Allocation describe how the holder holds the device.
	Strategy   string `json:",omitempty"`
	Allocation gpudata.Allocation
	// Resource contains all attributes of the Resource, if the batch contains the Resource.
	Resource map[string]any `json:",omitempty"`
	Severity Severity
	Body     string
	// Own is the key and the value of an attribute that distinguishes events with the same name and
	// device.
	Own [2]string
	// Texts, Numbers, and Lists contain the attributes that no other field contains.
	Texts   map[string]string   `json:",omitempty"`
	Numbers map[string]float64  `json:",omitempty"`
	Lists   map[string][]string `json:",omitempty"`
	// Count is gpu.event.count: the increase in a counter, or the number of merged events.
	Count int64
}

// Settings contains the settings of the connector.
type Settings struct {
	// For is the length of the period over which shares of time are computed.
	For time.Duration
	// LostAfter is how long a device or an instance must be missing, or an exporter must be down,
	// before an event is sent.
	LostAfter time.Duration
	// Interval is how long equal events are merged after an event has been sent.
	Interval time.Duration
	// MaxGap is the maximum time between two consecutive samples of a share.
	MaxGap time.Duration
	// MaxPerMinute is the maximum number of events per minute.
	MaxPerMinute int
	// Holders enables events about holders.
	Holders bool
}

// DefaultSettings returns the documented defaults.
func DefaultSettings() Settings {
	return Settings{
		For: time.Minute, LostAfter: 90 * time.Second, Interval: time.Minute,
		MaxGap: 90 * time.Second, MaxPerMinute: 600,
	}
}

// describe sets the body of an event whose body contains the number of merged events or the states
// before and after a change. It does not change the body of other events.
func (e *Event) describe() {
	switch e.Name {
	case Error:
		e.Body = fmt.Sprintf("GPU %s: %d x %s.", e.Device, e.Count, e.Own[1])
	case StatusChange:
		times := ""
		if e.Count > 1 {
			times = fmt.Sprintf(" %d times,", e.Count)
		}
		e.Body = fmt.Sprintf("GPU %s: %s changed%s from %s to %s.", e.Device, e.Own[1], times, e.Texts[AttrFrom], e.Texts[AttrTo])
	case PartitionChange:
		e.Body = "GPU " + e.Device + " was repartitioned from [" + e.Texts[AttrFrom] + "] to [" + e.Texts[AttrTo] + "]."
	}
}
