package store

import "slices"

// maxRestarts bounds the restarts of one device, and the outages of one exporter, that are kept.
const maxRestarts = 64

// Restart is a start of a device's driver: after the last point of the energy counter, which counts from there, and
// not after the first one that was less.
type Restart struct {
	After Time `json:"after"`
	By    Time `json:"by"`
}

// energy follows a board's energy counter. Only a fall by more than half is a start: where two collectors send one
// counter, it seems to fall a little again and again.
type energy struct {
	at       int64
	value    float64
	restarts []Restart
}

func (e *energy) take(p *Point) {
	if p.End <= e.at {
		return
	}
	if e.at > 0 && p.Value < e.value/2 {
		e.restarts = append(e.restarts[max(0, len(e.restarts)-maxRestarts+1):], Restart{Time(e.at), Time(p.End)})
	}
	e.at, e.value = p.End, p.Value
}

func (e *energy) expire(oldest int64) {
	e.restarts = slices.DeleteFunc(e.restarts, func(r Restart) bool { return int64(r.By) <= oldest })
}

// Restarts returns the starts of the device's driver within the kept time, oldest first; of a MIG instance those
// of its board.
func (v *View) Restarts(d *Device) []Restart {
	if board := v.s.devices[deviceKey{d.Cluster, d.Node, d.Parent}]; board != nil {
		d = board
	}
	return append([]Restart{}, d.energy.restarts...)
}

// Outage is a time for which an exporter did not answer: from the first scrape that failed to the first one that did
// not. To is 0 where it does not answer yet.
type Outage struct {
	URL  string `json:"url"`
	From Time   `json:"from"`
	To   Time   `json:"to"`
}

// Outages returns when the exporters of the device's place did not answer, by exporter, as far back as something is
// known of it, oldest first.
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
