package store

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// View is the state of the store at one moment. A View and everything that its methods return are
// read-only. They are valid only until the function that received the View returns.
type View struct {
	s *Store
	// Now is the time of the view in Unix nanoseconds.
	Now int64

	exporters []Exporter               // the result of Exporters, or nil before the first call
	down      []*Exporter              // the elements of exporters that do not answer
	claims    map[string][]placedClaim // the current claims by hw.id or MIG UUID; nil before the first call of Claims
}

// Read calls f with the state of the store. now is the wall clock time.
func (s *Store) Read(now time.Time, f func(*View)) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	f(&View{s: s, Now: now.UnixNano()})
}

// Retention returns how long windows are stored.
func (v *View) Retention() time.Duration { return v.s.settings.Retention }

// Newest returns the end of the newest window in Unix nanoseconds, and the length of that window.
// The end is 0 if there is no window.
func (v *View) Newest() (end int64, step time.Duration) { return v.s.newest, v.s.step }

// Devices returns the devices that have a point within the retention period, sorted by number.
func (v *View) Devices() []*Device {
	out := make([]*Device, 0, len(v.s.devices))
	for _, d := range v.s.devices {
		if d.newestPoint > v.Now-int64(v.Retention()) {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b *Device) int { return cmp.Compare(a.Number, b.Number) })
	return out
}

// Holders returns the containers that held the device during the retention period, sorted by name.
func (d *Device) Holders() []*Holder {
	return slices.SortedFunc(maps.Values(d.holders), func(a, b *Holder) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod),
			cmp.Compare(a.Container, b.Container), cmp.Compare(a.PodUID, b.PodUID))
	})
}

// NewestPoint returns the time of the newest point of the device in Unix nanoseconds.
func (d *Device) NewestPoint() int64 { return d.newestPoint }

// Due returns the time, in Unix nanoseconds, after which the device is lost unless a new point
// arrives. This also applies if the device's exporter answers. Due allows the next window to end
// two intervals after the newest window and to have the same arrival delay. A device without
// windows is lost when its gauges become stale.
func (v *View) Due(d *Device) int64 {
	n := d.Len()
	if n == 0 {
		return d.newestPoint + v.s.stale()
	}
	every := int64(float64(d.Length(n-1)) * 1e9)
	// If windows without samples are not sent, the gaps between windows are longer than a window.
	// Use the shorter of the last two gaps as the interval, because a single long gap may be an
	// outage.
	if n > 1 {
		gap := d.End(n-1) - d.End(n-2)
		if n > 2 {
			gap = min(gap, d.End(n-2)-d.End(n-3))
		}
		every = max(every, min(gap, int64(minStaleAge)))
	}
	return d.End(n-1) + 2*every + max(int64(minDelayTolerance), min(d.delay, int64(maxDelayTolerance)))
}

// Loss describes why a device has no current data.
type Loss struct {
	// Last is the end of the device's last window, or the time of its last point if the device has
	// no window.
	Last Time `json:"last"`
	// URL is the URL of the exporter that fails. Since is the time of the first failed scrape. Both
	// are empty if the reason for the loss is unknown.
	URL   string `json:"url,omitempty"`
	Since Time   `json:"since,omitempty"`
}

// Lost returns the reason why the device has no current data, or nil if the device has current
// data. A device is lost if no new point arrives in time. If the device's exporter fails, the
// device is lost when the length of one window has passed since the first failed scrape, unless the
// device has a point with a later time.
func (v *View) Lost(d *Device) *Loss {
	loss := &Loss{Last: Time(d.newestPoint)}
	length := int64(v.s.step)
	if n := d.Len(); n > 0 {
		loss.Last, length = Time(d.End(n-1)), int64(float64(d.Length(n-1))*1e9)
	}
	if e := v.failing(d.Cluster, d.Node); e != nil {
		if until := e.Since + length; v.Now > until && d.newestPoint < until {
			loss.URL, loss.Since = e.URL, Time(e.Since)
			return loss
		}
	}
	if v.Now > v.Due(d) {
		return loss
	}
	return nil
}

