package diagnose

import (
	"slices"
	"strings"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/dcgm"
)

// replaceable reasons leave room for a signal's second source.
func (r Reason) replaceable() bool {
	return r == NoProfiling || r == Unprofiled || r == VGPU || r == OldExporter
}

// canBeListed reports whether there is a csv line for each of the fields.
func canBeListed(ids []catalogue.ID) bool {
	return !slices.ContainsFunc(ids, func(id catalogue.ID) bool { return catalogue.ByID(id).Help == "" })
}

// why says why a set of fields is not shown.
func (d *Device) why(set []catalogue.ID) (missing []catalogue.ID, reason Reason, likely bool) {
	for _, id := range set {
		if !d.shows(id) {
			missing = append(missing, id)
		}
	}
	if len(missing) == 0 { // both halves of the memory are 0
		return set, NoValue, false
	}
	reason, likely = d.whyField(missing[0])
	return missing, reason, likely
}

// whyField says why a field is not shown. What the row's value says comes first, then
// what the hardware cannot do, then what the rest of the scrape suggests.
func (d *Device) whyField(id catalogue.ID) (reason Reason, likely bool) {
	s := d.scrape
	f := catalogue.ByID(id)
	state := d.state(id)
	switch {
	case d.Kind() != GPU && f.Absent&catalogue.UnderMIG != 0:
		return MIG, false
	case d.unread:
		return NoValue, false
	case state == Ambiguous:
		return Unit, false
	case state == Stopped:
		return Frozen, false
	case state == Zero && slices.Contains(s.of().VitalIDs, id):
		return NoValue, false // a sensor that every board has
	case state == Zero && f.ZeroIsNone && f.Unit == catalogue.Celsius:
		return Sensor, false
	case d.known.Virtual && f.Absent&catalogue.InGuests != 0:
		return VGPU, true
	case f.NVLink && d.known.WithoutNVLink:
		return Link, true
	case d.lacksCounter(f):
		return NoCounter, true
	case f.Profiling && d.known.WithoutProfiling:
		return Unprofiled, true
	case f.NVLink && d.known.NVLinkByBridge && !d.linked():
		return Bridge, true
	case state >= Blank && f.Profiling && s.profilingFails():
		return NoProfiling, true
	case state >= Blank:
		return NoValue, false
	case d.Kind() == Instance && f.Unit == catalogue.MiB && strings.HasPrefix(s.Clues.Driver+".", branchWithoutInstanceMemory+"."):
		return Driver, true
	case f.Kind == catalogue.Code && s.Clues.Age() >= Since335 && s.anywhere[id] == Positive:
		return NoEvent, true // where no row is 0, each comes with its device's first error
	case s.alike[d.likeness()][id] >= Zero:
		return NoValue, true
	case s.anywhere[id] >= Blank && d.Kind() == Instance:
		return MIG, true
	case s.anywhere[id] >= Blank:
		return OthersOnly, true
	case f.Profiling && s.profilingFails():
		return NoProfiling, true
	case s.anywhere[id] == Declared:
		return NoValue, true
	case f.Kind == catalogue.Code && s.Clues.Age() >= Since335:
		return NoEvent, true
	case f.Absent&catalogue.OldExporters != 0 && s.Clues.Age() == Before335:
		return OldExporter, true
	}
	if s.of() != dcgm.Exporter {
		return NotExposed, true
	}
	return NotInCSV, true
}

// profilingFails reports whether the exporter lists profiling fields and has a value
// of none of them.
func (s *Scrape) profilingFails() bool {
	listed := false
	for _, f := range s.of().Fields() {
		if !f.Profiling {
			continue
		}
		if s.anywhere[f.ID] >= Ambiguous {
			return false
		}
		listed = listed || s.anywhere[f.ID] != Unseen
	}
	return listed
}

// linked reports whether a board of the device's model shows that NVLink carried something or
// failed. A zero may also come from a link without a bridge.
func (d *Device) linked() bool {
	for id := 1; id < catalogue.NumFields(); id++ {
		if catalogue.ByID(catalogue.ID(id)).NVLink && d.scrape.alike[d.likeness()][id] == Positive {
			return true
		}
	}
	return false
}

// lacksCounter reports whether a field counts the NVLink errors of another generation
// than the model's. Where that is not known, none does.
func (d *Device) lacksCounter(f *catalogue.Field) bool {
	return f.NVLinkGeneration != 0 && d.known.NVLinkGeneration != 0 && f.NVLinkGeneration != d.known.NVLinkGeneration
}
