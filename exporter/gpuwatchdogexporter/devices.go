package gpuwatchdogexporter

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuwatchdogexporter/internal/decide"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
)

const (
	// maxDevices is the maximum number of devices. Points from additional devices are refused.
	maxDevices = 50_000
	// maxHolders is the maximum number of containers per device.
	maxHolders = 1_000
	// maxSpare caps the unused part of a budget, so that the sum of many unused parts cannot
	// overflow.
	maxSpare = 1 << 45
	// The contradicted constant replaces the value of a reading if two different values with the
	// same timestamp arrive. The decide package treats a negative value as impossible.
	contradicted = -1
	// A device is deleted if no data has arrived for forgetAfter times max_data_age.
	forgetAfter = 5
)

// These flags indicate which parts of a frame have arrived.
const (
	hasHeadroom = 1 << iota
	hasUsage
	hasLimit
	hasState
	complete = hasHeadroom | hasUsage | hasLimit | hasState
)

// A frame contains the readings of a device that have the same timestamp. The readings of the
// device's holders are not part of the frame.
type frame struct {
	decide.Sample
	has    int
	reason string // the reason for the attribution state
}

// The set method stores one value in the frame. If the frame already contains a different value for
// the same part, the set method keeps the first value and records a conflict.
func (f *frame) set(part int, field *int64, value int64) {
	if f.has&part != 0 {
		f.Conflict = f.Conflict || *field != value
		return
	}
	f.has |= part
	*field = value
}

// setState stores the current attribution state.
func (f *frame) setState(state decide.Attribution, reason string) {
	if f.has&hasState != 0 {
		f.Conflict = f.Conflict || f.Attribution != state
		return
	}
	f.has |= hasState
	f.Attribution, f.reason = state, reason
}

type holderState struct {
	usage, budget decide.Reading
	source        gpushare.BudgetSource // Source of the budget.
	// The sharedBudget field is the key of the shared budget that the budget belongs to, or empty.
	sharedBudget string
}

// deviceState contains the recent data of a device. The parts of a frame may arrive in several
// batches. The previous frame is therefore kept until the current frame is complete.
type deviceState struct {
	current, previous frame
	holders           map[gpudata.Holder]*holderState
	processes         processList
	// watched is true if gpu_k8s sends headroom or attribution states for the device. For a board
	// whose memory is divided into MIG instances, gpu_k8s sends neither headroom nor attribution
	// states.
	watched bool
}

// processList contains the number of processes that each pod has on a device, keyed by pod UID.
type processList struct {
	at   time.Time
	pods map[string]int
}

// add counts one process. All entries in a process list have the same sample time.
func (l *processList) add(uid string, at time.Time) outcome {
	switch {
	case uid == "":
		return ignored // a process that does not belong to a pod
	case at.Before(l.at):
		return old
	case at.After(l.at):
		*l = processList{at: at, pods: map[string]int{}}
	}
	if l.pods[uid] == 0 && len(l.pods) >= maxHolders {
		return refused
	}
	l.pods[uid]++
	return accepted
}

// energyCounter is the energy counter of a board. A board's energy counter increases as long as the
// board has power and the exporter reads the board.
type energyCounter struct {
	joules        float64
	at, changedAt time.Time // timestamps of the newest sample, and of the first sample with the current value
}

// boardOf returns the board of a MIG instance. If the argument is a board, boardOf returns the same
// board.
func boardOf(d decide.Device) decide.Device {
	d.ID, _, _ = strings.Cut(d.ID, "/")
	return d
}

// The frame method returns the device's frame with the given timestamp, or nil if the device
// already has newer frames.
func (d *deviceState) frame(at time.Time) *frame {
	switch {
	case at.Equal(d.current.At):
		return &d.current
	case at.After(d.current.At):
		if d.current.has == complete {
			d.previous = d.current
		}
		d.current = frame{Sample: decide.Sample{At: at}}
		return &d.current
	case at.Equal(d.previous.At):
		return &d.previous
	default:
		return nil
	}
}

// A collection contains the newest samples of all devices. The methods of a collection are safe for
// concurrent use.
type collection struct {
	maxAge time.Duration

	mu      sync.Mutex
	devices map[decide.Device]*deviceState
	energy  map[decide.Device]*energyCounter // keyed by board
}

