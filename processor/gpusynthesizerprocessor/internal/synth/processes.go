package synth

import (
	"cmp"
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/exporters"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// This file handles exporters that list processes. The rows of these exporters often do not name a
// device, so the processes are added to frames without a device.

// processOf returns the process that a row describes. The result includes all identifiers of the
// process's device that are in the row.
func processOf(labels *catalogue.Row, uuid string) *gpudata.Unplaced {
	u := &gpudata.Unplaced{Process: gpudata.Process{PID: labels.Get(catalogue.RolePID)}}
	switch index := labels.Get(catalogue.RoleIndex); {
	case exporters.IsInstance(uuid):
		u.Named.MIGUUID = uuid
	case uuid != "":
		u.Named.Board = exporters.BoardID(uuid)
	case catalogue.IsUnsignedInteger(index):
		u.Named.Name = exporters.BoardName(index)
	}
	return u
}

// takeProcesses removes the rows of process exporters from the batch and returns them.
func (s *node) takeProcesses() (processes []observation) {
	s.rows = slices.DeleteFunc(s.rows, func(o observation) bool {
		if o.row.process != nil {
			processes = append(processes, o)
		}
		return o.row.process != nil
	})
	return processes
}

// listProcesses adds each process to the frame of its place and sample time.
func (s *node) listProcesses(rows []observation) {
	type key struct {
		frame         *gpudata.Frame
		exporter, pid string
		named         gpudata.NamedDevice
	}
	known := map[key]*gpudata.Unplaced{}
	for i := range rows {
		o := &rows[i]
		v, reason := s.value(o, nil)
		if reason != DropNone {
			s.stats.Dropped[reason]++
			continue
		}
		of := o.row.process
		k := key{s.frameAt(s.processPlace(o.row), o.time), cmp.Or(o.source.name(), o.row.of.Name), of.PID, of.Named}
		u := known[k]
		if u == nil {
			u = &gpudata.Unplaced{Process: gpudata.Process{PID: of.PID}, Exporter: k.exporter, Named: of.Named}
			known[k] = u
			k.frame.Unplaced = append(k.frame.Unplaced, u)
		}
		if s.holds(o) {
			u.Holder = o.row.holder
		}
		for _, of := range o.row.of.AllSignals() {
			if !slices.Contains(s.disabled, of.Metric) {
				u.Samples.AddHighest(gpudata.Sample{Metric: of.Metric, Value: v})
			}
		}
	}
}

// processPlace returns the place of a process. If the row does not name its node, findNodes has
// already assigned the row to a node. In that case, processPlace returns the only place on this
// node that has the named board. If there is no such place, processPlace returns the only place on
// the node that has any boards or, if there are several such places, the row's own place.
func (s *node) processPlace(r *Row) Place {
	if r.place.Node != "" {
		return r.place
	}
	if b := s.exposed(r.process.Named.Board, ""); b != nil {
		return b.Place
	}
	var only *Device
	for _, boards := range s.boards {
		for _, b := range boards {
			if only != nil && b.Place != only.Place {
				return r.place
			}
			only = b
		}
	}
	if only == nil {
		return r.place
	}
	return only.Place
}

// frameAt returns the frame for a place and a sample time. If the frame does not exist, frameAt
// creates it.
func (s *node) frameAt(p Place, at int64) *gpudata.Frame {
	place := s.place(p)
	for _, f := range s.frames {
		if f.Time == at && f.Place == place && f.Host == p.Host {
			return f
		}
	}
	f := &gpudata.Frame{Place: place, Host: p.Host, Time: at}
	i, _ := slices.BinarySearchFunc(s.frames, f, func(a, b *gpudata.Frame) int { return cmp.Compare(a.Time, b.Time) })
	s.frames = slices.Insert(s.frames, i, f)
	return f
}
