package store

import "slices"

// maxRestarts limits the restarts of one device and the outages of one exporter that are stored.
const maxRestarts = 64

// Restart is a start of a device's driver, after which the energy counter restarts at 0. After is the time of the
// last point before the restart, By the time of the first point after it.
type Restart struct {
	After Time `json:"after"`
	By    Time `json:"by"`
}

// energyCounter tracks a board's energy counter. Only a decrease by more than half counts as a restart, because
// the counter appears to decrease slightly if two collectors send it.
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

// Restarts returns the starts of the device's driver within the retention, oldest first. For a MIG instance it
// returns those of its board.
func (v *View) Restarts(d *Device) []Restart {
	if board := v.s.devices[deviceKey{d.Cluster, d.Node, d.Parent}]; board != nil {
		d = board
	}
	return append([]Restart{}, d.energy.restarts...)
}

// Outage is a time span in which an exporter did not answer. It starts with the first failed scrape and ends with
// the next successful one. To is 0 if the exporter does not answer yet.
type Outage struct {
	URL  string `json:"url"`
	From Time   `json:"from"`
	To   Time   `json:"to"`
}

// Outages returns the time spans in which exporters at the device's place did not answer. They are sorted by
// exporter, then oldest first. Only exporters with a recent result are included.
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
