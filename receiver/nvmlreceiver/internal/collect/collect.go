// Package collect turns what NVML says of a machine's GPUs into samples. It knows
// neither how the library is called nor how samples leave.
package collect

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/dcgm"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver/internal/nvml"
)

// Library is NVML while it is initialised. Its methods are those of nvml.Library.
type Library interface {
	DeviceCount() (int, error)
	Device(index int) (nvml.Device, error)
	MIGDevice(board nvml.Device, index int) (nvml.Device, error)
	UUID(d nvml.Device) (string, error)
	Name(d nvml.Device) (string, error)
	Query(d nvml.Device, q nvml.Query) (uint64, error)
	Memory(d nvml.Device) (nvml.Memory, error)
	FieldValues(d nvml.Device, values []nvml.FieldValue) error
	Processes(d nvml.Device, kind nvml.ProcessKind, list []nvml.Process) ([]nvml.Process, error)
	ProcessUtilization(d nvml.Device, after uint64, list []nvml.ProcessSample) ([]nvml.ProcessSample, error)
}

// Device is the identity and description of a board or of a GPU instance. It is
// shared by the points of all collections until something about it changes; then
// there is a new one.
type Device struct {
	// ID is hw.id: GPU-<uuid>, or GPU-<uuid>/gi<id>.
	ID string
	// Parent is the board's ID, of an instance.
	Parent string
	// Name is the operating system's: nvidia0. Empty when it is unknown.
	Name string
	// Model is the board's.
	Model string
	// Instance, Profile and MIGUUID describe a GPU instance. The UUID is that of
	// its MIG device; it is empty where compute instances share the GPU instance.
	Instance, Profile, MIGUUID string
}

// Point is one sample.
type Point struct {
	Metric *signal.Metric
	Device *Device
	// Own is the value of the metric's own attribute, if it has one.
	Own string
	// PID is the process that the sample is of; 0 for the device itself.
	PID uint32
	// Value is in the metric's unit.
	Value float64
}

// Stats counts what became of calls and values.
type Stats struct {
	// CallsFailed counts calls that failed, other than those that say that a
	// device has no such value.
	CallsFailed int64
	// InstancesSkipped counts idle instances that were spared slow calls.
	InstancesSkipped int64
	// ValuesDropped counts values that cannot be true.
	ValuesDropped int64
	// RatiosClamped counts ratios that were above 1.
	RatiosClamped int64
}

// Options say what is collected.
type Options struct {
	// Devices asks for the samples of boards and instances.
	Devices bool
	// Processes asks for those of processes.
	Processes bool
	// Disabled are metrics that nobody wants; calls made for them alone are spared.
	Disabled []*signal.Metric
	// Now is the clock by which calls are found slow.
	Now func() time.Time
}

// Collector makes the samples of one collection after the other. It is not safe
// for concurrent use.
type Collector struct {
	options  Options
	disabled map[*signal.Metric]bool

	points  []Point
	stats   Stats
	problem error // the first one of the collection

	// What stays from one collection to the next is kept in two generations: what
	// was not met in a collection is forgotten with it.
	known, met map[string]*memo

	slow slowCalls

	// Reused memory.
	values    []nvml.FieldValue
	processes []nvml.Process
	samples   []nvml.ProcessSample
	usage     map[uint32]usage
	instances []instance
}

// memo is what is remembered of a board or an instance.
type memo struct {
	device *Device
	// sampled is the driver's time of the last utilisation sample that was read.
	sampled uint64
	// capacity is that of the board's PCIe link in By/s; 0 is unknown.
	capacity float64
}

// usage sums up the plausible samples of a process.
type usage struct {
	sum, n float64
}

// instance is a GPU instance of the board that is being read.
type instance struct {
	id     uint32
	handle nvml.Device // of its first compute instance
	uuid   string      // of its only compute instance, else empty
	busy   bool
	*memo
}

// New returns a Collector.
func New(options Options) *Collector {
	c := &Collector{options: options, disabled: map[*signal.Metric]bool{}, met: map[string]*memo{}, usage: map[uint32]usage{}}
	for _, m := range options.Disabled {
		c.disabled[m] = true
	}
	for i := range fields {
		c.values = append(c.values, nvml.FieldValue{ID: fields[i].id})
	}
	return c
}

