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

// slowAfter is the duration of an instance's calls at which idle instances are no longer
// read every time.
const slowAfter = 40 * time.Millisecond

// migDevice is a MIG device of a board: a compute instance.
type migDevice struct {
	index  int
	handle nvml.Device // in this collection
	identity
}

// identity is the identity of a MIG device. It does not change as long as the device exists.
type identity struct {
	id      uint32 // of its GPU instance
	uuid    string
	named   bool // the name was read; it contains the profile
	profile string
}

// instance is a GPU instance of the current board. It has the identity of its first
// compute instance, without the UUID if it has several.
type instance struct {
	identity
	handle nvml.Device // of its first compute instance
	// listed is true if its process list is complete. processes is the number of its processes.
	listed    bool
	processes int
	// spared is true if the instance is not read in this collection. took is the duration of
	// its calls.
	spared bool
	took   time.Duration
	*memo
}

func (in *instance) idle() bool { return in.listed && in.processes == 0 }

// readLayout finds the board's instances and processes. In MIG mode it always lists the
// processes, because they show which instances are idle.
func (r *reader) readLayout(handle nvml.Device, m *memo, mig bool) {
	r.instances, r.processes, r.onBoard = r.instances[:0], r.processes[:0], -1
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
		r.spare(m)
		if !r.recalled || r.confirm() {
			return
		}
		m.migs = nil // the board was repartitioned
		for i := range r.instances {
			r.instances[i].gpm.at = time.Time{}
		}
	}
}

// findInstances finds the GPU instances of a board through its MIG devices, each of which is a
// compute instance. Indices have gaps. If the calls of instances are slow, MIG devices with the
// same indices are assumed to be unchanged; confirm detects if they are not.
func (r *reader) findInstances(handle nvml.Device, m *memo) {
	r.instances, r.migs = r.instances[:0], r.migs[:0]
	most, complete := r.query(handle, nvml.MaxMIGDevices)
	for i := range int(most) {
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
	r.recalled = complete && m.slow && m.migs != nil &&
		slices.EqualFunc(r.migs, m.migs, func(a, b migDevice) bool { return a.index == b.index })
	identified := r.migs[:0]
	for i, d := range r.migs {
		var took time.Duration
		if r.recalled {
			d.identity = m.migs[i].identity
		} else if !r.identify(d.handle, &d.identity, &took) {
			complete = false
			continue
		}
		identified = append(identified, d)
		if in := r.instance(d.id); in != nil {
			in.uuid = ""
			in.took += took
			continue
		}
		r.instances = append(r.instances, instance{identity: d.identity, handle: d.handle, took: took})
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
		in.memo = r.remember(d.ID + " " + in.uuid)
		if d.Profile = in.profile; !in.named {
			d.Profile = in.device.Profile
		}
		in.describe(d)
	}
}

// identify reads the identity of a MIG device and adds the duration to took. It
// returns false if the device does not return its identity.
func (r *reader) identify(handle nvml.Device, to *identity, took *time.Duration) bool {
	defer r.clock(took)()
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

// clock returns a function that adds the elapsed time to took.
func (r *reader) clock(took *time.Duration) func() {
	began := r.options.Now()
	return func() { *took += r.options.Now().Sub(began) }
}

// spare selects the instances to skip. On boards with slow calls it skips idle instances that
// were read before, except the one that was read longest ago. Each instance is thus read from
// time to time, and the receiver notices when calls become faster.
func (r *reader) spare(m *memo) {
	var next *instance
	for i := range r.instances {
		in := &r.instances[i]
		in.spared = m.slow && in.idle() && in.checked > 0
		if in.spared && (next == nil || in.checked < next.checked) {
			next = in
		}
	}
	if next != nil {
		next.spared = false
	}
}

// confirm reads the identities of the instances that are not skipped. It returns false if one
// has changed, or if a process is on an unknown instance. If an idle instance is replaced,
// confirm detects this after at most as many collections as the board has instances, because
// each collection reads the instance that was read longest ago.
func (r *reader) confirm() bool {
	for _, known := range r.migs {
		in := r.instance(known.id)
		if in.spared {
			continue
		}
		var now identity
		if !r.identify(known.handle, &now, &in.took) || now != known.identity {
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
func (r *reader) readInstances(board nvml.Device, m *memo) {
	var idle, slow bool
	for i := range r.instances {
		in := &r.instances[i]
		switch {
		case r.lost:
			return
		case in.spared:
			r.stats.InstancesSkipped++
			// The size of an instance never changes, so the cached value is still valid.
			if r.options.Devices && in.limit > 0 {
				r.point(in.device, gpudata.Sample{Metric: signal.HwGPUMemoryLimit, Value: in.limit})
			}
			continue
		}
		if r.options.Devices {
			done := r.clock(&in.took)
			r.memory(in.handle, in.memo)
			r.readGPM(board, in.memo, in.id, true)
			done()
		}
		in.checked = r.collections
		if in.idle() {
			idle, slow = true, slow || in.took >= slowAfter
		}
	}
	if idle {
		m.slow = slow
	}
}

// profile extracts the profile from a MIG device's name, which ends in "MIG 1g.10gb", or in
// "MIG 1c.3g.40gb" if the compute instance is a part of its GPU instance.
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
