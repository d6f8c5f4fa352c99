package diagnose

import (
	"cmp"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/dcgm"
)

// State describes what a scrape shows about a field. A state with a higher value contains more
// information.
type State uint8

const (
	// Unseen means that the field has no row.
	Unseen State = iota
	// Declared means that the field has a HELP or TYPE line but no row.
	Declared
	// Blank means that the row contains a sentinel, NaN, or an impossible number instead of a
	// value.
	Blank
	// Ambiguous means that the field has a value but the scrape does not show the unit of the
	// value.
	Ambiguous
	// Stopped means that the value is 0 because the profiler has stopped.
	Stopped
	// Zero means that the value is 0.
	Zero
	// Positive means that the value is valid and not 0.
	Positive
)

// Kind specifies whether a device is an unpartitioned GPU, a board with MIG instances, or a MIG
// instance.
type Kind uint8

const (
	// GPU is a board that is not partitioned.
	GPU Kind = iota
	// Board is a board with MIG instances that have their own rows.
	Board
	// Instance is a MIG instance.
	Instance
)

// String returns the kind's name in JSON reports.
func (k Kind) String() string { return [...]string{"gpu", "mig_board", "mig_instance"}[k] }

// fieldStates contains a State for each field.
type fieldStates [catalogue.MaxFields]State

func (s *fieldStates) raise(id catalogue.ID, st State) { s[id] = max(s[id], st) }

// Scrape contains everything that an exporter exposes at one time. The zero value is empty. Add all
// rows and set the models of all devices before you request the first verdict.
type Scrape struct {
	// Of is the exporter. If Of is nil, the exporter is dcgm-exporter.
	Of *catalogue.Exporter
	// Clues contains facts about the exporter that can be derived from the labels of all rows.
	Clues   Clues
	devices []*Device
	// The best array contains the highest state of each field across all devices.
	best             fieldStates
	hostsWithHolders map[string]bool // Hosts with a row that names a holder.
	// bestByLikeness contains the highest state of each field across the devices of the same model
	// and kind. hasProcessRows[id] is true if pods have rows of the field in addition to a device's
	// own row. bestByLikeness and hasProcessRows are computed when the first verdict is requested.
	bestByLikeness map[likeness]*fieldStates
	hasProcessRows [catalogue.MaxFields]bool
}

// Device is a board or a MIG instance in a Scrape.
type Device struct {
	// Model is the exposed model name.
	Model string
	// Host is the device's host. If a scrape covers several hosts, it is possible that only the
	// exporters on some of the hosts map pods to devices.
	Host string

	scrape                    *Scrape
	known                     dcgm.Model // known properties of Model, which determine the advice about DCGM fields
	parent                    *Device
	instances                 []*Device
	withoutHolder, withHolder fieldStates // States of the fields in rows without or with a holder.
	values                    values      // Values of the fields whose state is Positive.
	hasHolder                 bool        // True if a row or another source names a holder of the device.
	// unread is true if the driver cannot read the board. frozen is true if the profiler has
	// stopped.
	unread, frozen bool
	// jobs lists the batch jobs that the device's rows name. hasContainer is true if a row names a
	// container as the holder.
	jobs         []string
	hasContainer bool
	ambiguous    bool // True if a row names a holder that may hold a different device instead.
	reserved     bool // True if a row names a reservation pod, which does not hold a device.
}

func (s *Scrape) exporter() *catalogue.Exporter { return cmp.Or(s.Of, dcgm.Exporter) }

// Device adds a device to the scrape. The parent parameter is the board if the new device is a MIG
// instance, or nil if the new device is a board.
func (s *Scrape) Device(parent *Device) *Device {
	d := &Device{scrape: s, parent: parent}
	if parent != nil {
		parent.instances = append(parent.instances, d)
	}
	s.devices = append(s.devices, d)
	return d
}

// Declare records that the scrape contains a HELP or TYPE line for a field.
func (s *Scrape) Declare(id catalogue.ID) { s.best.raise(id, Declared) }

