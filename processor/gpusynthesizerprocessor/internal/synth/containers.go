package synth

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/exporters"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// This file handles container-level exporters. The rows of a container-level exporter describe
// containers. The devices on which the containers run are exposed by other exporters.

// aboveMemory is the highest accepted ratio of a container's memory usage to the memory size of the
// board. The margin above 1 allows for rounding.
const aboveMemory = 1.05

// joinContainers finds the device of each row from a container-level exporter. Rows that measure a
// whole device are dropped if another source also measures that device.
func (s *node) joinContainers() {
	for i := range s.rows {
		if r := s.rows[i].row; r.of.OfContainers {
			s.noteMIG(r)
		}
	}
	s.rows = slices.DeleteFunc(s.rows, func(o observation) bool {
		r := o.row
		if !r.of.OfContainers {
			return false
		}
		r.device = s.containerDevice(r)
		switch {
		case r.device == nil:
			s.stats.Dropped[DropDeviceLimit]++
		case o.field.Process == nil && len(o.field.Provides) > 0 && s.providedByOtherSource(r.device, o.time):
			s.stats.Dropped[DropSecondSource]++
		default:
			return false
		}
		return true
	})
}

// migDevice identifies a MIG device by its node and the UUID that the driver assigned.
type migDevice struct{ node, uuid string }

// migInstance identifies a MIG instance by its board and its GPU instance ID.
type migInstance struct {
	board, instance string
	arrived         time.Duration // arrival time of the last row that named the instance
}

// noteMIG records the instance of a MIG device if the row names both the device and the instance.
// Other rows of containers may name only the MIG device, whereas the board's exporter names the
// instance.
func (s *node) noteMIG(r *Row) {
	if r.migUUID == "" || r.instance == "" {
		return
	}
	key := migDevice{r.place.Node, r.migUUID}
	if _, known := s.migs[key]; known || s.migged.Take() {
		s.migs[key] = migInstance{r.is.Board, r.instance, s.arrived}
	}
}

// forgetMIGs removes MIG devices that no row has named for longer than idleLimit.
func (s *node) forgetMIGs() {
	before := len(s.migs)
	maps.DeleteFunc(s.migs, func(_ migDevice, i migInstance) bool { return s.arrived-i.arrived > idleLimit })
	s.migged.Free(before - len(s.migs))
}

// containerDevice returns the device that a container's row describes. If another exporter exposes
// the board, the device is at the place that the other exporter reports. Some tools remove the
// prefix from NVIDIA's IDs. Therefore, if no exporter exposes the ID, containerDevice adds the
// prefix and looks the ID up again. If another exporter exposes the device, the device counts only
// once toward the device limit.
func (s *node) containerDevice(r *Row) *Device {
	id, instance := r.is.Board, ""
	if i, known := s.migs[migDevice{r.place.Node, cmp.Or(r.migUUID, id)}]; known {
		id, instance = i.board, i.instance
	}
	alone := deviceKey{r.of, r.place, partID(id, instance), ""} // the key if no other exporter exposes the board
	key, exposed := alone, (*Device)(nil)
	for _, known := range []string{id, exporters.BoardID(id)} {
		if b := s.exposed(known, r.place.Node); b != nil {
			key.place, key.board = b.Place, partID(b.ID, instance)
			exposed = s.devices[deviceKey{b.of, b.Place, b.ID, instance}]
			break
		}
	}
	d := s.devices[key]
	if exposed != nil {
		s.uncount(d)
		s.uncount(s.devices[alone])
	} else if (d == nil || !d.counted) && !s.Synthesizer.devices.Take() {
		return nil
	}
	if d == nil {
		d = &Device{ID: key.board, of: r.of, Place: key.place, as: gpudata.NewDevice(s.place(key.place), key.board)}
		s.add(key, d)
	}
	d.counted = exposed == nil
	return d
}

// partID returns the hw.id of a board, or of a MIG instance of the board if the instance is not
// empty.
func partID(board, instance string) string {
	if instance == "" {
		return board
	}
	return exporters.InstanceID(exporters.BoardID(board), instance)
}

// The exposed method returns the board that has the given ID and that an exporter exposes on the
// given node. If a container-level exporter does not name its node, the node parameter is empty,
// and the row has already been assigned to the only node that has the board. In that case, the
// method returns the board if exactly one board has the ID.
func (s *node) exposed(id, node string) *Device {
	boards := s.boards[id]
	for _, b := range boards {
		if b.Place.Node == node {
			return b
		}
	}
	if node == "" && len(boards) == 1 {
		return boards[0]
	}
	return nil
}

