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

// DRA is the DRA allocation that is named in the labels of a row. Empty fields are unknown.
type DRA struct {
	Claim, Driver, Pool, Device string
}

func (d DRA) allocation() gpudata.Allocation {
	return gpudata.Allocation{Claim: d.Claim, Driver: d.Driver, Pool: d.Pool, Device: d.Device}
}

// Device is a board or a MIG instance. A device that no scrape has named for longer than idleLimit
// is removed.
type Device struct {
	// ID is the hw.id.
	ID string
	// The exporter whose table describes the device's rows.
	of *catalogue.Exporter
	// Parent is the board of a MIG instance. For a board, Parent is nil.
	Parent *Device
	// Name, Model, Profile, and MIGUUID are the most recently exposed descriptions of the device.
	// Driver is the driver version. Serial is the serial number of the board.
	Name, Model, Profile, MIGUUID, Driver, Serial string
	// Partitions is the number of partitions of the board if the device is a partition. Otherwise
	// it is empty.
	Partitions string
	// Instance is the GPU instance ID from the rows of a MIG instance. Otherwise it is empty.
	Instance string
	// Place is the host and the node of the device. A device that moves to another place becomes a
	// new device.
	Place Place
	// known is a cache for the capacities of the model.
	known struct {
		model      string
		capacities catalogue.Capacities
	}
	// DRA is the allocation that was named in the last scrape. DRA is empty if no row named an
	// allocation, or if the rows named different allocations.
	DRA DRA
	as  gpudata.Device // the device in frames

	// Number of the instance. The foldBoard method prefers the instance with the lowest number.
	number   int
	instance string // identity of the instance on the board, or empty for a board

	// Claims on the device's board. The era field is the value of claims.era at the time when the
	// device's baselines were set.
	claims *claims
	era    uint32

	// The newest sample time (last) and the previous sample time (prev), or 0 if there is no such
	// sample. The clockEra field is the era of the place to which both sample times belong.
	last, prev int64
	clockEra   uint32
	home       *placeState
	// Until the first sample after a restart, restored is the time at which the device was restored
	// from storage. For that sample, this time is used as the previous sample time, because the
	// last sample time before the restart may be unknown.
	restored int64
	// unread is the last sample time at which the driver could not read the device, or 0 if there
	// is none. The arrived field is the arrival time of the last scrape of the device, according to
	// the Synthesizer's own clock.
	unread  int64
	arrived time.Duration
	samples int // number of the device's samples in the last scrape

	xid    xidState
	health health
	// Last values of the counters in the exporter's Rates list. The slice is nil before the first
	// value.
	bytes []byteCounter
	// The sums, trackers, and sets maps contain the state of the fields and signals that need
	// state. Each map is nil until it has an entry.
	sums     map[catalogue.ID]*sum
	trackers map[*catalogue.Signal]catalogue.Tracker
	sets     map[*catalogue.Signal]int // The set that each lasting signal uses.
	// Last values of the counters among the exporter's Board fields: the exposed values for an
	// instance, and the computed values for a board. An unknown value is NaN.
	counters []float64

	acc *accumulator // rows of the current scrape, or nil between scrapes

	// counted is true if the device counts toward the device limit. A device of a container-level
	// exporter does not count while another exporter exposes the same device.
	counted bool
	removed bool // the device was removed, but rows may still refer to it
}

