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

// Place is the host and the node on which a device was seen.
type Place struct {
	// Host is the host name that the exporter reports.
	Host string
	// Node is the Kubernetes node or, if it is unknown, the host.
	Node string
}

// DRA is the allocation that the labels of a row name. Empty fields are unknown.
type DRA struct {
	Claim, Driver, Pool, Device string
}

func (d DRA) allocation() gpudata.Allocation {
	return gpudata.Allocation{Claim: d.Claim, Driver: d.Driver, Pool: d.Pool, Device: d.Device}
}

// Device is a board or a MIG instance. It is removed when no scrape has named it for idleLimit.
type Device struct {
	// ID is the hw.id.
	ID string
	// of is the exporter whose table describes the rows of the device.
	of *catalogue.Exporter
	// Parent is the board of a MIG instance. It is nil for a board.
	Parent *Device
	// Name, Model, Profile, and MIGUUID are the last exposed descriptions of the device. Driver is
	// the version of the driver. Serial is the serial number of the board.
	Name, Model, Profile, MIGUUID, Driver, Serial string
	// Partitions is the number of partitions of the board if the device is a partition. Otherwise
	// it is empty.
	Partitions string
	// Instance is the GPU instance ID from the rows of a MIG instance. Otherwise it is empty.
	Instance string
	// Place is where the device is. A device that moves to another place becomes a new device.
	Place Place
	// known contains the capacities that are known from the model.
	known struct {
		model      string
		capacities catalogue.Capacities
	}
	// DRA is the allocation that the rows of the last scrape name. It is empty if no row names an
	// allocation, or if rows name different allocations.
	DRA DRA
	as  gpudata.Device // the device in frames

	number   int    // number of the instance; foldBoard uses the lowest
	instance string // identity of the instance on the board, empty for a board

	// claims are the claims on the device's board. era is the era of the claims in which the
	// device's baselines were set.
	claims *claims
	era    uint32

	// last is the newest sample time, and prev is the one before it. Both are 0 if there is no such
	// sample. They belong to the place's era with the number clockEra.
	last, prev int64
	clockEra   uint32
	home       *placeState
	// restored is the time at which the device was restored. It is used in place of the previous
	// sample time until the first sample, because the last sample time before the restart may be
	// unknown.
	restored int64
	// unread is the last sample time at which the driver could not read the device, or 0. arrived
	// is the arrival time of the last scrape with the device, by the Synthesizer's own clock.
	unread  int64
	arrived time.Duration
	// observed is true once the device has had a sample. samples is the number of samples in the
	// last scrape.
	observed bool
	samples  int

	xid    xidState
	health health
	bytes  []byteCounter // of the exporter's Rates, nil before the first
	// sums, trackers, and sets contain the state of the fields and signals that need state. They
	// are nil before the first value.
	sums     map[catalogue.ID]*sum
	trackers map[*catalogue.Signal]catalogue.Tracker
	sets     map[*catalogue.Signal]int // the set that a lasting signal uses
	// counters are the last values of the counters among the exporter's Board fields: the exposed
	// values of an instance, or the computed values of a board. A value is NaN if it is unknown.
	counters []float64

	acc *accumulator // the rows of the current scrape, nil between scrapes

	removed bool // the device was removed, but rows may still refer to it
}

// seen records a sample time and returns the previous sample time. It returns 0 if there is none,
// or if t is older than the newest sample time.
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

// forgetBases resets the baselines of rates, sums, and trackers.
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

// counter returns a pointer to the last value of the Board field with this index.
func (d *Device) counter(i int) *float64 {
	if d.counters == nil {
		d.counters = slices.Repeat([]float64{math.NaN()}, len(d.of.Board))
	}
	return &d.counters[i]
}

// describe updates the description of the device from a row. texts may be nil.
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

// describeBoard updates the description of a board from one of its instances, because the board may
// not have rows.
func (d *Device) describeBoard(instance *Device) {
	set(&d.Name, instance.Name)
	set(&d.Model, instance.Model)
	set(&d.Driver, instance.Driver)
	set(&d.Serial, instance.Serial)
}

