// Package events finds transitions in frames: what began, ended, rose or changed on a device.
// It knows neither pdata nor logs, and its clock is an argument.
package events

import (
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// Names of events, as event_name has them.
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

// Attributes of events.
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

// Severity is how bad an event is.
type Severity uint8

// The severities of events.
const (
	Info Severity = iota
	Warn
	Err
)

// Event is one transition, or several equal ones that were folded.
type Event struct {
	Name string
	// Time is the sample time of the transition, of the last one where several were folded.
	Time int64
	// Place and Host say where; both are empty for events of no place.
	Place gpudata.Place
	Host  string
	// Device is the hw.id, empty for events about an exporter.
	Device      string `json:",omitempty"`
	Description gpudata.Description
	// Holder is the one known holder of the device, zero where it is not exactly one.
	Holder gpudata.Holder
	// Strategy and Allocation are how that one has the device.
	Strategy   string `json:",omitempty"`
	Allocation gpudata.Allocation
	// Resource are all attributes of the Resource, where the batch was there to tell.
	Resource map[string]any `json:",omitempty"`
	Severity Severity
	Body     string
	// Own is the attribute by which events of one name on one device differ: its key and value.
	Own [2]string
	// Texts, Numbers and Lists are further attributes.
	Texts   map[string]string   `json:",omitempty"`
	Numbers map[string]float64  `json:",omitempty"`
	Lists   map[string][]string `json:",omitempty"`
	// Count is gpu.event.count: the increase of a counter, or how many events are in this one.
	Count int64
}

// Settings are those of the connector.
type Settings struct {
	// For is the time over which shares are judged.
	For time.Duration
	// LostAfter is how long a device or an instance must be missing, or an exporter down, before
	// that is an event.
	LostAfter time.Duration
	// Interval is the time during which equal events are folded into one.
	Interval time.Duration
	// MaxGap is the longest time between two samples over which a share is continued.
	MaxGap time.Duration
	// MaxPerMinute is the most events that leave in a minute.
	MaxPerMinute int
	// Holders says that changes of holders are events.
	Holders bool
}

// DefaultSettings returns the defaults of the contract.
func DefaultSettings() Settings {
	return Settings{
		For: time.Minute, LostAfter: 90 * time.Second, Interval: time.Minute,
		MaxGap: 90 * time.Second, MaxPerMinute: 600,
	}
}
