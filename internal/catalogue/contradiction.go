package catalogue

// Contradiction describes how a value conflicts with other values of the same device and scrape. A
// conflicting value is not an observation, even if the value is plausible on its own.
type Contradiction uint8

const (
	// Frozen values are zeros that a stopped profiler reports even though the device is busy.
	Frozen Contradiction = iota
	// Unread values are zeros that the driver reports for quantities that it cannot read.
	Unread
	// TooFast values are byte rates above 1.5 times the capacity of the link.
	TooFast
)

// Values provides access to the values of one device in one scrape, after the device's rows have
// been merged.
type Values interface {
	// Value returns the device's value of a field or, if rate is true, the rate of a counter field.
	// Value returns false if there is no value.
	Value(id ID, rate bool) (v float64, ok bool)
	// Capacity returns the capacity of the device to which the signal's value is compared, or 0 if
	// the capacity is unknown.
	Capacity(s *Signal) float64
	// Drop discards the value or the rate of a field.
	Drop(id ID, why Contradiction)
}

// DropContradicted drops the values of a device that conflict with other values of the device.
func (x *Exporter) DropContradicted(d Values) {
	if x.dropContradicted != nil {
		x.dropContradicted(d)
	}
	for _, s := range x.links {
		capacity := d.Capacity(s)
		for _, set := range s.Sets {
			for _, id := range set {
				if v, ok := d.Value(id, ByID(id).Kind == Counter); ok && AboveCapacity(v, capacity) {
					d.Drop(id, TooFast)
				}
			}
		}
	}
}

// isByteRate reports whether the unit is a byte rate or a byte count.
func (u Unit) isByteRate() bool {
	return u == BytePerSecond || u == ThousandKiBPerSecond || u == ByteCount || u == Kilobyte
}
