package collect

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/dcgm"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver/internal/nvml"
)

// slowAfter is the total duration at which the calls for an instance count as slow. On boards with
// slow calls, idle instances are not read in every collection.
const slowAfter = 40 * time.Millisecond

// migDevice is a MIG device of a board. Each MIG device is a compute instance.
type migDevice struct {
	index  int
	handle nvml.Device // valid only during the current collection
	identity
}

// identity identifies a MIG device. The identity does not change during the lifetime of the device.
type identity struct {
	id      uint32 // the ID of the GPU instance to which the MIG device belongs
	uuid    string
	named   bool // whether the name, which contains the profile, was read
	profile string
}

// The instance type is a GPU instance of the current board. The identity is that of the first
// compute instance. If the GPU instance has several compute instances, the UUID is empty.
type instance struct {
	identity
	handle nvml.Device // The handle of the first compute instance.
	// The listed field is true if the process list of the instance is complete. The processes field
	// is the number of processes on the instance.
	listed    bool
	processes int
	// The skipped field is true if the current collection does not read the instance. The elapsed
	// field is the total duration of the calls for the instance.
	skipped bool
	elapsed time.Duration
	*deviceCache
}

func (in *instance) idle() bool { return in.listed && in.processes == 0 }

// readLayout finds the instances and processes of a board. In MIG mode, readLayout always lists
// processes, because the processes show which instances are idle.
func (r *reader) readLayout(handle nvml.Device, m *deviceCache, mig bool) {
	r.instances, r.processes, r.boardProcesses = r.instances[:0], r.processes[:0], -1
	if !mig {
		r.found, m.migs = true, nil
		if r.options.Processes {
			r.listProcesses(handle, false)
		}
		return
	}
	for {
		r.findInstances(handle, m)
		r.listProcesses(handle, true)
		r.skipIdle(m)
		if !r.fromCache || r.unchanged() {
			return
		}
		m.migs = nil // the board has been repartitioned
		for i := range r.instances {
			in := &r.instances[i]
			in.gpm.at = time.Time{}
			delete(r.current, instanceKey(in.device.ID, in.uuid))
		}
	}
}

// findInstances finds the GPU instances of a board through the board's MIG devices, which are
// compute instances. The indexes of MIG devices may have gaps. If calls for instances are slow and
// the indexes have not changed, findInstances assumes that the MIG devices have not changed either.
// The unchanged method verifies this assumption.
func (r *reader) findInstances(handle nvml.Device, m *deviceCache) {
	r.instances, r.migs = r.instances[:0], r.migs[:0]
	maxDevices, complete := r.query(handle, nvml.MaxMIGDevices)
	for i := range int(maxDevices) {
		if r.lost {
			break
		}
		device, err := r.lib.MIGDevice(handle, i)
		if r.failed(err) {
			complete = complete && absent(err)
			continue
		}
		r.migs = append(r.migs, migDevice{index: i, handle: device})
	}
	r.fromCache = complete && m.slow && m.migs != nil &&
		slices.EqualFunc(r.migs, m.migs, func(a, b migDevice) bool { return a.index == b.index })
	identified := r.migs[:0]
	for i, d := range r.migs {
		var elapsed time.Duration
		if r.fromCache {
			d.identity = m.migs[i].identity
		} else if !r.identify(d.handle, &d.identity, &elapsed) {
			complete = false
			continue
		}
		identified = append(identified, d)
		if in := r.instance(d.id); in != nil {
			in.uuid = ""
			in.elapsed += elapsed
			continue
		}
		r.instances = append(r.instances, instance{identity: d.identity, handle: d.handle, elapsed: elapsed})
	}
	r.migs = identified
	r.found = complete && !r.lost
	if r.found {
		m.migs = append(m.migs[:0], r.migs...)
	}
	for i := range r.instances {
		in := &r.instances[i]
		d := instanceOf(m.device, in.id)
		d.MIGUUID = in.uuid
		in.deviceCache = r.cached(instanceKey(d.ID, in.uuid))
		if d.Profile = in.profile; !in.named {
			d.Profile = in.device.Profile
		}
		in.describe(d)
	}
}