// The providedByOtherSource method reports whether another source provides samples for a device.
func (s *node) providedByOtherSource(d *Device, at int64) bool {
	for _, b := range s.boards[d.ID] {
		isNew := b.last == 0
		if b.Place.Node == d.Place.Node && (isNew || at-b.last <= unknownInterval) {
			return true
		}
	}
	c := s.claims[boardKey{d.Place.Node, d.ID}]
	return c != nil && slices.ContainsFunc(c.list, func(x claim) bool { return x.isPresent(&Source{}, at, s.arrived) })
}

// containersLast is a comparison function that sorts devices of container-level exporters after all
// other devices.
func containersLast(a, b *accumulator) int {
	switch {
	case a.device.of.OfContainers == b.device.of.OfContainers:
		return 0
	case a.device.of.OfContainers:
		return 1
	}
	return -1
}

// partOf returns which part of a container's usage the row measures.
func partOf(r *Row) string {
	if r.of.OfContainers {
		return r.part
	}
	return ""
}

// The note method stores values of the board. The agrees method compares the values of containers
// with the stored values.
func (c *claims) note(m *signal.Metric, own string, at int64, v float64) {
	switch {
	case m == signal.HwGPUMemoryLimit:
		c.memory = v
	case m == signal.HwGPUUtilization && own == signal.TaskGeneral && v == 0:
		c.idle = at
	case m == signal.HwGPUUtilization && own == signal.TaskGeneral:
		c.busy = at
	}
}

// budgetSource is the attribute that marks budgets from an exporter.
var budgetSource = []gpudata.Attr{{Key: signal.BudgetSource, Value: signal.BudgetSourceExporter}}

// The containers method adds the usage and the limits of the holder with the given index.
func (e *emitter) containers(holder int, named *gpudata.User) {
	u := e.to.SameUser(named.Holder)
	// A row that names a pod but no container shows what a scheduler reserved for the pod.
	if !u.Holds && named.Holder.Container != "" {
		u.Holds, u.Source = named.Holds, named.Source
	}
	sharing := []gpudata.Attr{{Key: signal.SharingStrategy, Value: e.a.sharing()}}
	for _, s := range e.a.device.of.AllSignals() {
		if s.By != catalogue.ByProcesses || slices.Contains(e.s.disabled, s.Metric) {
			continue
		}
		v, ok := e.a.usageOf(s, holder)
		if !ok {
			continue
		}
		more := sharing
		switch {
		case e.providedByExporter(s.Metric):
			e.s.stats.Dropped[DropSecondSource]++
			continue
		case s.Metric == signal.K8sContainerGPUMemoryBudget:
			more = append(slices.Clone(sharing), budgetSource...)
		case !e.agrees(s.Metric, v):
			e.s.stats.Dropped[DropAbsurd]++
			continue
		case s.Metric.Unit == "1":
			if v, ok = e.ratio(v); !ok {
				continue
			}
		}
		u.Samples.Add(gpudata.Sample{Metric: s.Metric, Value: v, More: more})
	}
}

// usageOf returns a holder's value from the first field of the signal that has a value for the
// holder. If the field has several parts, usageOf returns the sum of the parts or, for ratios, the
// highest value.
func (a *accumulator) usageOf(s *catalogue.Signal, holder int) (v float64, ok bool) {
	for _, set := range s.Sets {
		for _, u := range a.usage {
			switch {
			case u.holder != holder || u.field.ID != set[0] || u.value == 0 && u.field.ZeroIsNone:
				continue
			case s.Metric.Unit == "1":
				v = max(v, u.value)
			default:
				v += u.value
			}
			ok = true
		}
		if ok {
			return v, true
		}
	}
	return 0, false
}

// noteProcess records that an exporter of the board provided a container metric at the given sample
// time.
func (c *claims) noteProcess(m *signal.Metric, at int64) {
	if c == nil {
		return
	}
	if c.byProcess == nil {
		c.byProcess = map[*signal.Metric]int64{}
	}
	c.byProcess[m] = at
}

// providedByExporter reports whether the board's own exporter provides a container metric.
func (e *emitter) providedByExporter(m *signal.Metric) bool {
	c := e.s.claims[boardKey{e.a.device.Place.Node, e.a.device.ID}]
	return c != nil && c.byProcess[m] != 0 && e.time-c.byProcess[m] <= unknownInterval
}

// agrees reports whether a container's value is consistent with the board's samples from another
// exporter. HAMi's monitor has reported a memory usage of 2^64 bytes (HAMi#1181). HAMi's monitor
// also keeps reporting the last utilization of a container after the container becomes idle
// (HAMi#1565).
func (e *emitter) agrees(m *signal.Metric, v float64) bool {
	c := e.s.claims[boardKey{e.a.device.Place.Node, e.a.device.ID}]
	switch {
	case c == nil:
		return true
	case m == signal.K8sContainerGPUMemoryUsage:
		return c.memory == 0 || v <= aboveMemory*c.memory
	case m == signal.K8sContainerGPUUtilization:
		return v == 0 || c.idle <= c.busy || e.time-c.idle > unknownInterval
	}
	return true
}
