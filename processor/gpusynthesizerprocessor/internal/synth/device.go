package synth

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/exporters"
	"github.com/otelcol-gpu/otelcol-gpu/internal/diagnose"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// Place is where a device was seen.
type Place struct {
	// Host is the host name that the exporter reports.
	Host string
	// Node is the Kubernetes node, or else the host.
	Node string
}

// DRA is the allocation that a row's labels name; empty texts are unknown.
type DRA struct {
	Claim, Driver, Pool, Device string
}

func (d DRA) allocation() gpudata.Allocation {
	return gpudata.Allocation{Claim: d.Claim, Driver: d.Driver, Pool: d.Pool, Device: d.Device}
}

// Device is a board or a MIG instance. It lives as long as scrapes name it.
type Device struct {
	// ID is the hw.id.
	ID string
	// of is the exporter whose table describes the rows.
	of *catalogue.Exporter
	// Parent is the board of a MIG instance, else nil.
	Parent *Device
	// Name, Model, Profile and MIGUUID describe the device as last exposed, Driver is
	// the driver's version and Serial the board's serial number.
	Name, Model, Profile, MIGUUID, Driver, Serial string
	// Partitions is the number of partitions of a partition's board, or empty.
	Partitions string
	// Instance is the GPU instance id that rows of a MIG instance name, else empty.
	Instance string
	// Place is where the device is. A device that moves to another place becomes a new device.
	Place Place
	// known are the capacities that follow from the model.
	known struct {
		model      string
		capacities catalogue.Capacities
	}
	// DRA is the one allocation that all rows of the last scrape agree on.
	DRA DRA
	as  gpudata.Device // its handle in frames

	number   int    // of the instance, to find the lowest
	instance string // its identity on the board, empty for a board

	// claims are the claims on the device's board; era is the era of the claims to which the state
	// below belongs.
	claims *claims
	era    uint32

	// last is the newest sample time, prev the one before it; 0 is none. They are of the era of the
	// place's clock.
	last, prev int64
	clockEra   uint32
	home       *placeState
	// restored is the wall clock at which the device was restored, until its first sample. The
	// sample before the restart is unknown, so everything that the first one shows occurred since
	// then.
	restored int64
	// arrived is the time of the last scrape with the device, by the Synthesizer's own clock.
	// unread is the last sample time at which the device existed but was unread, or 0.
	unread  int64
	arrived time.Duration
	// observed is true once the device had a sample, and samples is the number of the last ones.
	observed bool
	samples  int

	xid    xidState
	health health
	bytes  []byteCounter // of the exporter's Rates, nil before the first
	// sums, trackers and sets belong to those fields and signals of the exporter that need
	// state; each is nil before the first value.
	sums     map[catalogue.ID]*sum
	trackers map[*catalogue.Signal]catalogue.Tracker
	sets     map[*catalogue.Signal]int // the set that a lasting signal uses
	// counters are the last values of the exporter's Board fields that are counters, as in the rows
	// of an instance or as computed for its board. They are NaN before the first value, nil if
	// there are no such fields.
	counters []float64

	acc *accumulator // this scrape's rows, nil between scrapes

	removed bool // no scrape named it for idleLimit; rows may still refer to it
}

// seen records a sample time and returns the sample time strictly before it, or 0 if there is none.
func (d *Device) seen(t int64) int64 {
	if d.clockEra != d.home.era {
		// A clock was set back: continue from the last scrape.
		d.clockEra = d.home.era
		d.prev, d.last, d.xid.time = 0, 0, 0
		d.forgetBases()
	}
	switch {
	case t > d.last:
		d.prev, d.last = d.last, t
		if d.restored != 0 {
			d.prev, d.restored = max(d.prev, min(d.restored, t)), 0
		}
		return d.prev
	case t == d.last:
		return d.prev
	}
	return 0
}

// forgetBases resets the baselines of rates, sums and time shares.
func (d *Device) forgetBases() {
	d.bytes, d.sums = nil, nil
	for _, t := range d.trackers {
		t.Rebase()
	}
}

// tracker returns the tracker of a signal.
func (d *Device) tracker(s *catalogue.Signal) catalogue.Tracker {
	if d.trackers == nil {
		d.trackers = map[*catalogue.Signal]catalogue.Tracker{}
	}
	if d.trackers[s] == nil {
		d.trackers[s] = s.Track()
	}
	return d.trackers[s]
}

// bestSet returns the position of the set that a lasting signal uses. Before any set had a value,
// it returns the number of sets.
func (d *Device) bestSet(s *catalogue.Signal) int {
	if d.sets == nil {
		d.sets = map[*catalogue.Signal]int{}
	}
	if i, ok := d.sets[s]; ok {
		return i
	}
	return len(s.Sets)
}

// counter returns the last value of a counter of the exporter's Board fields.
func (d *Device) counter(i int) *float64 {
	if d.counters == nil {
		d.counters = slices.Repeat([]float64{math.NaN()}, len(d.of.Board))
	}
	return &d.counters[i]
}

