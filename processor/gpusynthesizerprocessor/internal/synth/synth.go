package synth

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/internal/stage"
)

// Options configure a Synthesizer.
type Options struct {
	// ViolationMicroseconds determines whether *_VIOLATION counters are treated as microseconds.
	// DCGM uses nanoseconds, but some exporters were patched to convert these counters to
	// microseconds.
	ViolationMicroseconds bool
	// MaxDevices limits the number of known devices. It must be positive.
	MaxDevices int
	// Cluster is the value of k8s.cluster.name, or empty.
	Cluster string
	// Disabled contains the metrics that are not emitted.
	Disabled []*signal.Metric
}

// A device that no scrape has named for longer than idleLimit is removed.
const idleLimit = time.Hour

// Synthesizer converts rows to samples. A Synthesizer is safe for concurrent use, because each node
// has its own state and lock. The fields of the Synthesizer are shared by all nodes.
type Synthesizer struct {
	microseconds bool
	cluster      string
	disabled     []*signal.Metric

	nodes   *stage.Nodes[node]
	devices *stage.Limit
	claimed *stage.Limit // Boards with claims.
	migged  *stage.Limit // MIG devices.
	sources sources
	targets targets
	boards  boardIndex
	splits  splits

	mu    sync.Mutex
	began time.Time // Time at which the first batch arrived.
	idle  []*Batch  // Batches that can be reused.
}

// node is the state of a node. The methods of a node may be called only while the node is locked
// and belongs to a batch. Only the state method does not need a batch.
type node struct {
	*Batch // nil between batches

	devices map[deviceKey]*Device
	boards  map[string][]*Device // boards by hw.id, except boards from container-level exporters
	claims  map[boardKey]*claims
	migs    map[migDevice]migInstance
	places  map[Place]*placeState
	changed []Place // places whose state has changed since the state was last stored
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
	source    *Source // Nil if the source is unknown.
	ambiguous bool    // The holder may be using another device.
}

// content describes which kinds of rows a batch contains, so that unnecessary steps can be skipped.
type content struct {
	unresolved bool // Rows of an exporter that has a Resolve hook.
	relayed    bool // Rows that were relayed by a Prometheus server.
	ofOthers   bool // Rows of an exporter that describes containers on the devices of other exporters.
	processes  bool // Rows of a process exporter.
	scaled     bool // Rows with the unit RatioOrPercent.
	placeless  bool // Rows of container-level exporters that do not name their node.
	mixed      bool // Rows with different sample times or sources.
	nodes      bool // Rows of several nodes.
}

// New returns a Synthesizer without devices.
func New(o Options) *Synthesizer {
	return &Synthesizer{
		microseconds: o.ViolationMicroseconds,
		cluster:      o.Cluster,
		disabled:     o.Disabled,
		nodes:        stage.NewNodes(o.MaxDevices+1, newNode), // one additional entry is for the rows of unknown nodes
		devices:      stage.NewLimit(o.MaxDevices),
		claimed:      stage.NewLimit(o.MaxDevices),
		migged:       stage.NewLimit(o.MaxDevices),
		sources:      sources{byID: map[string]*Source{}},
		targets:      targets{pods: catalogue.Targets{}},
		boards:       boardIndex{places: map[string][]Place{}, migs: map[string]migBoard{}},
	}
}

func newNode(string) *node {
	return &node{
		devices: map[deviceKey]*Device{}, boards: map[string][]*Device{}, claims: map[boardKey]*claims{},
		migs: map[migDevice]migInstance{}, places: map[Place]*placeState{},
	}
}

// Devices returns the number of known devices.
func (s *Synthesizer) Devices() int { return s.devices.Used() }

// identify finds the devices of the node's rows, except for rows that describe containers. Rows
// whose device is unknown are removed.
func (s *node) identify() {
	s.findDevices()
	if s.have.unresolved {
		s.resolve()
	}
}

// flush computes the node's frames from its rows.
func (s *node) flush() {
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
		}
	}
	s.listProcesses(processes)
}

