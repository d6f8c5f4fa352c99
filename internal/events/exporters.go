package events

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// exporter is the state of a scraped exporter.
type exporter struct {
	// Down is the time at which the exporter went down, or 0 if the exporter is up.
	Down int64 `json:",omitempty"`
	// Up is the time at which the exporter last came up again.
	Up int64 `json:",omitempty"`
	// Reported is true if the gpu.exporter.down event was sent.
	Reported bool `json:",omitempty"`
	// First is the time of the oldest sample. Time is the time of the newest sample.
	First int64 `json:",omitempty"`
	Time  int64 `json:",omitempty"`
}

// RecordResponse records that the frames are from the response of the exporter with the given URL.
// If all frames are from one place, the exporter is assumed to run in that place, unless
// gpu.exporter.up names another place.
func (t *Tracker) RecordResponse(url string, frames []*gpudata.Frame) {
	for _, f := range frames {
		t.places.Visit(f.Place, func(p *place) {
			for _, d := range f.Devices {
				if b := p.Devices[boardOf(d)]; b != nil && d.Present() && b.Exporter != url {
					b.Exporter = strings.Clone(url)
				}
			}
		})
	}
	if len(frames) == 0 || slices.ContainsFunc(frames, func(f *gpudata.Frame) bool { return f.Place != frames[0].Place }) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if at, known := t.exporters[url]; at != frames[0].Place && (known || len(t.exporters) < maxPlaces) {
		t.exporters[strings.Clone(url)] = frames[0].Place.Clone()
	}
}

// Exporter records whether the last scrape of an exporter succeeded, and returns the events to send
// now. If the given place has no node, the place of the exporter's frames is used.
func (t *Tracker) Exporter(at gpudata.Place, host, url string, up bool, sample int64, now time.Time) (out []Event) {
	if at.Node == "" {
		t.mu.Lock()
		if of, known := t.exporters[url]; known {
			at = of
		}
		t.mu.Unlock()
	}
	t.withPlace(at, sample, now, func(p *place) { out = t.exporter(p, host, url, up, sample, now) })
	return out
}

func (t *Tracker) exporter(p *place, host, url string, up bool, sample int64, now time.Time) []Event {
	host = cmp.Or(host, p.Host)
	e := p.Exporters[url]
	if e == nil {
		if len(p.Exporters) >= maxExporters {
			t.Refused.Add(1)
			return nil
		}
		e = &exporter{First: sample}
		if p.Exporters == nil {
			p.Exporters = map[string]*exporter{}
		}
		p.Exporters[url] = e
	}
	if sample <= e.Time {
		return nil
	}
	e.Time = sample
	event := Event{Time: sample, Place: p.at, Host: host, Own: [2]string{signal.URLFull, url}}
	switch {
	case up && e.Down != 0:
		reported := e.Reported
		*e = exporter{Up: sample, First: e.First, Time: sample}
		if !reported {
			return nil
		}
		event.Name, event.Body = ExporterUp, "The exporter at "+url+" exposes samples again."
	case !up && e.Down == 0:
		e.Down = sample
		return nil
	case !up && !e.Reported && sample-e.Down >= int64(t.set.LostAfter):
		e.Reported = true
		event.Name, event.Severity, event.Body = ExporterDown, Warn, "The exporter at "+url+" exposes no samples."
	default:
		return nil
	}
	return t.outlet.put(nil, event, now.UnixNano())
}

// The up method reports whether a board's exporter is up at the given time. The first result is the
// time since which the exporter has been up, or 0 if the time is unknown. If the board's exporter is
// unknown, all exporters in the place must be up. After a period without samples in the place, the
// first samples may come from other exporters. Therefore, an exporter that has not been scraped
// since that period counts as up since the end of the period.
func (p *place) up(k *device, at, lostAfter int64) (since int64, up bool) {
	if e := p.Exporters[k.Exporter]; e != nil {
		switch {
		case at-max(e.Time, p.Resumed) >= lostAfter:
			return p.upSince(e.Time, at-lostAfter)
		case e.Time < p.Resumed:
			return p.Resumed, e.Down == 0
		}
		return e.Up, e.Down == 0
	}
	since = p.Resumed
	for _, e := range p.Exporters {
		if e.Down != 0 {
			return 0, false
		}
		since = max(since, e.Up)
	}
	return since, true
}

// The upSince method is used for a board whose exporter is no longer scraped, for example because
// its pod was deleted. Only an exporter that has appeared since can show that the board is lost.
// The upSince method reports whether there is such an exporter, and since when it has been up.
// Exporters without samples since the second argument do not count.
func (p *place) upSince(gone, recent int64) (since int64, up bool) {
	for _, e := range p.Exporters {
		if e.First > gone && e.Down == 0 && e.Time > recent {
			since, up = max(since, e.First, e.Up), true
		}
	}
	return since, up
}
