package diagnose

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/dcgm"
)

// State is what one scrape shows of one field. Higher states tell more.
type State uint8

const (
	// Unseen fields have no row.
	Unseen State = iota
	// Declared fields have HELP or TYPE and no row.
	Declared
	// Blank fields have a row without a value: a sentinel, NaN, or a number that
	// cannot be true.
	Blank
	// Ambiguous fields have a value in a unit that nothing in the scrape settles.
	Ambiguous
	// Stopped fields have a 0 of a profiler that has stopped.
	Stopped
	// Zero fields have the value 0.
	Zero
	// Positive fields have another value.
	Positive
)

// Kind is what a device is to MIG.
type Kind uint8

const (
	// GPU is a board that is not cut.
	GPU Kind = iota
	// Board is a board whose MIG instances have rows.
	Board
	// Instance is a MIG instance.
	Instance
)

// String names the kind in JSON.
func (k Kind) String() string { return [...]string{"gpu", "mig_board", "mig_instance"}[k] }

// states holds a State per field.
type states [catalogue.MaxFields]State

func (s *states) see(id catalogue.ID, st State) { s[id] = max(s[id], st) }

// Scrape is what one exporter showed at one time. The zero value is empty. All
// rows have to be seen and models set before the first verdict is asked for.
type Scrape struct {
	// Of is the exporter, dcgm-exporter if it is nil.
	Of *catalogue.Exporter
	// Clues are what labels of any row tell about the exporter.
	Clues   Clues
	devices []*Device
	// anywhere is the best state of each field over all devices.
	anywhere states
	held     map[string]bool // hosts of which some row names a holder
	// alike holds the best state of each field over the devices of one model and kind, and
	// processes the fields for which some pod has a row beside the device's own row. The first
	// verdict makes both.
	alike     map[likeness]*states
	processes [catalogue.MaxFields]bool
}

// Device is a board or a MIG instance in a Scrape.
type Device struct {
	// Model is the model name as exposed.
	Model string
	// Host is where the device is. In a scrape of several hosts, some exporters may map pods and
	// others may not.
	Host string

	scrape     *Scrape
	known      catalogue.Model // of Model
	parent     *Device
	instances  []*Device
	bare, with states // rows without a holder, and with one
	values     values // of fields that are Positive
	held       bool
	// unread is true if the driver cannot read the board, frozen if the profiler has stopped.
	unread, frozen bool
	// jobs are those that rows name; container is true if some row names a container as a holder.
	jobs      []string
	container bool
	ambiguous bool // some row names a holder that may be another device's
	reserved  bool // some row names a reservation pod, which holds nothing
}

func (s *Scrape) of() *catalogue.Exporter { return cmp.Or(s.Of, dcgm.Exporter) }

// Device adds a device to the scrape; parent is the board of a MIG instance.
func (s *Scrape) Device(parent *Device) *Device {
	d := &Device{scrape: s, parent: parent}
	if parent != nil {
		parent.instances = append(parent.instances, d)
	}
	s.devices = append(s.devices, d)
	return d
}

// Declare notes that HELP or TYPE name a field.
func (s *Scrape) Declare(id catalogue.ID) { s.anywhere.see(id, Declared) }

// See records a row of the device with its value in base units, which is used if st is a state with
// a value. held is true if the row names a holder, ambiguous if that holder may be another device's,
// reserved if it is a reservation pod.
func (d *Device) See(id catalogue.ID, st State, value float64, held, ambiguous, reserved bool) {
	d.scrape.anywhere.see(id, st)
	if st == Positive {
		of := &d.values[id]
		if held {
			of.with = max(of.with, value)
		} else {
			of.bare = max(of.bare, value)
		}
	}
	if held {
		d.with.see(id, st)
		switch {
		case reserved:
			d.reserved = true
		case ambiguous:
			d.ambiguous = true
		default:
			d.Hold()
		}
		return
	}
	d.bare.see(id, st)
}

// Hold records that a row or another source names a holder of the device.
func (d *Device) Hold() {
	d.held = true
	if d.scrape.held == nil {
		d.scrape.held = map[string]bool{}
	}
	d.scrape.held[d.Host] = true
}

// Kind returns what the device is to MIG.
func (d *Device) Kind() Kind {
	switch {
	case d.parent != nil:
		return Instance
	case len(d.instances) > 0:
		return Board
	}
	return GPU
}

// state returns what the scrape shows of a field of the device. A row without a
// holder is the device's own; the board's fields stand on its instances' rows.
func (d *Device) state(id catalogue.ID) State {
	st := d.bare[id]
	if st == Unseen {
		st = d.with[id]
	}
	if st == Unseen && catalogue.ByID(id).Scope == catalogue.Board {
		for _, in := range d.instances {
			st = max(st, in.state(id))
		}
	}
	return st
}

// likeness is equal for devices that should show the same fields.
type likeness struct {
	model string
	kind  Kind
}

func (d *Device) likeness() likeness { return likeness{d.Model, d.Kind()} }

// compare sums up what the devices show.
func (s *Scrape) compare() {
	if s.alike != nil {
		return
	}
	s.alike = map[likeness]*states{}
	for _, d := range s.devices {
		if d.isUnread() {
			d.unread = true
			for _, in := range d.instances {
				in.unread = true
			}
		}
	}
	for _, d := range s.devices {
		d.judgeJobs()
		if !d.unread {
			s.of().DropContradicted(checked{d})
		}
	}
	for _, d := range s.devices {
		best := s.alike[d.likeness()]
		if best == nil {
			best = &states{}
			s.alike[d.likeness()] = best
		}
		for _, f := range s.of().Fields() {
			best.see(f.ID, d.state(f.ID))
			s.processes[f.ID] = s.processes[f.ID] || d.processRows(f.ID)
		}
	}
}

