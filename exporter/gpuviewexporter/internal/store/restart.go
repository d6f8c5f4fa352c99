package store

import "slices"

// maxRestarts is the maximum number of restarts that are stored per device, and of outages that are
// stored per exporter.
const maxRestarts = 64

// Restart describes a restart of a device's driver. A restart resets the energy counter to 0. After
// is the time of the last point before the restart. By is the time of the first point after the
// restart.
type Restart struct {
	After Time `json:"after"`
	By    Time `json:"by"`
}

// energyCounter tracks a board's energy counter. A decrease in the counter counts as a restart only
// if the value falls by more than half. Smaller decreases are ignored, because the counter can
// appear to decrease slightly if two collectors send its value.
type energyCounter struct {
	at       int64
	value    float64
	restarts []Restart
}

func (e *energyCounter) addPoint(p *Point) {
	if p.End <= e.at {
		return
	}
	if e.at > 0 && p.Value < e.value/2 {
		e.restarts = append(e.restarts[max(0, len(e.restarts)-maxRestarts+1):], Restart{Time(e.at), Time(p.End)})
	}
	e.at, e.value = p.End, p.Value
}

func (e *energyCounter) expire(oldest int64) {
	e.restarts = slices.DeleteFunc(e.restarts, func(r Restart) bool { return int64(r.By) <= oldest })
}

// Restarts returns the restarts of the device's driver during the retention period, oldest first.
// For a MIG instance, Restarts returns the restarts of the instance's board.
func (v *View) Restarts(d *Device) []Restart {
	if board := v.s.devices[deviceKey{d.Cluster, d.Node, d.Parent}]; board != nil {
		d = board
	}
	return append([]Restart{}, d.energy.restarts...)
}

// Outage is a time span during which an exporter did not answer. An outage starts at the first
// failed scrape and ends at the next successful scrape. If the outage has not ended, To is 0.
type Outage struct {
	URL  string `json:"url"`
	From Time   `json:"from"`
	To   Time   `json:"to"`
}

// Outages returns the outages of the exporters on the device's node. Outages are sorted by exporter
// and then by time, oldest first. Exporters without a recent result are not included.
func (v *View) Outages(d *Device) []Outage {
	out := []Outage{}
	for _, e := range v.Exporters() {
		if e.Cluster != d.Cluster || e.Node != d.Node {
			continue
		}
		for _, o := range e.outages {
			if int64(o.To) > v.Now-int64(v.Retention()) {
				out = append(out, o)
			}
		}
		if !e.Up {
			out = append(out, Outage{URL: e.URL, From: Time(e.Since)})
		}
	}
	return out
}
