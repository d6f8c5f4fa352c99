package signal

// Signal is the attribute key for the name of a diagnosed metric. If the metric has its own
// attribute, the attribute's value follows in braces, such as gpu.clock.throttle.time{power}.
const Signal = "signal"

// ReasonUnread means that the device exists but the driver cannot read it.
const ReasonUnread = "unread"

// ReasonNoValue means that a signal has no usable value.
const ReasonNoValue = "no_value"

// GPUSignalAvailable reports whether a device's exporter provides a signal.
var GPUSignalAvailable = add(Metric{
	Name: "gpu.signal.available", Unit: "{state}", Int: true, Off: true,
	Description: "1 if the exporter provides the signal's source, otherwise 0 with the reason. Off by default. A board without observed values always has one point, with the reason unread or no_value.",
	Source:      "the fields and labels in one scrape",
	Attributes:  []string{Signal, Reason},
})
