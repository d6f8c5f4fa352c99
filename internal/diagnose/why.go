package diagnose

import (
	"slices"
	"strings"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/dcgm"
)

// If a signal's first source is missing for this cause, users may be able to enable another source.
// The replaceable method reports whether this is the case.
func (c cause) replaceable() bool {
	return c == causeNoProfiling || c == causeUnprofiled || c == causeVGPU || c == causeOldExporter
}

// canBeListed reports whether every field can be added to the exporter's CSV file.
func canBeListed(ids []catalogue.ID) bool {
	return !slices.ContainsFunc(ids, func(id catalogue.ID) bool { return dcgm.AdviceFor(id).Help == "" })
}

// The why method determines why the scrape has no values for a set of fields.
func (d *Device) why(set []catalogue.ID) (missing []catalogue.ID, because cause, likely bool) {
	for _, id := range set {
		if !d.hasValue(id) {
			missing = append(missing, id)
		}
	}
	if len(missing) == 0 { // No field is missing, but the signal cannot be computed because both memory fields are 0.
		return set, causeNoValue, false
	}
	because, likely = d.whyField(missing[0])
	return missing, because, likely
}

// whyField returns why the scrape has no value for a field. whyField first checks the field's row,
// then the limitations of the hardware, and then the rest of the scrape.
func (d *Device) whyField(id catalogue.ID) (because cause, likely bool) {
	s := d.scrape
	f, advice := catalogue.ByID(id), dcgm.AdviceFor(id)
	state := d.state(id)
	switch {
	case d.Kind() != GPU && advice.Absent&dcgm.UnderMIG != 0:
		return causeMIG, false
	case d.unread:
		return causeUnread, false
	case state == Ambiguous:
		return causeUnit, false
	case state == Stopped:
		return causeFrozen, false
	case state == Zero && slices.Contains(s.exporter().VitalIDs, id):
		return causeNoValue, false // every board has this sensor, so 0 is not a real value
	case state == Zero && f.ZeroIsNone && f.Unit == catalogue.Celsius:
		return causeSensor, false
	case d.known.Virtual && advice.Absent&dcgm.InGuests != 0:
		return causeVGPU, true
	case advice.NVLink && d.known.WithoutNVLink:
		return causeLink, true
	case d.lacksCounter(advice):
		return causeNoCounter, true
	case advice.Profiling && d.known.WithoutProfiling:
		return causeUnprofiled, true
	case advice.NVLink && d.known.NVLinkByBridge && !d.linked():
		return causeBridge, true
	case state >= Blank && advice.Profiling && s.profilingFails():
		return causeNoProfiling, true
	case state >= Blank:
		return causeNoValue, false
	case d.Kind() == Instance && f.Unit == catalogue.MiB && strings.HasPrefix(s.Clues.Driver+".", branchWithoutInstanceMemory+"."):
		return causeDriver, true
	case f.Kind == catalogue.Code && s.Clues.Age() >= Since335 && s.best[id] == Positive:
		return causeNoEvent, true // these exporters omit zeros, so the device has a row only after its first error
	case s.bestByLikeness[d.likeness()][id] >= Zero:
		return causeNoValue, true
	case s.best[id] >= Blank && d.Kind() == Instance:
		return causeMIG, true
	case s.best[id] >= Blank:
		return causeOthersOnly, true
	case advice.Profiling && s.profilingFails():
		return causeNoProfiling, true
	case s.best[id] == Declared:
		return causeNoValue, true
	case f.Kind == catalogue.Code && s.Clues.Age() >= Since335:
		return causeNoEvent, true
	case advice.Absent&dcgm.OldExporters != 0 && s.Clues.Age() == Before335:
		return causeOldExporter, true
	}
	if s.exporter() != dcgm.Exporter {
		return causeNotExposed, true
	}
	return causeNotInCSV, true
}

// profilingFails reports whether the exporter declares profiling fields but has no value for any of
// them.
func (s *Scrape) profilingFails() bool {
	listed := false
	for _, f := range s.exporter().Fields() {
		if !dcgm.AdviceFor(f.ID).Profiling {
			continue
		}
		if s.best[f.ID] >= Ambiguous {
			return false
		}
		listed = listed || s.best[f.ID] != Unseen
	}
	return listed
}

// The linked method reports whether any board of the device's model has nonzero NVLink traffic or
// errors. A value of 0 does not prove that there is a link, because boards without a bridge also
// report 0.
func (d *Device) linked() bool {
	for id := 1; id < catalogue.NumFields(); id++ {
		if dcgm.AdviceFor(catalogue.ID(id)).NVLink && d.scrape.bestByLikeness[d.likeness()][id] == Positive {
			return true
		}
	}
	return false
}

// lacksCounter reports whether the field is an NVLink error counter that exists only in a different
// NVLink generation. If the model's NVLink generation is unknown or the field exists in all
// generations, lacksCounter returns false.
func (d *Device) lacksCounter(field *dcgm.Advice) bool {
	return field.NVLinkGeneration != 0 && d.known.NVLinkGeneration != 0 && field.NVLinkGeneration != d.known.NVLinkGeneration
}
