package synth

import (
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
)

// placeScale determines the scale of the RatioOrPercent values at one place.
type placeScale struct {
	place     Place
	baseUnits bool
	seen      [catalogue.ScalePercent + 1]bool
}

func (p *placeScale) scale() catalogue.Scale {
	switch {
	case p.seen[catalogue.ScalePercent]:
		return catalogue.ScalePercent
	case p.baseUnits, p.seen[catalogue.ScaleRatio]:
		return catalogue.ScaleRatio
	}
	return catalogue.ScaleUnknown
}

// settleScales determines the scale of RatioOrPercent values at each place. All RatioOrPercent
// values at a place are considered. Rows in base units are also considered, because they show that
// the exporter exposes ratios.
func settleScales(rows []observation) []placeScale {
	var out []placeScale
	for i := range rows {
		o := &rows[i]
		if o.unit != catalogue.RatioOrPercent && !o.base {
			continue
		}
		k := slices.IndexFunc(out, func(p placeScale) bool { return p.place == o.row.place })
		if k < 0 {
			k = len(out)
			out = append(out, placeScale{place: o.row.place})
		}
		if o.base {
			out[k].baseUnits = true
		} else {
			out[k].seen[catalogue.Settle(o.exposed)] = true
		}
	}
	return out
}

func scaleOf(scales []placeScale, p Place) catalogue.Scale {
	for i := range scales {
		if scales[i].place == p {
			return scales[i].scale()
		}
	}
	return catalogue.ScaleUnknown
}