// describe reads the description of the device from a row. texts may be nil.
func (d *Device) describe(r *Row, texts []podTexts) {
	set(&d.Name, r.name)
	set(&d.Model, r.model)
	set(&d.Profile, r.profile)
	set(&d.MIGUUID, r.migUUID)
	if len(texts) == 0 {
		set(&d.Driver, r.driver)
		set(&d.Serial, r.serial)
	} else {
		t := podTextsOf(&texts, r)
		set(&d.Driver, t.driver(r))
		set(&d.Serial, t.serial(r))
	}
	set(&d.Instance, r.instance)
	if d.Parent != nil {
		d.Partitions = r.partitions
	}
}

// capacities returns the capacities of the device's board. They are looked up once per model name.
func (d *Device) capacities() *catalogue.Capacities {
	if d.known.model != d.Model {
		d.known.model, d.known.capacities = d.Model, d.of.Capacities(d.Model)
	}
	return &d.known.capacities
}

// describeBoard describes a board without a row of its own by the rows of its instances.
func (d *Device) describeBoard(instance *Device) {
	set(&d.Name, instance.Name)
	set(&d.Model, instance.Model)
	set(&d.Driver, instance.Driver)
	set(&d.Serial, instance.Serial)
}

// set replaces a text by another one, unless that is empty.
func set(text *string, by string) {
	if by != "" {
		*text = by
	}
}

// fill sets the device of f. The samples are not added yet.
func (d *Device) fill(f *gpudata.DeviceFrame) {
	f.Device = d.as
	f.Description = gpudata.Description{
		Name: d.Name, Model: d.Model, Vendor: d.of.Vendor, Driver: d.Driver,
		Profile: d.Profile, Instance: d.Instance, MIGUUID: d.MIGUUID, Partitions: d.Partitions, Allocation: d.DRA.allocation(),
	}
	switch {
	case d.Parent != nil:
		f.Parent = d.Parent.ID
	case d.of.OfContainers:
		f.Parent = exporters.BoardOf(d.ID)
	default:
		f.Serial = d.Serial
	}
}

// Row has the parsed labels of a row. It can be reused for every row with the same labels, in
// several batches at the same time. device and other belong to the row's node, and are used only
// under the node's lock.
type Row struct {
	// Clues are what the labels show about the exporter. The caller sets them if
	// gpu.signal.available is enabled.
	Clues diagnose.Clues

	of *catalogue.Exporter
	is catalogue.Identity

	device  *Device
	other   *Row // the same labels for the device that the exporter's hook Resolve found
	place   Place
	located string // the node of a row that does not name its node, where it was found
	name    string
	model   string
	profile string
	// instance is the GPU instance id.
	instance string
	migUUID  string
	// cut and part are the labels that distinguish fields of one name, and parts of the device.
	cut, part string
	// partitions is the number of partitions of the board, empty if unknown.
	partitions string
	driver     string
	serial     string
	*named
	// draOther is true if the DRA labels are about a MIG device although the row is about the whole
	// board, as printed by exporters up to 4.8.2.
	draOther bool

	held    bool
	relayed bool
	// namesPod is true if the labels name a pod, whether it is a holder or not, so that a pod's
	// labels may be among them.
	namesPod bool
	// doubtful is true if the holder has the name of an exporter, and nothing in the labels shows
	// whether it is the scrape target.
	doubtful bool
	// federated is true if the labels were added by a Prometheus in between.
	federated bool
	// process is what a row of an exporter of processes describes, else nil.
	process *gpudata.Unplaced
	vgpu    string // the replica of a time-sliced device
	job     string // that the labels name, even if they also name a container
	xid     int    // code of DCGM_EXP_XID_ERRORS rows, -1 for none

	drop DropReason // why rows with these labels are not observations
	// foreign is true if the labels are not the exporter's, although the name may be. certain is
	// true if they are the exporter's, whatever prefix the name has.
	foreign, certain bool
}

// named has the holder that a row names. Most rows name none and share one value.
type named struct {
	dra    DRA
	holder catalogue.Holder
	owner  gpudata.Owner    // of a job
	target catalogue.Holder // the scrape target's own pod, on relayed rows
}

var nobody named

// Foreign reports whether the row has an exporter's metric name but is not that exporter's.
func (r *Row) Foreign(name catalogue.Spelling) bool { return r.foreign || name.Prefixed && !r.certain }

// isTarget reports whether the holder in the plain labels is the scrape target. If the Resource
// does not name the target, the labels decide.
func isTarget(labels *catalogue.Row, h, target catalogue.Holder) bool {
	if target.Pod == "" {
		return labels.NamesTarget()
	}
	return h.Pod == target.Pod && (target.Namespace == "" || h.Namespace == target.Namespace)
}

