package store

import "slices"

// maxRestarts limits the number of stored restarts per device and of stored outages per exporter.
const maxRestarts = 64

// Restart is a restart of a device's driver. The driver's energy counter starts at 0 again. After
// is the time of the last point before the restart. By is the time of the first point after it.
type Restart struct {
	After Time `json:"after"`
	By    Time `json:"by"`
}

// energyCounter tracks a board's energy counter. Only a decrease by more than half counts as a
// restart. If two collectors send the counter, it can appear to decrease slightly.
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
// For a MIG instance, it returns the restarts of its board.
func (v *View) Restarts(d *Device) []Restart {
	if board := v.s.devices[deviceKey{d.Cluster, d.Node, d.Parent}]; board != nil {
		d = board
	}
	return append([]Restart{}, d.energy.restarts...)
}

// Outage is a time span during which an exporter did not answer. It starts at the first failed
// scrape and ends at the next successful scrape. To is 0 if the outage has not ended.
type Outage struct {
	URL  string `json:"url"`
	From Time   `json:"from"`
	To   Time   `json:"to"`
}

// Outages returns the outages of the exporters on the device's node. They are sorted by exporter
// and then by time, oldest first. Only exporters that have a recent result are included.
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
