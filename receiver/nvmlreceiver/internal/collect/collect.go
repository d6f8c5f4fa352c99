// Package collect converts the data that NVML provides about the GPUs of a machine to samples. The
// package calls the library through an interface, and does not send the samples.
package collect

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver/internal/nvml"
)

// Library is an initialized NVML library. The nvml.Library type implements this interface.
type Library interface {
	DeviceCount() (int, error)
	Device(index int) (nvml.Device, error)
	MIGDevice(board nvml.Device, index int) (nvml.Device, error)
	UUID(d nvml.Device) (string, error)
	Name(d nvml.Device) (string, error)
	Driver() string
	Serial(board nvml.Device) (string, error)
	Query(d nvml.Device, q nvml.Query) (uint64, error)
	Memory(d nvml.Device) (nvml.Memory, error)
	FieldValues(d nvml.Device, values []nvml.FieldValue) error
	Processes(d nvml.Device, kind nvml.ProcessKind, list []nvml.Process) ([]nvml.Process, error)
	ProcessUtilization(d nvml.Device, after uint64, list []nvml.ProcessSample) ([]nvml.ProcessSample, error)
	GPMSupported(board nvml.Device) (bool, error)
	NewGPMSample() (nvml.GPMSample, error)
	FreeGPMSample(s nvml.GPMSample) error
	ReadGPMSample(board nvml.Device, instance uint32, s nvml.GPMSample) error
	GPMValues(first, second nvml.GPMSample, values []nvml.GPMValue) error
	NewEventSet() (nvml.EventSet, error)
	FreeEventSet(s nvml.EventSet) error
	WatchXIDs(board nvml.Device, s nvml.EventSet) error
	NextXID(s nvml.EventSet) (nvml.XIDEvent, error)
}

// Device contains the identity and the description of a board or a GPU instance. Points from
// different collections share a Device as long as the ID and the Description do not change. If the
// ID or the Description changes, a new Device is created. FailurePredicted can change in the same
// Device.
type Device struct {
	// ID is the hw.id of the device, which is GPU-<uuid> for a board or GPU-<uuid>/gi<id> for an
	// instance.
	ID string
	// If several compute instances share the GPU instance, the MIGUUID in Description is empty.
	gpudata.Description
	// FailurePredicted is true if the values from the last collection predict a failure of the
	// board. FailurePredicted is always false for an instance.
	FailurePredicted bool
}

// Point is a sample.
type Point struct {
	gpudata.Sample
	Device *Device
	// PID is the ID of the process that the sample describes, or 0 if the sample describes the
	// device itself.
	PID uint32
}

// Stats counts failed calls, skipped instances, and dropped or clamped values.
type Stats struct {
	// CallsFailed is the number of failed calls. Calls that failed because the device does not have
	// the requested value are not counted.
	CallsFailed int64
	// InstancesSkipped is the number of idle instances that were skipped because calls for
	// instances of the same board are slow.
	InstancesSkipped int64
	// ValuesDropped is the number of values that were dropped because they are implausible.
	ValuesDropped int64
	// RatiosClamped is the number of ratios that were clamped because they were slightly outside
	// [0, 1].
	RatiosClamped int64
}

// Options configures which samples the Collector collects.
type Options struct {
	// Devices enables the samples of boards and instances.
	Devices bool
	// Processes enables the samples of processes.
	Processes bool
	// AllProcesses is true if NVML lists all processes. Outside the host's PID namespace, NVML's
	// process lists may be incomplete.
	AllProcesses bool
	// Hold is true if the library stays loaded between collections. A library that was unloaded
	// cannot provide data about the time between collections.
	Hold bool
	// Disabled contains the metrics that are not collected. Most calls that are needed only for
	// disabled metrics are skipped.
	Disabled map[*signal.Metric]bool
	// Now returns the current time. The Collector uses Now to measure the duration of calls.
	Now func() time.Time
}