// Collect reads all devices. The points are valid until the next call. The error
// says that the library has lost the driver; there are no points then. Otherwise
// Problem says whether something failed on the way.
func (c *Collector) Collect(lib Library) ([]Point, error) {
	c.points, c.stats, c.problem = c.points[:0], Stats{}, nil
	c.known, c.met = c.met, map[string]*memo{}
	c.slow.begin()
	count, err := lib.DeviceCount()
	if err != nil {
		return nil, fmt.Errorf("number of devices: %w", err)
	}
	for i := range count {
		r := reader{Collector: c, lib: lib, subject: "device " + strconv.Itoa(i)}
		r.board(i)
		if r.fatal != nil {
			return nil, r.fatal
		}
	}
	return c.points, nil
}

// Stats are those of the last collection.
func (c *Collector) Stats() Stats { return c.stats }

// Problem is the first unexpected error of the last collection; nil when all
// went well.
func (c *Collector) Problem() error { return c.problem }

func (c *Collector) wants(m *signal.Metric) bool { return !c.disabled[m] }

// remember returns what is known by a key, which is empty when nothing is.
func (c *Collector) remember(key string) *memo {
	m := c.known[key]
	if m == nil {
		m = &memo{device: &Device{}}
	}
	c.met[key] = m
	return m
}

// describe says what the device is like now.
func (m *memo) describe(d Device) {
	if *m.device != d {
		m.device = &d
	}
}

// reader reads one board.
type reader struct {
	*Collector
	lib     Library
	subject string
	lost    bool  // the board is gone: what is left to ask is not asked
	fatal   error // the driver is gone
}

// absent reports whether an error says that there is no such value, device or
// function.
func absent(err error) bool {
	return errors.Is(err, nvml.ErrNotSupported) || errors.Is(err, nvml.ErrFunctionNotFound) || errors.Is(err, nvml.ErrNotFound)
}

// failed reports whether a call gave nothing, and notes why, unless there is
// nothing to be had.
func (r *reader) failed(err error) bool {
	if err == nil || absent(err) {
		return err != nil
	}
	switch {
	case errors.Is(err, nvml.ErrGPULost), errors.Is(err, nvml.ErrResetRequired):
		r.lost = true
	case errors.Is(err, nvml.ErrUninitialized), errors.Is(err, nvml.ErrDriverNotLoaded), errors.Is(err, nvml.ErrVersionMismatch):
		r.lost = true
		r.fatal = fmt.Errorf("%s: %w", r.subject, err)
	}
	r.stats.CallsFailed++
	if r.problem == nil {
		r.problem = fmt.Errorf("%s: %w", r.subject, err)
	}
	return true
}

// query asks for a number. It reports false where there is none.
func (r *reader) query(d nvml.Device, q nvml.Query) (float64, bool) {
	if r.lost {
		return 0, false
	}
	v, err := r.lib.Query(d, q)
	return float64(v), !r.failed(err)
}

// board reads the board with that index.
func (r *reader) board(index int) {
	handle, err := r.lib.Device(index)
	if r.failed(err) {
		return
	}
	uuid, err := r.lib.UUID(handle)
	if r.failed(err) {
		return
	}
	r.subject = uuid
	m := r.remember(uuid)
	board := Device{ID: uuid}
	if model, err := r.lib.Name(handle); !r.failed(err) {
		board.Model = model
	}
	if minor, ok := r.query(handle, nvml.MinorNumber); ok {
		board.Name = "nvidia" + strconv.Itoa(int(minor))
	}
	m.describe(board)

	// What may be cut into instances is not taken for a whole board.
	mode, err := r.lib.Query(handle, nvml.MIGMode)
	if r.failed(err) && !absent(err) {
		return
	}
	mig, whole := mode == 1, true
	r.instances = r.instances[:0]
	if mig {
		whole = r.findInstances(handle, m.device) && len(r.instances) == 0
	}
	// In MIG mode the list tells which instances are idle, too.
	listed := (r.options.Processes || mig) && r.listProcesses(handle, mig)
	for i := range r.instances {
		in := &r.instances[i]
		r.slow.call(r.options.Now, listed && !in.busy, &r.stats, func() { r.instance(in) })
	}
	if r.options.Devices {
		r.boardSamples(handle, m, mig)
		if whole {
			r.memory(handle, m.device)
		}
	}
	if listed && r.options.Processes {
		r.processSamples(handle, m, mig)
	}
}