func newCollection(maxAge time.Duration) *collection {
	return &collection{maxAge: maxAge, devices: map[decide.Device]*deviceState{}, energy: map[decide.Device]*energyCounter{}}
}

// deviceSample contains a device and its newest sample. The sample is nil if the device has no
// complete frame.
type deviceSample struct {
	deviceState decide.Device
	sample      *decide.Sample
	reason      string // the reason for the attribution state
}

// The samples method returns all watched devices, sorted by node and ID. Devices that have no
// recent data are deleted.
func (c *collection) samples(now time.Time) []deviceSample {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]deviceSample, 0, len(c.devices))
	spare := map[string]int64{}     // Unused memory, keyed by shared budget.
	annotated := map[string]int64{} // Sum of the budgets from annotations, keyed by pod UID.
	maps.DeleteFunc(c.energy, func(_ decide.Device, e *energyCounter) bool { return now.Sub(e.at) > forgetAfter*c.maxAge })
	for key, d := range c.devices {
		newest := d.current.At
		for k, h := range d.holders {
			if h.usage.At.After(newest) {
				newest = h.usage.At
			}
			if now.Sub(h.usage.At) > c.maxAge && now.Sub(h.budget.At) > c.maxAge {
				delete(d.holders, k)
			}
		}
		if now.Sub(newest) > forgetAfter*c.maxAge {
			delete(c.devices, key)
			continue
		}
		if !d.watched {
			continue
		}
		o := deviceSample{deviceState: key}
		if o.sample, o.reason = d.sample(); o.sample != nil && now.Sub(d.processes.at) <= c.maxAge {
			o.sample.Processes = maps.Clone(d.processes.pods)
		}
		if e := c.energy[boardOf(key)]; e != nil && o.sample != nil && now.Sub(e.at) <= c.maxAge {
			o.sample.Moved = e.changedAt
		}
		all = append(all, o)
		for k, h := range d.holders {
			spare[h.sharedBudget] += h.spare()
			if h.source == gpushare.BudgetAnnotation && h.budget.Bytes > 0 {
				annotated[k.UID] += min(h.budget.Bytes, maxSpare)
			}
		}
	}
	for _, o := range all {
		c.setSpare(o, spare)
		if o.sample != nil {
			o.sample.Annotated = annotated // all devices share this map
		}
	}
	slices.SortFunc(all, func(a, b deviceSample) int {
		return cmp.Or(cmp.Compare(a.deviceState.Node, b.deviceState.Node), cmp.Compare(a.deviceState.ID, b.deviceState.ID))
	})
	return all
}

// The spare method returns the unused part of a container's share of a shared budget. If the usage
// is unknown, the container's whole share counts as unused.
func (h *holderState) spare() int64 {
	if h.sharedBudget == "" || h.budget.Bytes <= 0 {
		return 0
	}
	return max(0, min(h.budget.Bytes, maxSpare)-max(0, h.usage.Bytes))
}

// setSpare sets the Spare map of the device's sample. For each pod on the device, Spare contains
// the unused part of the pod's shared budgets on other devices and in other pods.
func (c *collection) setSpare(o deviceSample, spareByBudget map[string]int64) {
	if o.sample == nil {
		return
	}
	type share struct{ uid, sharedBudget string }
	spare, counted := map[string]int64{}, map[share]bool{}
	for k, h := range c.devices[o.deviceState].holders {
		if h.sharedBudget == "" {
			continue
		}
		if s := (share{k.UID, h.sharedBudget}); !counted[s] {
			counted[s] = true
			spare[k.UID] += spareByBudget[h.sharedBudget]
		}
		spare[k.UID] -= h.spare()
	}
	o.sample.Spare = spare
}

func (d *deviceState) sample() (*decide.Sample, string) {
	f := &d.current
	if f.has != complete {
		f = &d.previous
	}
	if f.has != complete {
		return nil, ""
	}
	s := f.Sample
	for k, h := range d.holders {
		s.Holders = append(s.Holders, decide.Holder{Holder: k, Usage: h.usage, Budget: h.budget, Source: h.source})
	}
	return &s, f.reason
}

// The count method returns the number of watched devices.
func (c *collection) count() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := int64(0)
	for _, d := range c.devices {
		if d.watched {
			n++
		}
	}
	return n
}

// clear deletes all devices. After the clock has been set, the timestamps of earlier samples are
// meaningless.
func (c *collection) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.devices)
	clear(c.energy)
}
