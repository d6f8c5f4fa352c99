package synth

import (
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
)

// scrapeOf identifies one scrape of an exporter at a place.
type scrapeOf struct {
	exporterAt
	time   int64
	source *Source
}

// resolve finds the devices of rows whose exporter has a Resolve hook. Rows whose device is unknown
// or exceeds the device limit are removed.
func (s *node) resolve() {
	readings := slices.Grow(s.readings[:0], len(s.rows))[:len(s.rows)]
	clear(readings)
	s.readings = readings
	scrapes := map[scrapeOf]*[]*catalogue.Reading{}
	var last scrapeOf
	var scrape *[]*catalogue.Reading // cached entry for the previous key, because adjacent rows usually have the same key
	for i := range s.rows {
		o, r := &s.rows[i], &readings[i]
		if o.row.of.Resolve == nil {
			continue
		}
		r.Field, r.Identity = o.field, &o.row.is
		if s.holds(o) {
			r.Holder = &o.row.holder
		}
		if k := (scrapeOf{exporterAt{o.row.of, o.row.place}, o.time, o.source}); scrape == nil || k != last {
			last, scrape = k, scrapes[k]
			if scrape == nil {
				scrape = &[]*catalogue.Reading{}
				scrapes[k] = scrape
			}
		}
		*scrape = append(*scrape, r)
	}
	for k, rows := range scrapes {
		k.of.Resolve(*rows)
	}
	for i := range s.rows {
		o, r := &s.rows[i], &readings[i]
		if o.row.of.Resolve == nil {
			continue
		}
		o.ambiguous = r.AmbiguousHolder
		if r.Unresolved {
			s.stats.Dropped[DropAmbiguousDevice]++
			o.row = nil
		} else if o.row = s.about(o.row, r.Identity); o.row == nil {
			s.stats.Dropped[DropDeviceLimit]++
		}
	}
	s.rows = slices.DeleteFunc(s.rows, func(o observation) bool { return o.row == nil })
}

// The about method returns a row that has the labels of r and describes the device with the given
// identity. If the device limit is reached, the result is nil.
func (s *node) about(r *Row, is *catalogue.Identity) *Row {
	if is != &r.is && (is.Board != r.is.Board || is.Instance != r.is.Instance) {
		if r.other == nil || r.other.is.Board != is.Board || r.other.is.Instance != is.Instance {
			other := *r
			other.is, other.device = *is, nil
			r.other = &other
		}
		r = r.other
	}
	if r.device == nil || r.device.removed {
		r.device = s.device(r.of, r.place, r.is)
		if r.device == nil {
			return nil
		}
	}
	return r
}
