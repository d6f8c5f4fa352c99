package signal

// Signal is the metric that a diagnosis is about, with the value of that metric's own attribute
// in braces: gpu.clock.throttle.time{power}.
const Signal = "signal"

// ReasonUnread is the reason of a signal of a device that exists and that the driver cannot read.
const ReasonUnread = "unread"

// ReasonNoValue is the reason of a signal whose values cannot be used.
const ReasonNoValue = "no_value"

// GPUSignalAvailable says which signals a device's exporter can give.
var GPUSignalAvailable = add(Metric{
	Name: "gpu.signal.available", Unit: "{state}", Int: true, Off: true,
	Description: "1 when the exporter shows what the signal is made of, else 0 with the reason. Made if it is enabled. A board of which nothing is observed always has one point, with the reason unread or no_value.",
	Source:      "which fields and labels one scrape shows",
	Attributes:  []string{Signal, Reason},
})