// The seen method records the sample time t and returns the previous sample time. If there is no
// previous sample, or if t is older than the newest sample time, the result is 0.
func (d *Device) seen(t int64) int64 {
	if d.clockEra != d.home.era {
		// The clock of the place was set back, so earlier sample times and baselines are invalid.
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

// bestSet returns the index of the set that a lasting signal uses. If no set has had a value yet,
// bestSet returns the number of sets.
func (d *Device) bestSet(s *catalogue.Signal) int {
	if d.sets == nil {
		d.sets = map[*catalogue.Signal]int{}
	}
	if i, ok := d.sets[s]; ok {
		return i
	}
	return len(s.Sets)
}

// counter returns a pointer to the last value of the Board field with index i.
func (d *Device) counter(i int) *float64 {
	if d.counters == nil {
		d.counters = slices.Repeat([]float64{math.NaN()}, len(d.of.Board))
	}
	return &d.counters[i]
}

// The describe method updates the description of the device from a row. The texts slice may be nil.
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

// capacities returns the capacities of the device's board. The capacities are looked up only when
// the model name changes.
func (d *Device) capacities() *catalogue.Capacities {
	if d.known.model != d.Model {
		d.known.model, d.known.capacities = d.Model, d.of.Capacities(d.Model)
	}
	return &d.known.capacities
}

// describeBoard updates the description of a board from one of its instances, because the board
// might have no rows of its own.
func (d *Device) describeBoard(instance *Device) {
	set(&d.Name, instance.Name)
	set(&d.Model, instance.Model)
	set(&d.Driver, instance.Driver)
	set(&d.Serial, instance.Serial)
}

// If the by parameter is not empty, set copies it to the string to which the text parameter points.
func set(text *string, by string) {
	if by != "" {
		*text = by
	}
}

// The fill method copies the description of the device to f without adding samples.
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
// even in several batches at the same time. The lock of the row's node guards the fields named
// device and other.
type Row struct {
	// Clues contains what the labels reveal about the exporter. The caller sets Clues if
	// gpu.signal.available is enabled.
	Clues diagnose.Clues

	of *catalogue.Exporter
	is catalogue.Identity

	device  *Device
	other   *Row // copy of this row for the device that the exporter's Resolve hook found
	place   Place
	located string // the node that findNodes found for a row that does not name its node
	name    string
	model   string
	profile string
	// instance is the GPU instance ID.
	instance string
	migUUID  string
	// The cut label distinguishes fields with the same name. The part label distinguishes parts of
	// the device.
	cut, part string
	// partitions is the number of partitions of the board, or empty if the number is unknown.
	partitions string
	driver     string
	serial     string
	*named
	// draOther is true if the DRA labels describe a MIG device but the row describes the whole
	// board. Up to version 4.8.2, dcgm-exporter exposes rows for which draOther is true.
	draOther bool

	held    bool
	relayed bool
	// namesPod is true if the labels name a pod, even if the pod is not a holder. In that case, the
	// row's labels may include the pod's own labels.
	namesPod bool
	// doubtful is true if the holder has the name of an exporter and the scrape target is unknown.
	doubtful bool
	// federated is true if a Prometheus server added the target labels.
	federated bool
	// The process field contains the process that a row from a process exporter describes. For rows
	// of other exporters, process is nil.
	process *gpudata.Unplaced
	vgpu    string // Replica of a time-sliced device.
	job     string // Job that is named in the labels, even if the labels also name a container.
	xid     int    // Code of a DCGM_EXP_XID_ERRORS row, or -1 if there is none.

	drop DropReason // Reason why rows with these labels are dropped.
	// If foreign is true, the labels show that the row does not belong to the exporter. If certain
	// is true, the labels show that the row belongs to the exporter, even if the metric name has
	// another prefix.
	foreign, certain bool
}

// named is the type of a holder that is named in a row. Most rows name no holder and share the
// nobody variable.
type named struct {
	dra    DRA
	holder catalogue.Holder
	owner  gpudata.Owner    // Owner of a job.
	target catalogue.Holder // The scrape target's own pod, if the row was relayed.
}

var nobody named

// Foreign reports whether the row does not belong to the exporter, although it has one of the
// exporter's metric names.
func (r *Row) Foreign(name catalogue.Spelling) bool { return r.foreign || name.Prefixed && !r.certain }

// isTarget reports whether the plain labels name the scrape target as the holder. If the Resource
// does not name the target, isTarget uses the other labels of the row.
func isTarget(labels *catalogue.Row, h, target catalogue.Holder) bool {
	if target.Pod == "" {
		return labels.NamesTarget()
	}
	return h.Pod == target.Pod && (target.Namespace == "" || h.Namespace == target.Namespace)
}

// Row parses the labels of a row. The target parameter is the pod that the Resource names as the
// scrape target. The scrape target is never a holder.
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

// refusals contains the drop reasons for rows that do not describe a device.
var refusals = [...]DropReason{
	catalogue.Accepted: DropNone, catalogue.NoDevice: DropNoDevice,
	catalogue.OtherEntity: DropOtherEntity, catalogue.OtherVendor: DropOtherVendor,
}

// device returns the device with the given identity, and adds the device if it is new. If the
// device limit is reached, device returns nil. The place is part of the key, because several
// simulated GPUs or cloned machines can have the same UUID.
func (s *node) device(of *catalogue.Exporter, place Place, is catalogue.Identity) *Device {
	board := deviceKey{of, place, is.Board, ""}
	b := s.devices[board]
	if b == nil {
		if !s.Synthesizer.devices.Take() {
			return nil
		}
		b = &Device{ID: is.Board, of: of, Place: place, claims: s.claimsOf(place.Node, is.Board), counted: true}
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
		d = &Device{
			ID: of.InstanceID(is.Board, is.Instance), of: of, Parent: b, Place: place, claims: b.claims, instance: is.Instance,
			counted: true,
		}
		d.as = gpudata.NewDevice(s.place(place), d.ID)
		s.add(instance, d)
	}
	d.number = is.Number
	return d
}

// uncount stops counting the device toward the device limit. The device may be nil.
func (s *node) uncount(d *Device) {
	if d != nil && d.counted {
		s.Synthesizer.devices.Free(1)
		d.counted = false
	}
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

// deviceKey identifies a device. The key contains the exporter, because two vendors may use the
// same ID.
type deviceKey struct {
	of              *catalogue.Exporter
	place           Place
	board, instance string
}
