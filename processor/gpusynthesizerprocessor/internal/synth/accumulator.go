package synth

import (
	"math"
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// accumulator merges the rows of one device and sample time.
type accumulator struct {
	device *Device
	fields []cell       // the fields of the exporter's table
	first  catalogue.ID // id of the first field
	// rates are the rates of the counters in the exporter's Rates.
	rates []rate
	// values is a reused buffer.
	values []float64
	// usage contains the values of individual holders, for the fields that newer exporters measure
	// per process.
	usage   []usage
	holders []holder
	// jobs are the sorted jobs from the labels.
	jobs []string
	// totals and counts are the values of the DCGM_EXP_XID_ERRORS fields by XID code. totals
	// contains counters, and counts contains the counts in a sliding window.
	totals, counts map[int]float64
	hasTotals      bool
	hasCounts      bool
	dra            DRA
	draState       draState
	// mig is true if this scrape contains instances of the board.
	mig bool
	// parts are the rows of fields whose values are computed from several rows.
	parts []part
	// instances are the accumulators of the board's instances.
	instances []*accumulator
	events    []event
	xidSeen   bool
	// row is the last row. held is true if it names a holder. ambiguous is true if the holder may
	// use another device instead. holder is the index in holders, or -1 if the row names no holder,
	// a reservation pod, or an ambiguous holder.
	row             *Row
	held, ambiguous bool
	holder          int
	// prev is the previous sample time, or 0 if the device is new.
	prev int64
	// unread is true if the driver cannot read the board. Only the existence of the device is then
	// observed.
	unread bool
	// contradicted are the values that other values contradict. dropped counts these values, and
	// all others that are rejected after all rows are read, by reason.
	contradicted []contradicted
	dropped      [NumDropReasons]int64
}

type draState uint8

const (
	draNone draState = iota
	draOne
	draConflict
)

// cell contains the value of a field from rows without a holder (bare) and from rows with a holder
// (held).
type cell struct {
	bare, held       float64
	hasBare, hasHeld bool
	// bareRow is true if a row has no holder, even if that row has no value.
	bareRow bool
}

// value returns the value of the device. If a row has no holder, it contains this value, and the
// rows with holders contain the usage of their processes. Otherwise, the rows with holders are
// copies of the device's value.
func (c *cell) value() (float64, bool) {
	if c.bareRow || c.hasBare {
		return c.bare, c.hasBare
	}
	return c.held, c.hasHeld
}

// fold merges the value of one row. Rows that repeat a value differ only because the exporter read
// it at different times, so fold keeps the highest value. It combines masks with OR.
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

// add adds one row's value in base units.
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

// get returns the device's value of a field. It returns false if the value is not an observation of
// the device.
func (a *accumulator) get(id catalogue.ID) (float64, bool) {
	v, ok := a.cell(id).value()
	if !ok {
		return 0, false
	}
	switch f := catalogue.ByID(id); {
	case f.ZeroIsNone && v == 0, f.Scope == catalogue.Whole && (a.mig || a.device.Parent != nil):
		return 0, false
	}
	return v, true
}

// value returns the value that a field contributes to a signal.
func (a *accumulator) value(s *catalogue.Signal, id catalogue.ID) (float64, bool) {
	return a.Value(id, catalogue.ByID(id).Rate != 0 && s.Metric.Kind == signal.Gauge)
}

// make returns the value of a signal from the first set in which all fields have a value.
func (a *accumulator) make(s *catalogue.Signal) (float64, bool) {
	for i, set := range s.Sets {
		if s.Lasting {
			switch best := a.device.bestSet(s); {
			case i > best:
				return 0, false
			case i < best && best < len(s.Sets) && s.Metric.Kind == signal.Counter:
				continue // the better set does not include earlier increases of the current set
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

// usage is the usage of a device by the processes of one holder.
type usage struct {
	field  *catalogue.Field
	holder int // index into holders
	part   string
	value  float64
}

// holder is a container or a job that labels name.
type holder struct {
	catalogue.Holder
	owner gpudata.Owner
	dra   DRA
	vgpus []string // the distinct replicas of a time-sliced device
}

// take stores the labels of a row. held is true if the labels name a holder.
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

// addHolder returns the list with the row's holder, and the index of the holder. The pod's UID may
// be on only some of a container's rows.
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

// addUsage adds the value of a per-process field for a holder.
func (a *accumulator) addUsage(field *catalogue.Field, holder int, part string, v float64) {
	for i := range a.usage {
		if u := &a.usage[i]; u.field == field && u.holder == holder && u.part == part {
			u.value = max(u.value, v)
			return
		}
	}
	a.usage = append(a.usage, usage{field, holder, part, v})
}

// addXID adds a row of the DCGM_EXP_XID_ERRORS fields. A row without a code only shows that XID
// errors are observed.
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

// foldBoard moves the fields that measure the board from the rows of its instances to the board. Of
// several levels, it uses the level of the instance with the lowest number. Of several counters, it
// uses the highest. It combines masks with OR. If the row with the highest counter is missing, the
// board's counter does not decrease, because that would look like a reset. It decreases only if the
// counter of one of the rows decreased, or if all rows are new.
func (a *accumulator) foldBoard() {
	fields, measures := a.device.of.Board, a.device.of.MeasuresBoard
	for i, f := range fields {
		c := a.cell(f.ID)
		if c.hasBare || c.hasHeld {
			continue // a row of the board has the value
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
				before := in.device.counter(i)
				known, fell = known || !math.IsNaN(*before), fell || v < *before
				*before = v
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