// findDevices sets the device of each row that names its device. Rows whose device exceeds the
// device limit are removed.
func (s *node) findDevices() {
	s.rows = slices.DeleteFunc(s.rows, func(o observation) bool {
		r := o.row
		if r.of.OfContainers || r.of.Resolve != nil {
			return false
		}
		if r.device == nil || r.device.removed {
			if r.device = s.device(r.of, r.place, r.is); r.device == nil {
				s.stats.Dropped[DropDeviceLimit]++
			}
		}
		return r.device == nil
	})
}

// byScrape compares rows by sample time, then by source.
func byScrape(a, b observation) int {
	if c := cmp.Compare(a.time, b.time); c != 0 || a.source == b.source {
		return c
	}
	return cmp.Compare(a.source.name(), b.source.name())
}

// scrape computes samples from rows that have the same sample time and source.
func (s *node) scrape(rows []observation) {
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
	s.observePlaces(rows[0].source, at)
	for i := 0; i < len(s.active); i++ { //nolint:intrange // The loop body appends the boards of instances to s.active.
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
			a.foldBoard(a.device.home.scrapes[rows[0].source].before)
			a.dropBoardJobs()
		}
		if a.readXID(at) {
			s.noteChange(a.device)
		}
	}
	for _, a := range s.active {
		if d := a.device; d.Parent == nil && !a.unread && at == d.last && d.of.Fatal != nil && a.readHealth(d.home.scrapes[rows[0].source].before) {
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
				s.diagnosis.devices[a.device].RecordHolder()
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
			e.to = &gpudata.DeviceFrame{}
			e.to.Samples.Grow(a.device.samples)
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
		a.frame = e.to
		if s.diagnosis != nil {
			e.signals(s.diagnosis.devices[a.device], a.contradicted)
		}
		a.device.samples = len(e.to.Samples.All())
	}
	for _, a := range s.active {
		if a.frame != nil && !a.frame.Observed {
			a.showUnobserved(s.diagnosis == nil)
		}
	}
	for _, a := range s.active {
		a.device.acc, a.frame = nil, nil
	}
	s.pool = append(s.pool, s.active...)
	s.active = s.active[:0]
}

func (s *Synthesizer) place(p Place) gpudata.Place {
	return gpudata.Place{Cluster: s.cluster, Node: p.Node}
}

// frame returns the frame of a place in the current scrape, and creates the frame if it does not
// exist. The frames of the current scrape are in s.frames[begun:]. A scrape has several frames if
// its rows belong to several hosts.
func (s *node) frame(p Place, at int64, begun int) *gpudata.Frame {
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
func (s *node) fold(o *observation, scales []placeScale, texts []podTexts) {
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
func (s *node) value(o *observation, scales []placeScale) (float64, DropReason) {
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

// dropReasons maps each verdict to its drop reason.
var dropReasons = [...]DropReason{
	catalogue.Valid: DropNone, catalogue.Blank: DropSentinel, catalogue.NotFinite: DropNotFinite,
	catalogue.Absurd: DropAbsurd, catalogue.Implausible: DropImplausible,
}

func isEvents(f *catalogue.Field) bool {
	return f.Kind == catalogue.EventCount || f.Kind == catalogue.EventTotal
}

func isViolation(f *catalogue.Field) bool {
	return len(f.Provides) > 0 && f.Provides[0].Metric == signal.GPUClockThrottleTime
}

// accumulator returns the device's accumulator for the current scrape.
func (s *node) accumulator(d *Device) *accumulator {
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

// The holds method reports whether a row names a holder. The labels of an exporter do not name the
// scrape target, but a Prometheus server may add labels that do. Therefore, a pod that has the name
// of an exporter is a holder only if a receiver scraped the exporter directly.
func (s *node) holds(o *observation) bool {
	r := o.row
	if !r.held || !r.relayed && s.targets.has(r.holder) {
		return false
	}
	return !r.doubtful || o.source != nil && o.source.endpoint.Load() && !r.federated
}
