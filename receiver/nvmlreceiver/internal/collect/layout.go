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

// slowAfter is the maximum duration of the calls for an instance. If the calls take longer, idle
// instances are not read in every collection.
const slowAfter = 40 * time.Millisecond

// migDevice is a MIG device of a board, which is a compute instance.
type migDevice struct {
	index  int
	handle nvml.Device // valid only in this collection
	identity
}

// identity is the identity of a MIG device. It does not change as long as the device exists.
type identity struct {
	id      uint32 // the ID of the GPU instance of the MIG device
	uuid    string
	named   bool // whether the name was read; the name contains the profile
	profile string
}

// instance is a GPU instance of the current board. It has the identity of its first compute
// instance, but no UUID if there are several compute instances.
type instance struct {
	identity
	handle nvml.Device // the handle of the first compute instance
	// listed is true if its process list is complete. processes is the number of its processes.
	listed    bool
	processes int
	// skipped is true if the instance is not read in this collection. elapsed is the duration of
	// the calls for the instance.
	skipped bool
	elapsed time.Duration
	*deviceCache
}

func (in *instance) idle() bool { return in.listed && in.processes == 0 }

// readLayout finds the instances and processes of a board. In MIG mode, it always lists the
// processes, because they show which instances are idle.
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
			r.instances[i].gpm.at = time.Time{}
		}
	}
}

// findInstances finds the GPU instances of a board through the board's MIG devices, which are
// compute instances. The indexes of MIG devices can have gaps. If the calls for instances are slow,
// MIG devices with the same indexes are assumed to be unchanged. The method unchanged verifies this
// assumption.
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
		in.deviceCache = r.cached(d.ID + " " + in.uuid)
		if d.Profile = in.profile; !in.named {
			d.Profile = in.device.Profile
		}
		in.describe(d)
	}
}

// identify reads the identity of a MIG device and adds the duration of the calls to elapsed. It
// returns false if the device does not return its identity.
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

// clock returns a function that adds the time since the call of clock to elapsed.
func (r *reader) clock(elapsed *time.Duration) func() {
	started := r.options.Now()
	return func() { *elapsed += r.options.Now().Sub(started) }
}

// skipIdle selects the instances to skip. On boards with slow calls, it skips all idle instances
// that have been read before, except for the instance that was read longest ago. Therefore, each
// instance is read from time to time, and the receiver detects when the calls become faster.
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

// unchanged reads the identities of the instances that are not skipped. It returns false if an
// identity has changed or if a process is on an unknown instance. Each collection reads the
// instance that was read longest ago. Therefore, with n instances, unchanged detects within n
// collections that an idle instance was replaced.
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

// instance returns the GPU instance with the given id, or nil if it is unknown.
func (r *reader) instance(id uint32) *instance {
	if i := slices.IndexFunc(r.instances, func(in instance) bool { return in.id == id }); i >= 0 {
		return &r.instances[i]
	}
	return nil
}

func instanceOf(board *Device, id uint32) Device {
	text := strconv.FormatUint(uint64(id), 10)
	return Device{ID: dcgm.InstanceID(board.ID, text), Description: gpudata.Description{
		Parent: board.ID, Name: board.Name, Model: board.Model, Vendor: board.Vendor, Driver: board.Driver, Instance: text,
	}}
}

// readInstances reads the instances of a board.
func (r *reader) readInstances(board nvml.Device, m *deviceCache) {
	var idle, slow bool
	for i := range r.instances {
		in := &r.instances[i]
		switch {
		case r.lost:
			return
		case in.skipped:
			r.stats.InstancesSkipped++
			// The size of an instance never changes, so the cached value is still valid.
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

// profile extracts the profile from the name of a MIG device. The name ends in a text such as "MIG
// 1g.10gb". If the compute instance is only a part of its GPU instance, the name ends in a text
// such as "MIG 1c.3g.40gb".
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
