package dcgmsim

import (
	"fmt"
	"time"
)

// Device identifies a GPU or a MIG instance in the simulation.
type Device struct {
	// Node is the index of the node. GPU is the index of the GPU on its node.
	Node, GPU int
	// GPUInstance is the GPU_I_ID of a MIG instance, or 0 for the GPU itself.
	GPUInstance int
	// Scenario is the name of the GPU's scenario.
	Scenario string
	// Vendor is the value of OpenTelemetry's hw.vendor, which is NVIDIA, AMD, Google, or AWS.
	Vendor string
	// Host is the node's name in the exposed labels.
	Host string
	// UUID is the GPU's UUID, even for an instance. For a Google chip, UUID is the accelerator_id
	// in rows that contain the chip's number within the node.
	UUID string
	// Pods contains the pods that hold the device, in the format "namespace/pod/container" and in
	// the order of their rows.
	Pods []string
	// Jobs contains the IDs of the batch jobs that hold the device, in the order of their rows.
	Jobs []string
}

// Devices returns the devices of a node that have rows: its GPUs, or their MIG instances.
func (s *Simulation) Devices(node int) []Device {
	var out []Device
	for _, e := range s.nodes[node].entities {
		d := Device{
			Node: node, GPU: e.gpu.index, GPUInstance: e.instanceID,
			Scenario: e.gpu.scenario, Vendor: string(s.nodes[node].vendor), Host: s.nodes[node].name, UUID: e.gpu.uuid,
		}
		for _, p := range e.holders {
			if p.job != "" {
				d.Jobs = append(d.Jobs, p.job)
				continue
			}
			d.Pods = append(d.Pods, p.namespace+"/"+p.name+"/"+p.container)
		}
		out = append(out, d)
	}
	return out
}

// entity returns the entity of a device. If the simulation does not contain the device, the test is
// wrong, so entity panics.
func (s *Simulation) entity(d Device) *entity {
	for _, e := range s.nodes[d.Node].entities {
		if e.gpu.index == d.GPU && e.instanceID == d.GPUInstance {
			return e
		}
	}
	panic(fmt.Sprintf("dcgmsim: no device %+v", d))
}

// Active reports whether the reason's bit is set at time t, measured from the start.
func (s *Simulation) Active(d Device, r Reason, t time.Duration) bool {
	e := s.entity(d)
	gate := e.gpu.story.reasons[r]
	return gate.at(e.gpu.phase + t)
}

// ThrottledTime returns how long the reason was active in the interval [from, to). Both ends of the
// interval are times since the start. The result divided by the length of the interval is the
// throttled fraction that a window should compute from the CLOCKS_EVENT_REASON_*_NS counters. The
// result is exact to the nanosecond and does not depend on restarts or on the collect interval.
func (s *Simulation) ThrottledTime(d Device, r Reason, from, to time.Duration) time.Duration {
	g := s.entity(d).gpu
	return g.timeOn(g.story.reasons[r], from, to)
}

// ViolationTime returns how long the violation lasted in the interval [from, to). Both ends of the
// interval are times since the start. The *_VIOLATION counters measure the time returned by
// ViolationTime.
func (s *Simulation) ViolationTime(d Device, v Violation, from, to time.Duration) time.Duration {
	g := s.entity(d).gpu
	return g.timeOn(g.story.violations[v], from, to)
}

// MeanOccupancy returns the mean of used / (used + free) in [from, to). The interval must not be
// empty. The exposed values differ slightly from the result, because the exposed values are rounded
// to MiB.
func (s *Simulation) MeanOccupancy(d Device, from, to time.Duration) float64 {
	e := s.entity(d)
	return e.mean(e.story.memory, from, to)
}

// MeanLoad returns the mean activity of the graphics engine in [from, to). The interval must not be
// empty.
func (s *Simulation) MeanLoad(d Device, from, to time.Duration) float64 {
	e := s.entity(d)
	return e.mean(e.story.load, from, to)
}

// Energy returns the board's energy consumption in [from, to), in joules.
func (s *Simulation) Energy(d Device, from, to time.Duration) float64 {
	g := s.entity(d).gpu
	return g.joules(to) - g.joules(from)
}

// XIDs returns all XIDs of the device in (from, to], sorted by time. The result includes XIDs that
// the gauge with the last XID code cannot show.
func (s *Simulation) XIDs(d Device, from, to time.Duration) []XID {
	return s.entity(d).xids(from, to)
}