// Collector collects samples repeatedly. A Collector is not safe for concurrent use.
type Collector struct {
	options  Options
	monitors bool // Whether to read performance counters (GPM) if the board has them.
	events   bool // Whether to count XID errors if the driver reports them.

	// eventSet receives the events of the watched boards, or is 0 if there is no event set. The
	// watched map contains the IDs of the watched boards, keyed by handle.
	eventSet nvml.EventSet
	watched  map[nvml.Device]string
	// collectionStart is the start time of the current collection. The collectionEnd field is the
	// end time of the last collection.
	collectionStart, collectionEnd time.Time

	points  []Point
	stats   Stats
	problem error // the first unexpected error in the collection

	// The previous map contains the state that the last collection used. The current map contains
	// the state that the current collection has used so far. State that a collection did not use is
	// deleted after the collection.
	previous, current map[string]*deviceCache
	collections       uint64

	// The following fields are buffers that are reused in every collection.
	values    []nvml.FieldValue
	gpmValues []nvml.GPMValue
	links     []nvml.FieldValue
	processes []nvml.Process
	samples   []nvml.ProcessSample
	usage     map[uint32]usage // Keyed by PID.
	// The times of the utilization samples that the current collection has read for a board.
	sampleTimes map[uint64]bool
	migs        []migDevice
	instances   []instance
}

// deviceCache is the cached state of a board or an instance.
type deviceCache struct {
	device *Device
	// The sampled field is the driver's timestamp of the last utilization sample that was read.
	sampled uint64
	// The capacity field is the capacity of the board's PCIe link in bytes per second, or 0 if the
	// capacity is unknown.
	capacity float64
	// The mig field is true if the board was in MIG mode in the last collection.
	mig bool
	// gpm contains the performance counters of a board or an instance.
	gpm   gpmState
	watch xidState
	// The links map contains, for each field, the last value of each NVLink, indexed by link
	// number.
	links map[nvml.FieldID][maxLinks]float64

	// The migs slice contains the MIG devices of a board, or is nil if the board is not in MIG mode
	// or not all MIG devices were identified. The slow field is true if calls for idle instances of
	// the board are slow.
	migs []migDevice
	slow bool

	// lastRead is the number of the last collection that read the instance, or 0. The limit field
	// is the memory size of the instance in bytes, or 0 if the size is unknown.
	lastRead uint64
	limit    float64
}

// The usage type contains the utilization of a process according to the driver's utilization
// samples.
type usage struct {
	sum     float64 // The sum of the utilization over all sample times.
	unknown int     // The number of sample times for which all entries are invalid.
}

// New returns a Collector.
func New(options Options) *Collector {
	c := &Collector{
		options: options, current: map[string]*deviceCache{}, usage: map[uint32]usage{}, sampleTimes: map[uint64]bool{}, values: slices.Clone(queriedFields),
		watched: map[nvml.Device]string{},
	}
	c.events = options.Hold && options.Devices && c.isEnabled(signal.HwErrors)
	for i := range gpm {
		c.gpmValues = append(c.gpmValues, nvml.GPMValue{ID: gpm[i].id})
		for _, o := range gpm[i].outputs {
			c.monitors = c.monitors || options.Hold && options.Devices && c.isEnabled(o.metric)
		}
	}
	return c
}

// Collect reads all devices. The returned points are valid until the next call to Collect. If the
// library has lost the driver, Collect returns an error and no points. If only a part of the
// collection fails, Collect returns no error, but the Problem method returns the reason.
func (c *Collector) Collect(lib Library) ([]Point, error) {
	c.points, c.stats, c.problem = c.points[:0], Stats{}, nil
	c.previous, c.current = c.current, map[string]*deviceCache{}
	c.collections++
	c.collectionStart = c.options.Now()
	defer func() { c.collectionEnd = c.options.Now() }()
	count, err := lib.DeviceCount()
	if err != nil {
		c.Release(lib)
		c.Forget()
		return nil, fmt.Errorf("number of devices: %w", err)
	}
	c.readEvents(lib)
	for i := range count {
		r := reader{Collector: c, lib: lib, subject: "device " + strconv.Itoa(i)}
		r.board(i)
		if r.fatal != nil {
			c.Release(lib)
			c.Forget()
			return nil, r.fatal
		}
	}
	for key, m := range c.previous {
		if c.current[key] != m {
			c.lostDeviceXIDs(m)
			m.gpm.free(lib)
		}
	}
	return c.points, nil
}

