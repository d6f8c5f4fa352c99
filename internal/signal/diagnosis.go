package signal

// Signal is the key of an attribute that contains the name of a diagnosed metric. If the metric has
// its own attribute, the attribute's value follows the name in braces, as in
// gpu.clock.throttle.time{power}.
const Signal = "signal"

// ReasonUnread means that the device exists but the driver cannot read it.
const ReasonUnread = "unread"

// ReasonNoValue means that the exporter has no usable value for a signal.
const ReasonNoValue = "no_value"

// GPUSignalAvailable reports whether the exporter provides a signal for a device.
var GPUSignalAvailable = add(Metric{
	Name: "gpu.signal.available", Unit: "{state}", Int: true, Off: true,
	Description: "1 if the exporter provides the signal's source, otherwise 0 with the reason. Off by default. A board without observed values always has one point, with the reason unread or no_value.",
	Source:      "the fields and labels in one scrape",
	Attributes:  []string{Signal, Reason},
})
