package synth

import (
	"math"
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// accumulator merges the rows that have the same device and sample time.
type accumulator struct {
	device *Device
	fields []cell       // One cell for each field in the exporter's table.
	first  catalogue.ID // ID of the exporter's first field.
	// Rates of the counters in the exporter's Rates list.
	rates []rate
	// values is a reusable buffer for field values.
	values []float64
	// usage contains the per-holder values of fields that newer exporters measure per process.
	usage   []usage
	holders []holder
	// jobs contains the sorted job IDs from the labels.
	jobs []string
	// Values of the DCGM_EXP_XID_ERRORS fields, by XID code. The totals map contains counters. The
	// counts map contains counts over a sliding window.
	totals, counts map[int]float64
	hasTotals      bool
	hasCounts      bool
	dra            DRA
	draState       draState
	// mig is true if the current scrape contains instances of the board.
	mig bool
	// parts contains the rows of fields whose value is computed from several rows.
	parts []part
	// instances contains the accumulators of the board's instances.
	instances []*accumulator
	events    []event
	xidSeen   bool
	// The most recent row. If held is true, the row names a holder. If ambiguous is true, the
	// holder may be using a different device. The value of holder is an index into the holders
	// slice, or -1 if the row names no holder, or names a reservation pod or an ambiguous holder.
	row             *Row
	held, ambiguous bool
	holder          int
	// prev is the previous sample time. It is 0 if the device is new, the sample is late, or
	// another source took over the board.
	prev int64
	// unread is true if the driver cannot read the board. In that case, only the existence of the
	// device is recorded.
	unread bool
	// frame contains the samples of the device. The frame field is nil until the samples have been
	// computed. If the exporter describes only containers, frame is always nil.
	frame *gpudata.DeviceFrame
	// contradicted is the list of values that were dropped because other values contradict them.
	// The dropped array contains the number of values that were rejected after all rows had been
	// read, by reason. Contradicted values are included.
	contradicted []contradicted
	dropped      [NumDropReasons]int64
}

type draState uint8

const (
	draNone draState = iota
	draOne
	draConflict
)

// cell contains two values of one field: the bare value comes from rows without a holder, and the
// held value comes from rows with a holder.
type cell struct {
	bare, held       float64
	hasBare, hasHeld bool
	// bareRow is true if at least one row has no holder, whether or not that row has a value.
	bareRow bool
}

// value returns the device's value of the field. A row without a holder contains the device's
// value. If at least one row has no holder, the rows with holders contain the usage of the holders'
// processes. If every row has a holder, the rows are copies of the device's value.
func (c *cell) value() (float64, bool) {
	if c.bareRow || c.hasBare {
		return c.bare, c.hasBare
	}
	return c.held, c.hasHeld
}

// fold merges v, the value of one row, into the value to which the have parameter points. For bit
// masks, fold combines the values with OR. For all other kinds of fields, fold keeps the highest
// value: rows that repeat a value differ only because the exporter read the value at different
// times.
func fold(have *float64, has *bool, v float64, kind catalogue.Kind) {
	switch {
	case !*has:
		*have, *has = v, true
	case kind == catalogue.Bits:
		*have = float64(uint64(*have) | uint64(v))
	default:
		*have = max(*have, v)
	}
}

// add adds the value of one row, in base units.
func (a *accumulator) add(f *catalogue.Field, v float64, held bool) {
	c := a.cell(f.ID)
	if held {
		fold(&c.held, &c.hasHeld, v, f.Kind)
	} else {
		fold(&c.bare, &c.hasBare, v, f.Kind)
	}
}

// cell returns the values of a field.
func (a *accumulator) cell(id catalogue.ID) *cell { return &a.fields[id-a.first] }

// get returns the value of a field for the device. If there is no value, or if the value does not
// apply to the device, get returns false.
func (a *accumulator) get(id catalogue.ID) (float64, bool) {
	v, ok := a.cell(id).value()
	if !ok {
		return 0, false
	}
	switch f := catalogue.ByID(id); {
	case f.ZeroIsNone && v == 0, f.Scope == catalogue.BoardWithoutInstances && (a.mig || a.device.Parent != nil):
		return 0, false
	}
	return v, true
}

// value returns the value that a field contributes to a signal.
func (a *accumulator) value(s *catalogue.Signal, id catalogue.ID) (float64, bool) {
	return a.Value(id, catalogue.ByID(id).Rate != 0 && s.Metric.Kind == signal.Gauge)
}

// The make method computes the value of a signal from the first set whose fields all have a value.
func (a *accumulator) make(s *catalogue.Signal) (float64, bool) {
	for i, set := range s.Sets {
		if s.Lasting {
			switch best := a.device.bestSet(s); {
			case i > best:
				return 0, false
			case i < best && best < len(s.Sets) && s.Metric.Kind == signal.Counter:
				continue // the preferred set lacks increases that the set in use has already counted
			}
			if _, has := a.value(s, set[len(set)-1]); has {
				a.device.sets[s] = i
			}
		}
		total, ok := 0.0, true
		a.values = a.values[:0]
		for _, id := range set {
			v, has := a.value(s, id)
			if ok = has; !ok {
				break
			}
			total += v
			a.values = append(a.values, v)
		}
		if ok && s.Make != nil {
			total, ok = s.Make(i, a.values)
		}
		if ok {
			return total, true
		}
	}
	return 0, false
}

// usage describes how much of a device is used by the processes of one holder.
type usage struct {
	field  *catalogue.Field
	holder int // index into holders
	part   string
	value  float64
}

// A holder is a container or a job whose name is in the labels of a row.
type holder struct {
	catalogue.Holder
	owner gpudata.Owner
	dra   DRA
	vgpus []string // the distinct replicas of a time-sliced device
}

// The take method stores the labels of a row. The caller sets held to true if the labels name a
// holder.
func (a *accumulator) take(o *observation, held bool, texts []podTexts) {
	r := o.row
	a.row, a.held, a.ambiguous, a.holder = r, held, o.ambiguous, -1
	a.device.describe(r, texts)
	a.addDRA(r)
	a.addJob(r.job)
	if held && !o.ambiguous && !catalogue.IsReservation(r.holder) {
		a.holders, a.holder = addHolder(a.holders, r)
	}
}

// addHolder adds the row's holder to the list, and returns the list and the index of the holder. If
// the list already contains the holder, addHolder completes the existing entry, because only some
// of a container's rows may have the pod UID.
func addHolder(holders []holder, r *Row) (_ []holder, index int) {
	for i := range holders {
		h := &holders[i]
		if !h.Same(r.holder) {
			continue
		}
		set(&h.UID, r.holder.UID)
		if h.dra == (DRA{}) {
			h.dra = r.dra
		}
		if r.vgpu != "" && !slices.Contains(h.vgpus, r.vgpu) {
			h.vgpus = append(h.vgpus, r.vgpu)
		}
		return holders, i
	}
	h := holder{Holder: r.holder, owner: r.owner, dra: r.dra}
	if r.vgpu != "" {
		h.vgpus = []string{r.vgpu}
	}
	return append(holders, h), len(holders)
}

// addUsage records a holder's value for a per-process field, unless a higher value is already
// recorded.
func (a *accumulator) addUsage(field *catalogue.Field, holder int, part string, v float64) {
	for i := range a.usage {
		if u := &a.usage[i]; u.field == field && u.holder == holder && u.part == part {
			u.value = max(u.value, v)
			return
		}
	}
	a.usage = append(a.usage, usage{field, holder, part, v})
}

// addXID adds a row of the DCGM_EXP_XID_ERRORS fields. A row without a code only shows that the
// exporter monitors XID errors.
func (a *accumulator) addXID(kind catalogue.Kind, code int, v float64) {
	codes, has := &a.counts, &a.hasCounts
	if kind == catalogue.EventTotal {
		codes, has = &a.totals, &a.hasTotals
	}
	*has = true
	if code <= 0 {
		return
	}
	if *codes == nil {
		*codes = map[int]float64{}
	}
	(*codes)[code] = max((*codes)[code], v)
}

// addDRA records the DRA allocation that a row names for the device.
func (a *accumulator) addDRA(r *Row) {
	if r.draOther || r.dra == (DRA{}) {
		return
	}
	switch {
	case a.draState == draNone:
		a.dra, a.draState = r.dra, draOne
	case a.dra != r.dra:
		a.dra, a.draState = DRA{}, draConflict
	}
}

// reset prepares the accumulator for another device.
func (a *accumulator) reset(d *Device) {
	a.fields = slices.Grow(a.fields[:0], len(d.of.Fields()))[:len(d.of.Fields())]
	clear(a.fields)
	clear(a.totals)
	clear(a.counts)
	*a = accumulator{
		device: d, first: d.of.First, fields: a.fields, rates: a.rates, values: a.values,
		usage: a.usage[:0], parts: a.parts[:0], holders: a.holders[:0], instances: a.instances[:0], events: a.events[:0],
		totals: a.totals, counts: a.counts, contradicted: a.contradicted[:0], jobs: a.jobs[:0],
	}
}

// foldBoard moves fields that measure the whole board from the instances to the board. For a level,
// foldBoard uses the value of the instance with the lowest number. For a counter, foldBoard uses
// the highest value. For a bit mask, foldBoard combines the values with OR. If the row with the
// highest counter is missing, foldBoard keeps the previous value of the board's counter, because a
// decrease would look like a reset. The board's counter decreases only if the counter of an
// instance decreased, or if no instance was in the previous scrape of the source. An older value of
// an instance does not show whether the counter was reset afterward. The before parameter is the
// time of the previous scrape of the source in the place, or 0 if there is none.
func (a *accumulator) foldBoard(before int64) {
	fields, measures := a.device.of.Board, a.device.of.MeasuresBoard
	for i, f := range fields {
		c := a.cell(f.ID)
		if c.hasBare || c.hasHeld {
			continue // one of the board's own rows has the value
		}
		lowest, known, fell := 0, false, false
		for _, in := range a.instances {
			v, ok := in.cell(f.ID).value()
			if !ok || measures != nil && !measures(in.device.number) {
				continue
			}
			switch {
			case f.Kind != catalogue.Level:
				fold(&c.bare, &c.hasBare, v, f.Kind)
			case !c.hasBare || in.device.number < lowest || in.device.number == lowest && v > c.bare:
				c.bare, c.hasBare, lowest = v, true, in.device.number
			}
			if f.Kind == catalogue.Counter {
				last := in.device.counter(i)
				shown := !math.IsNaN(*last) && in.prev >= before
				known, fell = known || shown, fell || v < *last
				*last = v
			}
		}
		if f.Kind == catalogue.Counter && c.hasBare {
			highest := a.device.counter(i)
			if known && !fell && c.bare < *highest {
				c.bare = *highest
			}
			*highest = c.bare
		}
	}
	for _, in := range a.instances {
		for _, f := range fields {
			*in.cell(f.ID) = cell{}
		}
	}
}
