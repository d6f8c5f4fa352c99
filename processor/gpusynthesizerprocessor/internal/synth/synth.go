package synth

import (
	"cmp"
	"slices"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Options configure a Synthesizer.
type Options struct {
	// ViolationMicroseconds treats *_VIOLATION counters as microseconds, for exporters that were
	// patched to convert them. DCGM uses nanoseconds.
	ViolationMicroseconds bool
	// MaxDevices limits the number of known devices. It must be positive.
	MaxDevices int
	// Cluster is k8s.cluster.name, or empty.
	Cluster string
	// Disabled metrics are not emitted.
	Disabled []*signal.Metric
}

// idleLimit is how long a device is kept after a scrape last named it.
const idleLimit = time.Hour

// Synthesizer converts rows to samples. It is not safe for concurrent use.
type Synthesizer struct {
	microseconds bool
	maxDevices   int
	cluster      string
	disabled     []*signal.Metric // few

	devices map[deviceKey]*Device
	boards  map[string][]*Device // of exporters that expose devices, by hw.id
	claims  map[boardKey]*claims
	migs    map[migDevice]migInstance
	sources map[string]*Source
	// unproven are sources of the current batch that have not exposed a device yet.
	unproven []*Source
	targets  catalogue.Targets // the pods that a relaying Prometheus scraped
	places   map[Place]*placeState
	changed  []Place // places whose state has changed since it was last stored
	epoch    uint64

	now     time.Time     // when the current batch arrived
	began   time.Time     // when the first batch arrived
	arrived time.Duration // time from began to now, by the monotonic clock
	swept   time.Duration // when the last sweep was

	rows      []observation
	have      content             // of the rows
	readings  []catalogue.Reading // reused memory
	scrapes   []scraped           // what is known about the sources of rows
	conflict  *Conflict
	diagnosis *diagnosis // nil unless gpu.signal.available is enabled
	active    []*accumulator
	pool      []*accumulator
	stats     Stats
	frames    []*gpudata.Frame // of the current batch
	lending   lending
	splits    splits
}

// observation is one row of the current batch.
type observation struct {
	row       *Row
	field     *catalogue.Field
	unit      catalogue.Unit
	base      bool
	alias     uint8
	time      int64
	exposed   float64
	source    *Source // nil if unknown
	ambiguous bool    // its holder may hold another device
}

// content is which kinds of rows a batch has. Passes that are not needed are skipped.
type content struct {
	unresolved bool // of an exporter with the hook Resolve
	relayed    bool // relayed by a Prometheus
	ofOthers   bool // of an exporter that exposes containers on devices of other exporters
	processes  bool // of an exporter of processes
	scaled     bool // are ratios or percentages
	mixed      bool // with another time or source than the previous row
}

// New returns a Synthesizer without devices.
func New(o Options) *Synthesizer {
	s := &Synthesizer{
		microseconds: o.ViolationMicroseconds,
		maxDevices:   o.MaxDevices,
		cluster:      o.Cluster,
		disabled:     o.Disabled,
		devices:      map[deviceKey]*Device{},
		lending:      lending{lent: map[*gpudata.Frame][]*gpudata.DeviceFrame{}},
		boards:       map[string][]*Device{},
		claims:       map[boardKey]*claims{},
		migs:         map[migDevice]migInstance{},
		sources:      map[string]*Source{},
		targets:      catalogue.Targets{},
		places:       map[Place]*placeState{},
	}
	if !slices.Contains(s.disabled, signal.GPUSignalAvailable) {
		s.diagnosis = &diagnosis{}
	}
	return s
}

// Epoch changes when devices are removed. Rows of an older epoch must not be used any more.
func (s *Synthesizer) Epoch() uint64 { return s.epoch }

// Devices returns the number of known devices.
func (s *Synthesizer) Devices() int { return len(s.devices) }

// TakeStats returns the counts since the last call.
func (s *Synthesizer) TakeStats() Stats {
	out := s.stats
	s.stats = Stats{}
	return out
}

// Add adds one row to the current batch. src is nil if the row does not name its source; at is its
// time in nanoseconds since the epoch.
func (s *Synthesizer) Add(row *Row, src *Source, spelling catalogue.Spelling, at int64, exposed float64) {
	if row.drop != DropNone {
		s.stats.Dropped[row.drop]++
		return
	}
	if s.future(at) {
		s.stats.Dropped[DropFuture]++
		return
	}
	field := spelling.Field
	if spelling.Cut != nil {
		if field = spelling.Cut[row.cut]; field == nil {
			s.stats.Dropped[DropOtherEntity]++
			return
		}
	}
	h := &s.have
	h.unresolved = h.unresolved || row.of.Resolve != nil
	h.relayed = h.relayed || row.relayed && !row.of.OfContainers
	h.ofOthers = h.ofOthers || row.of.OfContainers
	h.processes = h.processes || row.process != nil
	h.scaled = h.scaled || spelling.Unit == catalogue.RatioOrPercent
	if n := len(s.rows); n > 0 {
		h.mixed = h.mixed || s.rows[n-1].time != at || s.rows[n-1].source != src
	}
	s.rows = append(s.rows, observation{row, field, spelling.Unit, spelling.BaseUnits, spelling.Alias, at, exposed, src, false})
}

// Drop counts a value that the caller rejected.
func (s *Synthesizer) Drop(reason DropReason) { s.stats.Dropped[reason]++ }

// Flush returns the frames of the current batch, oldest first. They are valid until Release.
func (s *Synthesizer) Flush() []*gpudata.Frame {
	s.frames = nil
	s.assignSources()
	if s.have.relayed {
		s.findTargets(s.rows)
	}
	if s.have.unresolved {
		s.resolve()
	}
	var processes []observation
	if s.have.processes {
		processes = s.takeProcesses()
	}
	if s.have.ofOthers {
		s.joinContainers()
	}
	rows := s.rows
	if s.have.mixed {
		slices.SortStableFunc(rows, byScrape)
	}
	scraped := false
	for len(rows) > 0 {
		n := len(rows)
		if s.have.mixed {
			if next := slices.IndexFunc(rows, func(o observation) bool { return byScrape(o, rows[0]) != 0 }); next > 0 {
				n = next
			}
		}
		scrape := rows[:n]
		rows = rows[n:]
		if kept := s.contend(scrape); len(kept) > 0 {
			s.scrape(kept)
			scraped = true
		}
	}
	// This must come last: a row of the newest scrape may be the first of its device.
	if scraped {
		s.sweep()
	}
	s.forgetUnproven()
	s.listProcesses(processes)
	clear(s.rows)
	s.rows, s.have = s.rows[:0], content{}
	s.lending.lend(s.frames)
	return s.frames
}

// Release declares that the frames of a batch are no longer used.
func (s *Synthesizer) Release(frames []*gpudata.Frame) { s.lending.release(frames, len(s.devices)) }

// byScrape orders rows by sample time, and those of one time by source.
func byScrape(a, b observation) int {
	if c := cmp.Compare(a.time, b.time); c != 0 || a.source == b.source {
		return c
	}
	return cmp.Compare(a.source.name(), b.source.name())
}

// scrape computes the samples from the rows of one sample time and source.
func (s *Synthesizer) scrape(rows []observation) {
	at := rows[0].time
	if s.splits.watch(rows) {
		s.stats.Split = true
	}
	var scales []placeScale
	if s.have.scaled {
		scales = settleScales(rows)
	}
	if s.diagnosis != nil {
		s.diagnosis.begin()
	}
	texts := readPodTexts(rows)
	for i := range rows {
		s.fold(&rows[i], scales, texts)
	}
	s.observePlaces(at)
	for i := 0; i < len(s.active); i++ { //nolint:intrange // Boards join the list on behalf of their instances.
		a := s.active[i]
		if p := a.device.Parent; p != nil {
			board := s.accumulator(p)
			board.mig = true
			board.instances = append(board.instances, a)
			p.describeBoard(a.device)
		}
	}
	for _, a := range s.active {
		if a.isUnread() {
			a.eachPart(func(part *accumulator) { part.forget(at) })
		}
	}
	for _, a := range s.active {
		if a.unread {
			continue
		}
		a.prev = a.device.seen(at)
		if a.followSource() {
			s.noteChange(a.device)
		}
		a.foldParts(at)
	}
	for _, a := range s.active {
		if len(a.instances) > 0 {
			a.foldBoard()
			a.dropBoardJobs()
		}
		if a.readXID(at) {
			s.noteChange(a.device)
		}
	}
	for _, a := range s.active {
		if d := a.device; d.Parent == nil && !a.unread && at == d.last && d.of.Fatal != nil && a.readHealth(d.home.before) {
			s.noteChange(d)
		}
	}
	for _, a := range s.active {
		if len(a.instances) > 0 && a.liftXID() {
			s.noteChange(a.device)
		}
	}
	if s.diagnosis != nil {
		s.diagnosis.end()
	}
	if s.have.ofOthers {
		slices.SortStableFunc(s.active, containersLast)
	}
	begun := len(s.frames)
	e := emitter{s: s, time: at}
	for _, a := range s.active {
		if !a.unread {
			if a.borrowHolders(rows[0].source, at, s.arrived) && s.diagnosis != nil {
				s.diagnosis.devices[a.device].Hold()
			}
			a.count(at)
			a.derive(at)
		}
		for reason, n := range a.dropped {
			s.stats.Dropped[reason] += n
		}
		a.device.DRA = a.dra
		f := s.frame(a.device.Place, at, begun)
		e.a, e.to = a, nil
		if a.device.of.OfContainers {
			e.to = f.Find(a.device.ID)
		}
		if e.to == nil {
			e.to = s.lending.take()
			a.device.fill(e.to)
			e.to.Unread = a.unread
			f.Append(e.to)
		}
		if !a.unread {
			e.device()
		}
		e.to.Observed = len(e.to.Samples.All()) > 0
		if a.device.of.OfContainers {
			continue
		}
		if !e.to.Observed && a.row != nil && a.device.observed { // none of the rows has an observation of the device
			e.to.Unread = true
		}
		a.device.observed = a.device.observed || e.to.Observed
		switch {
		case s.diagnosis != nil:
			e.signals(s.diagnosis.devices[a.device], a.contradicted)
		case e.to.Unread && a.isAll():
			reason := signal.ReasonNoValue
			if a.unread {
				reason = signal.ReasonUnread
			}
			e.to.Samples.Add(gpudata.Presence(reason))
		}
	}
	for _, a := range s.active {
		a.device.acc = nil
	}
	s.pool = append(s.pool, s.active...)
	s.active = s.active[:0]
}

func (s *Synthesizer) place(p Place) gpudata.Place {
	return gpudata.Place{Cluster: s.cluster, Node: p.Node}
}

// frame returns a place's frame in this scrape, and adds it if there is none. The frames of the scrape
// start at index begun. There are several if a batch has the rows of several nodes.
func (s *Synthesizer) frame(p Place, at int64, begun int) *gpudata.Frame {
	place := s.place(p)
	for _, f := range s.frames[begun:] {
		if f.Place == place && f.Host == p.Host {
			return f
		}
	}
	f := &gpudata.Frame{Place: place, Host: p.Host, Time: at}
	s.frames = append(s.frames, f)
	return f
}

// fold adds one row to its device.
func (s *Synthesizer) fold(o *observation, scales []placeScale, texts []podTexts) {
	r := o.row
	a := s.accumulator(r.device)
	if a.row != r || a.ambiguous != o.ambiguous {
		a.take(o, s.holds(o), texts)
	}
	if !a.held {
		a.cell(o.field.ID).bareRow = true
	}
	v, reason := s.value(o, scales)
	if s.diagnosis != nil && !r.of.OfContainers {
		s.diagnosis.see(o, v, reason, a.held)
	}
	if reason != DropNone {
		s.stats.Dropped[reason]++
		return
	}
	if isEvents(o.field) {
		a.addXID(o.field.Kind, r.xid, v)
		return
	}
	if o.field.Parts != catalogue.Highest {
		a.parts = append(a.parts, part{o.field, partKey{o.alias, r.part}, v, a.held})
		return
	}
	a.add(o.field, v, a.held)
	if a.holder >= 0 && o.field.Process != nil {
		a.addUsage(o.field, a.holder, partOf(r), v)
	}
}

// value converts an exposed value to base units.
func (s *Synthesizer) value(o *observation, scales []placeScale) (float64, DropReason) {
	if blank := o.row.of.BlankValue; blank != nil && blank(o.exposed) {
		return 0, DropSentinel
	}
	v, verdict := o.unit.Value(o.exposed)
	if verdict != catalogue.Valid {
		return 0, dropReasons[verdict]
	}
	switch {
	case o.field.Kind == catalogue.Code && (v > catalogue.MaxCode || v != float64(int(v))),
		isEvents(o.field) && o.row.xid > catalogue.MaxCode:
		return 0, DropAbsurd
	case o.unit == catalogue.RatioOrPercent:
		fraction, ok := scaleOf(scales, o.row.place).Apply(v)
		if !ok {
			return 0, DropAmbiguous
		}
		_, _, verdict = catalogue.Clamp(fraction)
		return fraction, dropReasons[verdict]
	case s.microseconds && o.unit == catalogue.Nanosecond && isViolation(o.field):
		v *= 1000
	}
	return v, DropNone
}

// dropReasons are the reasons for which values are dropped.
var dropReasons = [...]DropReason{
	catalogue.Valid: DropNone, catalogue.Blank: DropSentinel, catalogue.NotFinite: DropNotFinite,
	catalogue.Absurd: DropAbsurd, catalogue.Implausible: DropImplausible,
}

func isEvents(f *catalogue.Field) bool {
	return f.Kind == catalogue.EventCount || f.Kind == catalogue.EventTotal
}

func isViolation(f *catalogue.Field) bool {
	return len(f.Gives) > 0 && f.Gives[0].Metric == signal.GPUClockThrottleTime
}

// accumulator returns the device's accumulator for the current scrape.
func (s *Synthesizer) accumulator(d *Device) *accumulator {
	if d.acc != nil {
		return d.acc
	}
	var a *accumulator
	if n := len(s.pool); n > 0 {
		a, s.pool = s.pool[n-1], s.pool[:n-1]
	} else {
		a = &accumulator{}
	}
	a.reset(d)
	d.acc, d.arrived = a, s.arrived
	s.active = append(s.active, a)
	return a
}

// findTargets records the pods that a relaying Prometheus scraped. Rows of GPUs without a holder
// name them as if they were holders, even if no GPU of the place has a holder.
func (s *Synthesizer) findTargets(rows []observation) {
	for i := range rows {
		if r := rows[i].row; r.relayed && !r.of.OfContainers {
			s.targets.Add(r.target)
		}
	}
}

// holds reports whether a row names a holder. A pod with the name of an exporter is a holder only
// if the labels are the exporter's own, because these do not name the scrape target.
func (s *Synthesizer) holds(o *observation) bool {
	r := o.row
	if !r.held || !r.relayed && s.targets.Has(r.holder) {
		return false
	}
	return !r.doubtful || o.source != nil && o.source.endpoint && !r.federated
}