// identify reads the identity of a MIG device and adds the duration of the calls to elapsed. If the
// identity cannot be read, identify returns false.
func (r *reader) identify(handle nvml.Device, to *identity, elapsed *time.Duration) bool {
	defer r.clock(elapsed)()
	id, ok := r.query(handle, nvml.GPUInstanceID)
	if !ok {
		return false
	}
	uuid, err := r.lib.UUID(handle)
	if r.failed(err) {
		return false
	}
	*to = identity{id: uint32(id), uuid: uuid}
	if name, err := r.lib.Name(handle); !r.failed(err) {
		to.named, to.profile = true, profile(name)
	}
	return true
}

// clock starts a measurement. The returned function ends the measurement and adds the measured time
// to elapsed.
func (r *reader) clock(elapsed *time.Duration) func() {
	started := r.options.Now()
	return func() { *elapsed += r.options.Now().Sub(started) }
}

// skipIdle selects the instances to skip in this collection. On boards with slow calls, all idle
// instances that have been read before are skipped, except for the least recently read one.
// Therefore, every instance is read occasionally, and the receiver notices when calls become
// faster.
func (r *reader) skipIdle(m *deviceCache) {
	var next *instance
	for i := range r.instances {
		in := &r.instances[i]
		in.skipped = m.slow && in.idle() && in.lastRead > 0
		if in.skipped && (next == nil || in.lastRead < next.lastRead) {
			next = in
		}
	}
	if next != nil {
		next.skipped = false
	}
}

// The unchanged method reads the identities of the instances that are not skipped. If an identity
// has changed, or if a process is on an unknown instance, the method returns false. Each collection
// reads the least recently read instance. Therefore, on a board with n instances, it takes at most
// n collections to detect that an idle instance was replaced.
func (r *reader) unchanged() bool {
	for _, known := range r.migs {
		in := r.instance(known.id)
		if in.skipped {
			continue
		}
		var now identity
		if !r.identify(known.handle, &now, &in.elapsed) || now != known.identity {
			return false
		}
	}
	return !slices.ContainsFunc(r.processes, func(p nvml.Process) bool { return r.instance(p.GPUInstance) == nil })
}

// The instance method returns the GPU instance with the given ID, or nil if the instance is
// unknown.
func (r *reader) instance(id uint32) *instance {
	if i := slices.IndexFunc(r.instances, func(in instance) bool { return in.id == id }); i >= 0 {
		return &r.instances[i]
	}
	return nil
}

// instanceKey returns the key of the cached state of an instance.
func instanceKey(id, uuid string) string { return id + " " + uuid }

func instanceOf(board *Device, id uint32) Device {
	text := strconv.FormatUint(uint64(id), 10)
	return Device{ID: dcgm.InstanceID(board.ID, text), Description: gpudata.Description{
		Parent: board.ID, Name: board.Name, Model: board.Model, Vendor: board.Vendor, Driver: board.Driver, Instance: text,
	}}
}

// readInstances reads the values of the instances that are not skipped.
func (r *reader) readInstances(board nvml.Device, m *deviceCache) {
	var idle, slow bool
	for i := range r.instances {
		in := &r.instances[i]
		switch {
		case r.lost:
			return
		case in.skipped:
			r.stats.InstancesSkipped++
			// The memory size of an instance never changes, so the cached size is still valid.
			if r.options.Devices && in.limit > 0 {
				r.point(in.device, gpudata.Sample{Metric: signal.HwGPUMemoryLimit, Value: in.limit})
			}
			continue
		}
		if r.options.Devices {
			done := r.clock(&in.elapsed)
			r.memory(in.handle, in.deviceCache)
			r.readGPM(board, in.deviceCache, in.id, true)
			done()
		}
		in.lastRead = r.collections
		if in.idle() {
			idle, slow = true, slow || in.elapsed >= slowAfter
		}
	}
	if idle {
		m.slow = slow
	}
}

// The profile function extracts the profile from the name of a MIG device. The name ends in "MIG "
// followed by the profile, as in "MIG 1g.10gb". If the compute instance is only a part of its GPU
// instance, the number of compute slices precedes the profile, as in "MIG 1c.3g.40gb".
func profile(name string) string {
	_, text, _ := strings.Cut(name, "MIG ")
	if compute, rest, ok := strings.Cut(text, "c."); ok && len(compute) == 1 {
		text = rest
	}
	if dcgm.ProfileSlices(text) == 0 {
		return ""
	}
	return text
}
