// Package processlists keeps the newest process lists of devices. Processes and devices can be
// sampled at different times and can arrive in different batches. The power, budget, and usage
// sections read the process lists from the frames.
package processlists

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/internal/stage"
)

const (
	// retention is how long the process lists of a device are kept after the last list arrived. As
	// long as the process lists are kept, the budget section reports the device as stale instead of
	// missing.
	retention = time.Hour
	// sweepEvery is the minimum time between two deletions of expired process lists.
	sweepEvery = time.Minute
	// kept is the number of process lists that are kept for each device between batches. The
	// second-newest list is used for samples that arrive late.
	kept = 2
	// If a list's time is more than maxLag before the time of the newest stored list, and the
	// newest stored list arrived more than maxLag ago, the source's clock was set back.
	maxLag = 2 * time.Minute
)

// Lists stores the process lists of all devices on all nodes. Lists is safe for concurrent use.
type Lists struct {
	nodes *stage.Nodes[nodeLists]
	limit *stage.Limit // limit applies to the number of processes plus the number of devices.
}

// New returns an empty Lists. The limit parameter applies to the total number of processes and
// devices.
func New(limit int) *Lists {
	return &Lists{
		nodes: stage.NewNodes(math.MaxInt, func(string) *nodeLists { return &nodeLists{devices: map[gpudata.Device]*deviceLists{}} }),
		limit: stage.NewLimit(limit),
	}
}

// nodeLists contains the process lists of all devices on one node.
type nodeLists struct {
	devices map[gpudata.Device]*deviceLists
}

// deviceLists contains the process lists of one device, newest first.
type deviceLists struct {
	lists []*gpudata.ProcessList
	seen  time.Time // seen is when the newest list arrived, according to the local clock.
	// gap is the time between the two newest lists. lastCounted is the time of the newest list whose
	// processes were counted.
	gap, lastCounted int64
	// reserved is how much of the limit the device uses: 1 plus the length of the device's longest
	// stored list. Therefore, a list is refused only if it is longer than the stored lists.
	reserved int
}

// Section returns a section that stores the process lists in each batch and sets the ProcessList of
// each device. After each batch, the section passes the number of processes in refused lists to the
// refused function, even if that number is 0.
func (l *Lists) Section(refused func(ctx context.Context, now time.Time, processes int64)) pdatagpu.Section {
	return pdatagpu.Section{
		Wants: func(m *signal.Metric) bool {
			return m == signal.GPUProcessCount || m == signal.ProcessGPUMemoryUsage || m == signal.ProcessGPUUtilization
		},
		Process: func(ctx context.Context, b *stage.Batch) {
			now := time.Now()
			refused(ctx, now, l.update(b.Frames, now))
		},
	}
}

// update stores the process lists in the frames and sets the ProcessList of each device. The result
// is the number of processes in refused lists.
func (l *Lists) update(frames []*gpudata.Frame, now time.Time) (refused int64) {
	byPlace := map[gpudata.Place][]*gpudata.Frame{}
	for _, f := range frames {
		byPlace[f.Place] = append(byPlace[f.Place], f)
	}
	for place, of := range byPlace {
		l.nodes.With(place, now, func(n *nodeLists) {
			// Store all lists before using any list, because a list can also apply to an earlier
			// frame in the same batch.
			for _, f := range of {
				refused += l.store(n, f, now)
			}
			for _, f := range of {
				for _, d := range f.Devices {
					// ProcessList is already set if an earlier stage has set it, or if the frame's own
					// list was not stored.
					if d.ProcessList == nil {
						d.ProcessList = n.devices[d.Device].closest(f.Time)
					}
				}
			}
			for _, f := range of {
				for _, d := range f.Devices {
					n.devices[d.Device].trim(l.limit)
				}
			}
		})
	}
	l.sweep(now)
	return refused
}

// store stores the process lists in a frame and returns the number of processes in refused lists. A
// list that cannot be stored still applies to the frame that contains it, so store sets the
// device's ProcessList to that list.
func (l *Lists) store(n *nodeLists, f *gpudata.Frame, now time.Time) (refused int64) {
	for _, d := range f.Devices {
		if d.ProcessList != nil {
			continue // An earlier stage has stored the list.
		}
		list := d.NewProcessList(f.Time)
		if list == nil {
			continue
		}
		if gpudata.Ahead(f.Time, now) {
			d.ProcessList = list
			continue
		}
		of := n.devices[d.Device]
		if of == nil {
			of = &deviceLists{}
		}
		if !of.add(list, now, l.limit) {
			d.ProcessList = list
			refused += int64(max(1, len(list.Processes)))
			continue
		}
		n.devices[d.Device] = of
	}
	return refused
}

