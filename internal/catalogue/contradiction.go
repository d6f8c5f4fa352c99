package catalogue

// Contradiction is the reason why a plausible value is not an observation: other values of the same
// device and scrape contradict it.
type Contradiction uint8

const (
	// Frozen values are zeros from a stopped profiler although the device is busy.
	Frozen Contradiction = iota
	// Unread values are the zeros of quantities that the driver cannot read.
	Unread
	// TooFast values are byte rates above the capacity of the link.
	TooFast
)

// Profiler describes how to detect that an exporter's profiler has stopped: its activity is 0
// although the utilization, which has another source, is at least Busy.
type Profiler struct {
	// Activity and Utilization are names of fields.
	Activity, Utilization string
	Busy                  float64

	activity, utilization ID
}

// Values are the values of one device in one scrape after its rows were merged.
type Values interface {
	// Value returns the device's value of a field, or the rate of a counter field. It returns false
	// if there is no value.
	Value(id ID, rate bool) (v float64, ok bool)
	// Capacity returns the maximum of a signal on this device, or 0 if it is unknown.
	Capacity(s *Signal) float64
	// Drop discards the value of a field, or its rate.
	Drop(id ID, why Contradiction)
}

// DropContradicted drops the values of a device that contradict other values.
func (x *Exporter) DropContradicted(d Values) {
	for _, ids := range x.zeroTogether {
		if allZero(d, ids) {
			for _, id := range ids {
				d.Drop(id, Unread)
			}
		}
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
	if x.isFrozen(d) {
		for _, id := range x.profiling {
			if isZero(d, id, false) || ByID(id).Kind == Counter && isZero(d, id, true) {
				d.Drop(id, Frozen)
			}
		}
	}
}

func (x *Exporter) isFrozen(d Values) bool {
	if x.Profiler.Activity == "" || !isZero(d, x.Profiler.activity, false) {
		return false
	}
	utilization, ok := d.Value(x.Profiler.utilization, false)
	return ok && utilization >= x.Profiler.Busy
}

// isZero reports whether a field has a value that is 0, or a ratio that would be clamped to 0.
func isZero(d Values, id ID, rate bool) bool {
	v, ok := d.Value(id, rate)
	return ok && v <= 0
}

// allZero reports whether all fields have a value and all values are 0.
func allZero(d Values, ids []ID) bool {
	for _, id := range ids {
		if !isZero(d, id, false) {
			return false
		}
	}
	return true
}

// isByteRate reports whether values of the unit are byte rates, or counters of bytes.
func (u Unit) isByteRate() bool {
	return u == BytePerSecond || u == ThousandKiBPerSecond || u == ByteCount || u == Kilobyte
}