// Forget clears the cached state of all devices, because the devices may have been repartitioned
// while the driver was lost.
func (c *Collector) Forget() { c.current = map[string]*deviceCache{} }

// Stats returns the statistics of the last collection.
func (c *Collector) Stats() Stats { return c.stats }

// Problem returns the first unexpected error of the last collection, or nil.
func (c *Collector) Problem() error { return c.problem }

func (c *Collector) isEnabled(m *signal.Metric) bool { return !c.options.Disabled[m] }

// The cached method returns the cached state for a key. If there is no state for the key, the
// method creates an empty state.
func (c *Collector) cached(key string) *deviceCache {
	m := c.previous[key]
	if m == nil {
		m = &deviceCache{device: &Device{}}
	}
	c.current[key] = m
	return m
}

// describe sets the current description of a device. If the description has changed, describe
// discards the cached readings of the device: the number of the collection that last read the
// device, the memory size, the NVLink counters, the time of the last GPM reading, and the XID
// counts.
func (m *deviceCache) describe(d Device) {
	if m.device.ID != d.ID || m.device.Description != d.Description {
		m.device, m.lastRead, m.limit, m.links, m.gpm.at, m.watch.xids = &d, 0, 0, nil, time.Time{}, nil
	}
}

// reader reads one board.
type reader struct {
	*Collector
	lib     Library
	subject string
	gpm     bool  // Whether the board has performance counters (GPM).
	lost    bool  // Whether the board was lost; if so, the remaining calls are skipped.
	fatal   error // The error if the driver was lost, or nil.
	// The found field is true if all MIG devices of the board were found, or if the board is not in
	// MIG mode. The fromCache field is true if the identities of these MIG devices come from the
	// cache.
	found, fromCache bool
	// The boardProcesses field is the number of processes on the board, or negative if the number
	// is unknown.
	boardProcesses int
}

// The absent function reports whether an error means that a value, device, or function does not
// exist.
func absent(err error) bool {
	return errors.Is(err, nvml.ErrNotSupported) || errors.Is(err, nvml.ErrFunctionNotFound) || errors.Is(err, nvml.ErrNotFound) ||
		errors.Is(err, nvml.ErrDeprecated)
}

// The failed method reports whether a call failed. The method also records the error, unless the
// error means that the value does not exist.
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

// The query method reads a number from a device. If the number cannot be read, the method returns
// false.
func (r *reader) query(d nvml.Device, q nvml.Query) (float64, bool) {
	if r.lost {
		return 0, false
	}
	v, err := r.lib.Query(d, q)
	return float64(v), !r.failed(err)
}