// add adds a process list. If the list is longer than the stored lists and the limit is reached,
// add returns false.
func (d *deviceLists) add(l *gpudata.ProcessList, now time.Time, limit *stage.Limit) bool {
	if len(d.lists) > 0 && d.lists[0].Time-l.Time > int64(maxLag) && now.Sub(d.seen) > maxLag {
		d.lists, d.gap, d.lastCounted = nil, 0, 0 // The source's clock was set back.
	}
	i := 0
	for i < len(d.lists) && d.lists[i].Time > l.Time {
		i++
	}
	merges := i < len(d.lists) && d.lists[i].Time == l.Time
	gap := d.gap
	switch {
	case merges:
		l = merge(d.lists[i], l)
	case i < len(d.lists):
		// If two sources alternate, every other gap is short. Therefore, the longer of the last two
		// gaps is used.
		gap = l.Time - d.lists[i].Time
		l.Interval = max(gap, d.gap)
	}
	if d.lastCounted <= l.Time {
		l.LastCounted = max(l.LastCounted, d.lastCounted)
	}
	if grown := 1 + len(l.Processes) - d.reserved; grown > 0 {
		if !limit.TakeAll(grown) {
			return false
		}
		d.reserved += grown
	}
	if i == 0 {
		d.seen, d.gap = now, gap
	}
	d.lastCounted = max(d.lastCounted, l.LastCounted)
	if merges {
		d.lists[i] = l
	} else {
		d.lists = slices.Insert(d.lists, i, l)
	}
	return true
}

// merge combines two lists that have the same time, because one list can arrive in several batches.
func merge(a, b *gpudata.ProcessList) *gpudata.ProcessList {
	merged := &gpudata.ProcessList{
		Time: a.Time, Interval: a.Interval, LastCounted: max(a.LastCounted, b.LastCounted),
		Counted: a.Counted || b.Counted, Count: max(a.Count, b.Count), Processes: slices.Clone(a.Processes),
	}
	index := make(map[string]int, len(a.Processes))
	for i := range a.Processes {
		index[a.Processes[i].PID] = i
	}
	for _, p := range b.Processes {
		i, exists := index[p.PID]
		if !exists {
			merged.Processes = append(merged.Processes, p)
			continue
		}
		known := &merged.Processes[i]
		if known.Holder.IsZero() && (!p.Holder.IsZero() || known.ContainerID == "") {
			known.Holder, known.ContainerID = p.Holder, p.ContainerID
		}
		known.Utilization = knownValue(known.Utilization, p.Utilization)
		known.Memory = knownValue(known.Memory, p.Memory)
	}
	return merged
}

// knownValue returns the higher of the two values. If only one of the values is known, knownValue
// returns that value.
func knownValue(a, b float64) float64 {
	if math.IsNaN(a) || b > a {
		return b
	}
	return a
}

// closest returns the process list whose time is closest to the given sample time, or nil if there
// is no list. If two lists are equally close, closest returns the older list.
func (d *deviceLists) closest(at int64) (found *gpudata.ProcessList) {
	if d == nil {
		return nil
	}
	distance := func(l *gpudata.ProcessList) int64 { return max(l.Time-at, at-l.Time) }
	for _, l := range d.lists {
		if found == nil || distance(l) <= distance(found) {
			found = l
		}
	}
	return found
}

// trim deletes the process lists that are no longer needed after a batch has been processed.
func (d *deviceLists) trim(limit *stage.Limit) {
	if d == nil {
		return
	}
	if len(d.lists) > kept {
		d.lists = slices.Delete(d.lists, kept, len(d.lists))
	}
	longest := 0
	for _, l := range d.lists {
		longest = max(longest, len(l.Processes))
	}
	limit.Free(d.reserved - 1 - longest)
	d.reserved = 1 + longest
}

// sweep deletes the devices for which no list has arrived for longer than retention.
func (l *Lists) sweep(now time.Time) {
	l.nodes.Sweep(now, sweepEvery, func(_ string, n *nodeLists, _ time.Time) (gone bool) {
		for id, d := range n.devices {
			if now.Sub(d.seen) > retention {
				l.limit.Free(d.reserved)
				delete(n.devices, id)
			}
		}
		return len(n.devices) == 0
	})
}