// set sets text to by unless by is empty.
func set(text *string, by string) {
	if by != "" {
		*text = by
	}
}

// fill sets the description of the device in f. It does not add samples.
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

// Row contains the parsed labels of a row. A Row can be reused for all rows with the same labels,
// even in several batches at the same time. device and other are protected by the lock of the row's
// node.
type Row struct {
	// Clues describe the exporter according to the labels. The caller sets them if
	// gpu.signal.available is enabled.
	Clues diagnose.Clues

	of *catalogue.Exporter
	is catalogue.Identity

	device  *Device
	other   *Row // a row with the same labels for the device that the exporter's Resolve hook found
	place   Place
	located string // the node that findNodes found for a row that does not name its node
	name    string
	model   string
	profile string
	// instance is the GPU instance ID.
	instance string
	migUUID  string
	// cut is the label that distinguishes fields with the same name. part is the label that
	// distinguishes parts of the device.
	cut, part string
	// partitions is the number of partitions of the board, empty if unknown.
	partitions string
	driver     string
	serial     string
	*named
	// draOther is true if the DRA labels describe a MIG device but the row describes the whole
	// board. dcgm-exporter up to version 4.8.2 exposes such rows.
	draOther bool

	held    bool
	relayed bool
	// namesPod is true if the labels name a pod, even if the pod is not a holder. The row's labels
	// may then include the pod's own labels.
	namesPod bool
	// doubtful is true if the holder is named like an exporter and the scrape target is unknown.
	doubtful bool
	// federated is true if a Prometheus server added the target labels.
	federated bool
	// process is the process that a process exporter's row describes. It is nil for other
	// exporters.
	process *gpudata.Unplaced
	vgpu    string // the replica of a time-sliced device
	job     string // the job that the labels name, even if they also name a container
	xid     int    // code of DCGM_EXP_XID_ERRORS rows, -1 for none

	drop DropReason // the reason why rows with these labels are dropped
	// foreign is true if the labels show that the row does not belong to the exporter. certain is
	// true if the labels show that the row belongs to the exporter, even if the metric name has
	// another prefix.
	foreign, certain bool
}

// named contains the holder that a row names. Most rows name no holder and share the value nobody.
type named struct {
	dra    DRA
	holder catalogue.Holder
	owner  gpudata.Owner    // of a job
	target catalogue.Holder // the scrape target's own pod, on relayed rows
}

var nobody named

// Foreign reports whether the row has a metric name of the exporter but does not belong to the
// exporter.
func (r *Row) Foreign(name catalogue.Spelling) bool { return r.foreign || name.Prefixed && !r.certain }

// isTarget reports whether the holder in the plain labels is the scrape target. If the Resource
// does not name the target, isTarget uses the other labels of the row.
func isTarget(labels *catalogue.Row, h, target catalogue.Holder) bool {
	if target.Pod == "" {
		return labels.NamesTarget()
	}
	return h.Pod == target.Pod && (target.Namespace == "" || h.Namespace == target.Namespace)
}

// Row parses labels. target is the pod that the Resource names as the scrape target. This pod is
// never a holder.
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
		r.doubtful = target.Pod == "" && of.IsExporter(r.holder)
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
		r.held = r.held && !of.IsExporter(r.holder) // the labels may name the scrape target
		if of.OfProcesses {
			r.process = processOf(labels, r.is.Board)
		}
		return r
	}
	return r
}

// refusals are the drop reasons of rows that do not describe a device.
var refusals = [...]DropReason{
	catalogue.Accepted: DropNone, catalogue.NoDevice: DropNoDevice,
	catalogue.OtherEntity: DropOtherEntity, catalogue.OtherVendor: DropOtherVendor,
}

// device returns the device with this identity and adds it if it is new. It returns nil if the
// limit is reached. The place is part of the key, because simulated GPUs and cloned machines repeat
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

// board returns the ID of the device's board.
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

// deviceKey identifies a device. It contains the exporter, because two vendors may use the same ID.
type deviceKey struct {
	of              *catalogue.Exporter
	place           Place
	board, instance string
}