// The board method reads the board with the given index.
func (r *reader) board(index int) {
	handle, err := r.lib.Device(index)
	if r.failed(err) {
		return
	}
	uuid, err := r.lib.UUID(handle)
	if r.failed(err) {
		return
	}
	if uuid == "" || r.current[uuid] != nil {
		// If the UUID is missing or not unique, points cannot be assigned to a board.
		r.stats.ValuesDropped++
		return
	}
	r.subject = uuid
	m := r.cached(uuid)
	// A text that cannot be read keeps its last value, so that the board does not become a new device
	// whose counts start again.
	board := Device{ID: uuid, Description: gpudata.Description{
		Vendor: signal.VendorNVIDIA, Driver: r.lib.Driver(),
		Model: m.device.Model, Name: m.device.Name, Serial: m.device.Serial,
	}}
	if model, err := r.lib.Name(handle); !r.failed(err) {
		board.Model = model
	}
	if minor, ok := r.query(handle, nvml.MinorNumber); ok {
		board.Name = "nvidia" + strconv.Itoa(int(minor))
	}
	// The serial number is not needed to identify the board, so a missing serial number is not an
	// error.
	if serial, err := r.lib.Serial(handle); err == nil {
		board.Serial = serial
	}
	m.describe(board)

	// If it is unknown whether a board has instances, the board must not be treated as
	// unpartitioned.
	mode, err := r.lib.Query(handle, nvml.MIGMode)
	if r.failed(err) && !absent(err) {
		m.migs = nil
		return
	}
	mig := mode == 1
	if mig != m.mig {
		m.mig, m.gpm.at = mig, time.Time{}
	}
	if r.monitors {
		supported, err := r.lib.GPMSupported(handle)
		r.gpm = !r.failedOptional(err) && supported
	}
	r.watchXIDs(handle, m)
	r.readLayout(handle, m, mig)
	r.readInstances(handle, m)
	r.xidSamples(m)
	if r.options.Devices {
		r.boardSamples(handle, m, mig)
		if !mig || r.found && len(r.instances) == 0 {
			r.memory(handle, m)
		}
	}
	if r.options.Processes {
		r.processSamples(handle, m, mig)
	}
	if r.lost || !r.found {
		m.migs = nil
	}
	if r.lost {
		m.gpm.free(r.lib)
		for i := range r.instances {
			r.instances[i].gpm.free(r.lib)
		}
	}
}

// The point method adds a sample of a device if the metric of the sample is enabled.
func (c *Collector) point(d *Device, s gpudata.Sample) { c.processPoint(d, 0, s) }

// processPoint adds a sample of a process on a device if the metric of the sample is enabled.
func (c *Collector) processPoint(d *Device, pid uint32, s gpudata.Sample) {
	if c.isEnabled(s.Metric) {
		c.points = append(c.points, Point{s, d, pid})
	}
}

// The sample method converts a value from NVML's unit to the unit of the metric, and adds a sample
// with the converted value.
func (r *reader) sample(m *signal.Metric, d *Device, attribute string, u catalogue.Unit, raw float64) {
	v, verdict := u.Value(raw)
	if verdict != catalogue.Valid {
		r.stats.ValuesDropped++
		return
	}
	if m.Unit == "1" {
		r.ratio(m, d, attribute, v)
		return
	}
	r.point(d, gpudata.Sample{Metric: m, Own: attribute, Value: v})
}

// The ratio method clamps a ratio to [0, 1] and adds a sample. Implausible ratios are dropped.
func (r *reader) ratio(m *signal.Metric, d *Device, attribute string, v float64) {
	v, clamped, verdict := catalogue.Clamp(v)
	if clamped {
		r.stats.RatiosClamped++
	}
	if verdict != catalogue.Valid {
		r.stats.ValuesDropped++
		return
	}
	r.point(d, gpudata.Sample{Metric: m, Own: attribute, Value: v})
}

// The memory method reads the memory usage of a board or an instance, and adds the samples.
func (r *reader) memory(handle nvml.Device, of *deviceCache) {
	if r.lost {
		return
	}
	m, err := r.lib.Memory(handle)
	if r.failed(err) {
		return
	}
	used, verdict := catalogue.Byte.Value(float64(m.Used))
	free, freeVerdict := catalogue.Byte.Value(float64(m.Free))
	if verdict != catalogue.Valid || freeVerdict != catalogue.Valid {
		r.stats.ValuesDropped++
		return
	}
	d := of.device
	r.sample(signal.HwGPUMemoryUsage, d, "", catalogue.Byte, used)
	r.sample(signal.HwGPUMemoryLimit, d, "", catalogue.Byte, float64(m.Total))
	if limit, verdict := catalogue.Byte.Value(float64(m.Total)); verdict == catalogue.Valid {
		of.limit = limit
	}
	if used+free > 0 {
		r.point(d, gpudata.Sample{Metric: signal.HwGPUMemoryUtilization, Value: used / (used + free)})
	}
}