// stale returns the age, in nanoseconds, at which a value is no longer current.
func (s *Store) stale() int64 { return int64(s.staleAfter()) }

func (s *Store) staleAfter() time.Duration { return max(minStaleAge, 3*s.step) }

// Gauge returns the last value of a gauge of the device. It returns false if there is no recent
// value.
func (v *View) Gauge(d *Device, g Gauge) (float64, bool) { return v.fresh(d.gauges[g]) }

// Gauges returns the recent values of the device's gauges, which are all gauges before
// ContainerMemoryUsage.
func (v *View) Gauges(d *Device) Numbers { return v.numbers(d.gauges[:ContainerMemoryUsage]) }

// HolderGauges returns the recent values of the container's gauges, which are ContainerMemoryUsage
// and all gauges after it.
func (v *View) HolderGauges(h *Holder) Numbers { return v.numbers(h.gauges[ContainerMemoryUsage:]) }

func (v *View) numbers(readings []Reading) Numbers {
	out := make(Numbers, len(readings))
	for i, r := range readings {
		out[i] = absent
		if value, ok := v.fresh(r); ok {
			out[i] = float32(value)
		}
	}
	return out
}

func (v *View) fresh(r Reading) (float64, bool) {
	return r.value, r.at != 0 && v.Now-r.at <= v.s.stale()
}

// Verdicts returns the device's verdicts, one for each signal in [Diagnosed]. It returns nil if
// there are no recent verdicts.
func (v *View) Verdicts(d *Device) []Verdict {
	if _, ok := v.fresh(Reading{at: d.judged}); !ok {
		return nil
	}
	return d.verdicts
}

// Device returns the device with the given number, or nil.
func (v *View) Device(number uint64) *Device {
	for _, d := range v.s.devices {
		if d.Number == number {
			return d
		}
	}
	return nil
}

// IsCurrentHolder reports whether the container held the device in the newest window of the device.
func (v *View) IsCurrentHolder(d *Device, h *Holder) bool {
	at := d.newestPoint
	if n := d.Len(); n > 0 {
		at = d.End(n-1) - int64(float64(d.Length(n-1))*1e9)
	}
	return h.newestPoint > at || h.newestPoint == d.newestPoint
}

// ResourceDemand is the scheduler's view of one Kubernetes resource.
type ResourceDemand struct {
	Cluster  string  `json:"cluster,omitempty"`
	Resource string  `json:"resource"`
	Values   Numbers `json:"v"` // indexed by Demand
	// At is the time of the newest value. Due is the time until which the values are current.
	At  Time `json:"at"`
	Due Time `json:"due"`
}

// Demand returns the recent values of the scheduler's view for each pair of cluster and resource.
func (v *View) Demand() []ResourceDemand {
	out := []ResourceDemand{}
	for key, readings := range v.s.demand {
		newest := slices.MaxFunc(readings[:], func(a, b Reading) int { return cmp.Compare(a.at, b.at) })
		if _, ok := v.fresh(newest); ok {
			out = append(out, ResourceDemand{key.cluster, key.resource, v.numbers(readings[:]), Time(newest.at), Time(newest.at + v.s.stale())})
		}
	}
	slices.SortFunc(out, func(a, b ResourceDemand) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Resource, b.Resource))
	})
	return out
}

// Expected returns the time, in Unix nanoseconds, by which the next window of every node should
// have arrived. It returns 0 if there is no window.
func (v *View) Expected() int64 {
	if v.s.newest == 0 {
		return 0
	}
	var delay int64
	for _, d := range v.s.devices {
		if n := d.Len(); n > 0 && d.End(n-1) == v.s.newest {
			delay = max(delay, d.delay)
		}
	}
	return v.s.newest + int64(v.s.step) + delay
}