// shows reports whether the device has a value of the field that a signal can
// be made of.
func (d *Device) shows(id catalogue.ID) bool {
	f := catalogue.ByID(id)
	switch {
	case d.unread:
		return false
	case f.ZeroIsNone:
		return d.state(id) == Positive
	case f.Scope == catalogue.Whole:
		return d.Kind() == GPU && d.state(id) >= Zero
	case f.Scope == catalogue.Board && d.Kind() == Instance:
		return false // its row has the board's value
	}
	return d.state(id) >= Zero
}

// showsAny reports whether the device shows all fields of one of the sets that make a signal.
func (d *Device) showsAny(s *Signal) bool {
	for i, set := range s.Sets {
		if d.showsAll(s, i, set) {
			return true
		}
	}
	return false
}

// showsAll reports whether the device shows all fields of a set that makes a signal. Of values
// only whether they are 0 is known.
func (d *Device) showsAll(s *Signal, position int, set []catalogue.ID) bool {
	values := make([]float64, len(set))
	for i, id := range set {
		if !d.shows(id) {
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

// Verdict says whether one device gives one signal.
type Verdict struct {
	Signal *Signal
	// Available says that the scrape shows what the signal is made of.
	Available bool
	// Elsewhere signals are measured on the board of this instance, or on the
	// instances of this board.
	Elsewhere bool
	// Reason says why the signal is missing.
	Reason Reason
	// Likely says that the scrape alone does not prove the reason.
	Likely bool
	// Missing are the fields that would turn the signal on.
	Missing []catalogue.ID
}

// CanTurnOn reports whether the signal is missing for a reason that somebody can
// do something about.
func (v *Verdict) CanTurnOn() bool {
	return !v.Available && !v.Elsewhere && !v.Reason.Lasting() && (v.Reason != Capacity || len(v.Missing) > 0)
}

// Verdicts returns what the device gives of each signal of its exporter.
func (d *Device) Verdicts() []Verdict {
	d.scrape.compare()
	d.known = d.scrape.of().Model(d.Model)
	signals := made[d.scrape.of()]
	out := make([]Verdict, len(signals))
	for i, s := range signals {
		out[i] = d.verdict(s)
	}
	return out
}

func (d *Device) verdict(s *Signal) Verdict {
	v := Verdict{Signal: s}
	if s.Gap {
		v.Elsewhere, v.Reason = d.Kind() == Instance && s.scope() == catalogue.Board, Vendor
		return v
	}
	switch s.By {
	case catalogue.ByHolders:
		d.judgeHolder(&v)
		return v
	case catalogue.ByProcesses:
		d.judgeProcesses(&v)
		return v
	}
	if d.Kind() == Instance && s.scope() == catalogue.Board {
		v.Elsewhere = true // its rows repeat the board's value
		return v
	}
	if s.By == catalogue.ByHealth && slices.ContainsFunc(d.instances, func(in *Device) bool { return in.showsAny(s) }) {
		v.Available = true // an error of an instance is one of the board
		return v
	}
	if d.showsAny(s) {
		v.Available = true
		d.judgeCapacity(&v)
		return v
	}
	if d.Kind() == Board && s.scope() == catalogue.Instance {
		v.Elsewhere = true
		return v
	}
	// The usual source of the model explains most; another one only when the usual one
	// is out of reach and the other is not.
	for i, set := range s.Sources {
		missing, reason, likely := d.why(set)
		if i == 0 || v.Reason == NoCounter || reason == NotInCSV && v.Reason.replaceable() && canBeListed(missing) {
			v.Missing, v.Reason, v.Likely = missing, reason, likely
		}
	}
	return v
}

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

// judgeCapacity makes a link's utilization missing while the link's capacity is
// unknown.
func (d *Device) judgeCapacity(v *Verdict) {
	sg := v.Signal
	if sg.Capacity == nil || len(sg.Inputs) > 0 && !slices.ContainsFunc(sg.Inputs, func(id catalogue.ID) bool { return !d.shows(id) }) {
		return
	}
	unknown := slices.Repeat([]float64{math.NaN()}, len(sg.Inputs))
	if sg.Capacity(&d.known, unknown) > 0 {
		return
	}
	v.Missing = sg.Inputs
	v.Available, v.Reason = false, Capacity
}

// judgeHolder decides on the labels that name pods.
func (d *Device) judgeHolder(v *Verdict) {
	switch {
	case d.unread:
		v.Reason = NoValue
	case d.held:
		v.Available = true
	case d.Kind() == Board:
		v.Elsewhere = true
	case d.ambiguous:
		v.Reason = Copied
	case d.reserved:
		v.Reason = Reserved
	case d.scrape.held[d.Host] || d.scrape.Clues.emptyPod:
		v.Reason, v.Likely = Free, true
	default:
		v.Reason, v.Likely = NoPodLabels, true
	}
}

// judgeProcesses decides on rows of pods beside the device's own row.
func (d *Device) judgeProcesses(v *Verdict) {
	id := v.Signal.Sources[0][0]
	switch {
	case d.unread:
		v.Reason = NoValue
	case d.processRows(id) && (!d.ambiguous || d.container):
		v.Available = true
	case d.Kind() == Board:
		v.Elsewhere = true
	case d.Kind() == Instance && catalogue.ByID(id).Scope == catalogue.Whole:
		v.Reason = MIG
	case d.reserved:
		v.Reason = Reserved
	case !d.held && d.scrape.processes[id]:
		v.Reason, v.Likely = Free, true
	default:
		v.Reason = NoProcessRows
	}
}

// processRows reports whether pods have rows of a field beside the device's own.
func (d *Device) processRows(id catalogue.ID) bool {
	return d.held && d.bare[id] != Unseen && d.with[id] >= Zero
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