// RecordRow records a row of the device. The value is in base units and is used only if the state
// is Positive. Set namesHolder to true if the row names a holder, ambiguous to true if that
// holder may hold a different device instead, and reserved to true if that holder is a reservation
// pod.
func (d *Device) RecordRow(id catalogue.ID, st State, value float64, namesHolder, ambiguous, reserved bool) {
	d.scrape.best.raise(id, st)
	if st == Positive {
		v := &d.values[id]
		if namesHolder {
			v.withHolder = max(v.withHolder, value)
		} else {
			v.withoutHolder = max(v.withoutHolder, value)
		}
	}
	if namesHolder {
		d.withHolder.raise(id, st)
		switch {
		case reserved:
			d.reserved = true
		case ambiguous:
			d.ambiguous = true
		default:
			d.RecordHolder()
		}
		return
	}
	d.withoutHolder.raise(id, st)
}

// RecordHolder records that the device has a holder, according to a row or another source.
func (d *Device) RecordHolder() {
	d.hasHolder = true
	if d.scrape.hostsWithHolders == nil {
		d.scrape.hostsWithHolders = map[string]bool{}
	}
	d.scrape.hostsWithHolders[d.Host] = true
}

// Kind returns whether the device is an unpartitioned GPU, a board with MIG instances, or a MIG
// instance.
func (d *Device) Kind() Kind {
	switch {
	case d.parent != nil:
		return Instance
	case len(d.instances) > 0:
		return Board
	}
	return GPU
}

// state returns the state of one of the device's fields. Rows without a holder take precedence,
// because they describe the device itself. If a field applies to an entire board, the field may
// appear only in the rows of the board's instances.
func (d *Device) state(id catalogue.ID) State {
	st := d.withoutHolder[id]
	if st == Unseen {
		st = d.withHolder[id]
	}
	if st == Unseen && catalogue.ByID(id).Scope == catalogue.Board {
		for _, in := range d.instances {
			st = max(st, in.state(id))
		}
	}
	return st
}

// likeness identifies a group of devices that should all have the same fields.
type likeness struct {
	model string
	kind  Kind
}

func (d *Device) likeness() likeness { return likeness{d.Model, d.Kind()} }

// The aggregate method checks the values of all devices for contradictions and combines the states
// of the devices.
func (s *Scrape) aggregate() {
	if s.bestByLikeness != nil {
		return
	}
	s.bestByLikeness = map[likeness]*fieldStates{}
	for _, d := range s.devices {
		if d.isUnread() {
			d.unread = true
			for _, in := range d.instances {
				in.unread = true
			}
		}
	}
	for _, d := range s.devices {
		d.ignoreJobsOfBoard()
		if !d.unread {
			s.exporter().DropContradicted(checkedDevice{d})
		}
	}
	for _, d := range s.devices {
		best := s.bestByLikeness[d.likeness()]
		if best == nil {
			best = &fieldStates{}
			s.bestByLikeness[d.likeness()] = best
		}
		for _, f := range s.exporter().Fields() {
			best.raise(f.ID, d.state(f.ID))
			s.hasProcessRows[f.ID] = s.hasProcessRows[f.ID] || d.processRows(f.ID)
		}
	}
}

// hasValue reports whether the device has a usable value of the given field.
func (d *Device) hasValue(id catalogue.ID) bool {
	f := catalogue.ByID(id)
	switch {
	case d.unread:
		return false
	case f.ZeroIsNone:
		return d.state(id) == Positive
	case f.Scope == catalogue.BoardWithoutInstances:
		return d.Kind() == GPU && d.state(id) >= Zero
	case f.Scope == catalogue.Board && d.Kind() == Instance:
		return false // the instance's row repeats the board's value
	}
	return d.state(id) >= Zero
}

// hasAnySet reports whether the device has all fields in at least one of the signal's sets of
// fields.
func (d *Device) hasAnySet(s *Signal) bool {
	for i, set := range s.Sets {
		if d.hasSet(s, i, set) {
			return true
		}
	}
	return false
}

// hasSet reports whether the device has all fields in one of the signal's sets, and whether the
// signal can be computed from these fields. To check whether the signal can be computed, hasSet
// computes the signal with 1 in place of every positive value.
func (d *Device) hasSet(s *Signal, position int, set []catalogue.ID) bool {
	values := make([]float64, len(set))
	for i, id := range set {
		if !d.hasValue(id) {
			return false
		}
		if d.state(id) == Positive {
			values[i] = 1
		}
	}
	if s.Make == nil {
		return true
	}
	_, ok := s.Make(position, values)
	return ok
}
