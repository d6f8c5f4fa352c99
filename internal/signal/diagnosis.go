package signal

// Signal is the name of a diagnosed metric. If the metric has an own attribute, its value follows
// in braces: gpu.clock.throttle.time{power}.
const Signal = "signal"

// ReasonUnread means that the device exists but the driver cannot read it.
const ReasonUnread = "unread"

// ReasonNoValue means that the values of a signal cannot be used.
const ReasonNoValue = "no_value"

// GPUSignalAvailable reports whether a device's exporter provides a signal.
var GPUSignalAvailable = add(Metric{
	Name: "gpu.signal.available", Unit: "{state}", Int: true, Off: true,
	Description: "1 when the exporter shows what the signal is made of, else 0 with the reason. Made if it is enabled. A board of which nothing is observed always has one point, with the reason unread or no_value.",
	Source:      "which fields and labels one scrape shows",
	Attributes:  []string{Signal, Reason},
})