// findInstances finds the GPU instances of a board through its MIG devices, each
// of which is a compute instance. Indices have gaps. It reports false where some
// may be missing.
func (r *reader) findInstances(handle nvml.Device, board *Device) bool {
	most, complete := r.query(handle, nvml.MaxMIGDevices)
	for i := range int(most) {
		if r.lost {
			return false
		}
		device, err := r.lib.MIGDevice(handle, i)
		if r.failed(err) {
			complete = complete && absent(err)
			continue
		}
		id, ok := r.query(device, nvml.GPUInstanceID)
		if !ok {
			complete = false
			continue
		}
		if j := slices.IndexFunc(r.instances, func(in instance) bool { return in.id == uint32(id) }); j >= 0 {
			r.instances[j].uuid = ""
			continue
		}
		uuid, err := r.lib.UUID(device)
		if r.failed(err) {
			complete = false
			continue
		}
		r.instances = append(r.instances, instance{id: uint32(id), handle: device, uuid: uuid})
	}
	for i := range r.instances {
		in := &r.instances[i]
		d := instanceOf(board, in.id)
		d.MIGUUID = in.uuid
		in.memo = r.remember(d.ID + " " + in.uuid)
		d.Profile = in.device.Profile
		in.describe(d)
	}
	return complete
}

func instanceOf(board *Device, id uint32) Device {
	text := strconv.FormatUint(uint64(id), 10)
	return Device{ID: board.ID + "/gi" + text, Parent: board.ID, Name: board.Name, Model: board.Model, Instance: text}
}

// instance reads an instance.
func (r *reader) instance(in *instance) {
	if r.lost {
		return
	}
	if name, err := r.lib.Name(in.handle); !r.failed(err) {
		d := *in.device
		d.Profile = profile(name)
		in.describe(d)
	}
	if r.options.Devices {
		r.memory(in.handle, in.device)
	}
}

// profile reads a MIG device's name, which ends in "MIG 1g.10gb", or "MIG
// 1c.3g.40gb" where the compute instance is a part of its GPU instance.
func profile(name string) string {
	_, text, _ := strings.Cut(name, "MIG ")
	if compute, rest, ok := strings.Cut(text, "c."); ok && len(compute) == 1 {
		text = rest
	}
	if p, ok := dcgm.ParseProfile(text); ok {
		return p.Name
	}
	return ""
}

// point adds a sample, unless nobody wants it.
func (r *reader) point(p Point) {
	if r.wants(p.Metric) {
		r.points = append(r.points, p)
	}
}

// sample adds a sample made of a value in NVML's unit.
func (r *reader) sample(m *signal.Metric, d *Device, own string, u dcgm.Unit, raw float64) {
	v, verdict := u.Value(raw)
	if verdict != dcgm.Valid {
		r.stats.ValuesDropped++
		return
	}
	if m.Unit == "1" {
		v = r.clamp(v)
	}
	r.point(Point{Metric: m, Device: d, Own: own, Value: v})
}

func (r *reader) clamp(v float64) float64 {
	v, clamped := dcgm.Clamp(v)
	if clamped {
		r.stats.RatiosClamped++
	}
	return v
}

// memory reads the memory of a board or of an instance.
func (r *reader) memory(handle nvml.Device, d *Device) {
	if r.lost {
		return
	}
	m, err := r.lib.Memory(handle)
	if r.failed(err) {
		return
	}
	used, verdict := dcgm.Byte.Value(float64(m.Used))
	free, freeVerdict := dcgm.Byte.Value(float64(m.Free))
	if verdict != dcgm.Valid || freeVerdict != dcgm.Valid {
		r.stats.ValuesDropped++
		return
	}
	r.sample(signal.HwGPUMemoryUsage, d, "", dcgm.Byte, used)
	r.sample(signal.HwGPUMemoryLimit, d, "", dcgm.Byte, float64(m.Total))
	if used+free > 0 {
		r.point(Point{Metric: signal.HwGPUMemoryUtilization, Device: d, Value: used / (used + free)})
	}
}

// slowAfter is how long the calls of an instance may take before idle instances
// are spared them.
const slowAfter = 40 * time.Millisecond

// slowCalls spares idle instances calls that proved to be slow, but for one
// instance in each collection, by turns: so it is noticed when they are fast
// again, and meanwhile each instance has its samples from time to time.
type slowCalls struct {
	slow bool
	turn int // which idle instance is read nevertheless
	idle int // idle instances met in this collection
}

func (s *slowCalls) begin() {
	if s.turn++; s.turn >= s.idle {
		s.turn = 0
	}
	s.idle = 0
}

// call reads an instance, unless it is idle and has to be spared.
func (s *slowCalls) call(now func() time.Time, idle bool, stats *Stats, do func()) {
	if !idle {
		do()
		return
	}
	s.idle++
	if s.slow && s.idle-1 != s.turn {
		stats.InstancesSkipped++
		return
	}
	began := now()
	do()
	s.slow = now().Sub(began) >= slowAfter
}