// Row resolves labels. target is the pod that the input's Resource names as the scrape
// target, which is never a holder.
func (*Synthesizer) Row(labels *catalogue.Row, place Place, target catalogue.Holder) *Row {
	of := labels.Of()
	if of.Claims != nil && !of.Claims(labels) {
		return &Row{named: &nobody, foreign: true}
	}
	r := &Row{
		of:    of,
		place: place,
		name:  labels.Get(catalogue.RoleDevice),
		model: cmp.Or(labels.Get(catalogue.RoleModel), labels.Get(catalogue.RoleSeries)),
		cut:   labels.Get(catalogue.RoleCut),
		part:  labels.Get(catalogue.RolePart),
		xid:   -1,
		named: &named{},

		certain: of.AnyPrefix != nil && of.AnyPrefix(labels),

		driver: labels.Get(catalogue.RoleDriverVersion),
		serial: strings.TrimSpace(labels.Get(catalogue.RoleSerial)),
	}
	is, refusal := of.Identify(labels)
	if r.drop = refusals[refusal]; r.drop != DropNone {
		return r
	}
	migUUID := ""
	if labels.Claimed() {
		r.dra = DRA{
			Claim: labels.Get(catalogue.RoleClaim), Driver: labels.Get(catalogue.RoleDRADriver),
			Pool: labels.Get(catalogue.RoleDRAPool), Device: labels.Get(catalogue.RoleDRADevice),
		}
		migUUID = labels.Get(catalogue.RoleMIGUUID)
	}
	if code, err := strconv.Atoi(labels.Get(catalogue.RoleXID)); err == nil && code >= 0 {
		r.xid = code
	}
	r.vgpu = labels.Get(catalogue.RoleVGPU)
	if job := labels.Get(catalogue.RoleJob); catalogue.IsJobID(job) {
		r.job = job
	}
	r.relayed = labels.Relayed()
	if r.relayed {
		r.target = labels.Target()
	}
	r.federated = labels.Federated()
	r.holder, r.held = labels.Named()
	r.namesPod = r.holder.Pod != ""
	if r.held {
		r.held = r.relayed || !isTarget(labels, r.holder, target)
		r.doubtful = target.Pod == "" && of.CalledExporter(r.holder)
		if r.holder.Job != "" {
			r.owner = gpudata.NewOwner(gpudata.Ownership{JobUser: labels.Get(catalogue.RoleJobUser), JobPartition: labels.Get(catalogue.RoleJobPartition)})
		}
	}
	if *r.named == nobody {
		r.named = &nobody
	}

	if is.Instance != "" {
		r.instance = labels.Get(catalogue.RoleInstanceID)
		r.profile = labels.Get(catalogue.RoleInstanceProfile)
		r.migUUID = migUUID
	} else {
		r.draOther = migUUID != ""
	}
	if r.is = is; is.Of > 0 {
		r.partitions = strconv.Itoa(is.Of)
	}
	r.model, r.part = cmp.Or(is.Model, r.model), cmp.Or(is.Part, r.part)
	if of.OfContainers {
		r.migUUID, r.instance = labels.Get(catalogue.RoleMIGUUID), labels.Get(catalogue.RoleInstanceID)
		r.held = r.held && !of.CalledExporter(r.holder) // even if it is the label of the scrape target
		if of.OfProcesses {
			r.process = processOf(labels, r.is.Board)
		}
		return r
	}
	return r
}

// refusals are the drop reasons of rows that are not about a device.
var refusals = [...]DropReason{
	catalogue.Accepted: DropNone, catalogue.NoDevice: DropNoDevice,
	catalogue.OtherEntity: DropOtherEntity, catalogue.OtherVendor: DropOtherVendor,
}

// device returns the device with that identity and adds it if it is new. It returns nil if the
// limit is reached. The place is part of the identity: simulated GPUs and cloned machines repeat
// UUIDs.
func (s *node) device(of *catalogue.Exporter, place Place, is catalogue.Identity) *Device {
	board := deviceKey{of, place, is.Board, ""}
	b := s.devices[board]
	if b == nil {
		if !s.Synthesizer.devices.Take() {
			return nil
		}
		b = &Device{ID: is.Board, of: of, Place: place, claims: s.claimsOf(place.Node, is.Board)}
		b.as = gpudata.NewDevice(s.place(place), b.ID)
		s.add(board, b)
		s.boards[b.ID] = append(s.boards[b.ID], b)
		s.Synthesizer.boards.add(b.ID, b.Place)
	}
	if is.Instance == "" {
		return b
	}
	instance := deviceKey{of, place, is.Board, is.Instance}
	d := s.devices[instance]
	if d == nil {
		if !s.Synthesizer.devices.Take() {
			return nil
		}
		d = &Device{ID: of.InstanceID(is.Board, is.Instance), of: of, Parent: b, Place: place, claims: b.claims, instance: is.Instance}
		d.as = gpudata.NewDevice(s.place(place), d.ID)
		s.add(instance, d)
	}
	d.number = is.Number
	return d
}

// board returns the id of the device's board.
func (d *Device) board() string {
	if d.Parent != nil {
		return d.Parent.ID
	}
	return d.ID
}

// add registers a new device.
func (s *node) add(k deviceKey, d *Device) {
	d.arrived, d.home = s.arrived, s.home(d.Place)
	d.clockEra = d.home.era
	d.home.devices = append(d.home.devices, d)
	s.devices[k] = d
}

// deviceKey identifies a device. Two vendors may use the same id.
type deviceKey struct {
	of              *catalogue.Exporter
	place           Place
	board, instance string
}
