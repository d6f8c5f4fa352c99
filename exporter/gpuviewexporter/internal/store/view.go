package store

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// View is the state of the store at a point in time. A View and everything that its methods return
// are read-only, and are valid only until the function that was passed to [Store.Read] returns.
type View struct {
	s *Store
	// Now is the time at which the view was created, in Unix nanoseconds.
	Now int64

	exporters []Exporter               // The result of Exporters, or nil before the first call.
	down      []*Exporter              // The elements of the exporters slice that do not answer.
	claims    map[string][]placedClaim // The current claims, keyed by hw.id or MIG UUID, or nil before the first call of Claims.
}

// Read calls f with a View of the store. The now parameter is the current wall clock time.
func (s *Store) Read(now time.Time, f func(*View)) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	f(&View{s: s, Now: now.UnixNano()})
}

// Retention returns how long windows are stored.
func (v *View) Retention() time.Duration { return v.s.settings.Retention }

// Newest returns the end of the newest window in Unix nanoseconds, and the length of that window.
// If there is no window, the end is 0.
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

// NewestPoint returns the timestamp of the device's newest point in Unix nanoseconds.
func (d *Device) NewestPoint() int64 { return d.newestPoint }

// Due returns the time, in Unix nanoseconds, after which the device is lost unless a new point
// arrives. A device can be lost even if its exporter answers. The next window may end two intervals
// after the newest window, and may arrive with the same delay as the newest window. A device
// without windows is lost when its gauges become stale.
func (v *View) Due(d *Device) int64 {
	n := d.Len()
	if n == 0 {
		return d.newestPoint + v.s.stale()
	}
	every := int64(float64(d.Length(n-1)) * 1e9)
	// If windows without samples are not sent, the interval between windows is longer than a
	// window. Use the shorter of the last two intervals, because a single long interval may be due
	// to an outage.
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
	// URL is the URL of the exporter that is down, and Since is the time of the first failed
	// scrape. If the reason for the loss is unknown, URL and Since are empty.
	URL   string `json:"url,omitempty"`
	Since Time   `json:"since,omitempty"`
}

// Lost returns the reason why the device has no current data, or nil if the device has current
// data. A device counts as lost if no new window arrives in time. If the device's exporter is down,
// the device is lost one window length after the first failed scrape, unless the device has a point
// with that time or a later time.
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

// The stale method returns the age, in nanoseconds, above which a value is no longer current.
func (s *Store) stale() int64 { return int64(s.staleAfter()) }

func (s *Store) staleAfter() time.Duration { return max(minStaleAge, 3*s.step) }

// Gauge returns the last value of one of the device's gauges, or false if there is no recent value.
func (v *View) Gauge(d *Device, g Gauge) (float64, bool) { return v.fresh(d.gauges[g]) }

// Gauges returns the recent values of all gauges that describe the device.
func (v *View) Gauges(d *Device) Numbers { return v.numbers(d.gauges[:ContainerMemoryUsage]) }

// HolderGauges returns the recent values of all gauges that describe the container.
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

// Verdicts returns one verdict for each signal in [Diagnosed], or nil if the device has no recent
// verdicts.
func (v *View) Verdicts(d *Device) []Verdict {
	if _, ok := v.fresh(Reading{at: d.judged}); !ok {
		return nil
	}
	return d.verdicts
}

// Device returns the device with the given number, or nil if there is none.
func (v *View) Device(number uint64) *Device {
	for _, d := range v.s.devices {
		if d.Number == number {
			return d
		}
	}
	return nil
}

// IsCurrentHolder reports whether the container held the device during the device's newest window.
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
	Values   Numbers `json:"v"` // Indexed by Demand.
	// At is the timestamp of the newest value. The values are current until Due.
	At  Time `json:"at"`
	Due Time `json:"due"`
}

// Demand returns the scheduler's view of each Kubernetes resource in each cluster. Views that are
// not recent are omitted.
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
// have arrived. If there are no windows, Expected returns 0.
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
