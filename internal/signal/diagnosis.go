package signal

// Signal is the metric that a diagnosis is about, with the value of that metric's own attribute
// in braces: gpu.clock.throttle.time{power}.
const Signal = "signal"

// ReasonUnread is the reason of a signal of a device that exists and that the driver cannot read.
const ReasonUnread = "unread"

// GPUSignalAvailable says which signals a device's exporter can give.
var GPUSignalAvailable = add(Metric{
	Name: "gpu.signal.available", Unit: "{state}", Int: true, Off: true,
	Description: "1 when the exporter shows what the signal is made of, else 0 with the reason. Made if it is enabled. A device that the driver cannot read always has one point with the reason unread.",
	Source:      "which fields and labels one scrape shows",
	Attributes:  []string{Signal, Reason},
})
