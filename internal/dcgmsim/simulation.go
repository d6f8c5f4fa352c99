package dcgmsim

import (
	"fmt"
	"strconv"
	"time"
)

// windowSize is the default value of the exporter flags --xid-count-window-size and
// --clock-events-count-window-size.
const windowSize = 5 * time.Minute

// Simulation computes the values of every device at any time. A Simulation is immutable and safe
// for concurrent use.
type Simulation struct {
	config Config
	// restartEvery is the time between restarts of the exporter and the driver. A restart resets
	// all counters. If restartEvery is 0, the exporter and the driver never restart.
	restartEvery time.Duration
	fields       []field
	links        []field
	nodes        []node
}

// node is a node with one exporter.
type node struct {
	name   string
	vendor vendor
	gpus   []*gpu
	// entities contains the entities that have rows, which are GPUs or their MIG instances.
	entities []*entity
	// virtualGPUs is true if the exporter maps a shared device to all of its pods.
	virtualGPUs bool
	rows        rowTable
}

// gpu is one board.
type gpu struct {
	index int
	// scenario is the name of the GPU's scenario.
	scenario  string
	uuid, pci string
	// serial is the serial number of an AMD board, and sliceID is the accelerator_id that contains
	// the number of a Google chip in its slice.
	serial, sliceID string
	hardware        *hardware
	story           *story
	phase           time.Duration
	// energyBase (in millijoules) and violationBase are the values of the counters at the start of
	// the simulation. A restart sets the counters to 0.
	energyBase    float64
	violationBase [violations]time.Duration
}

// entity is a GPU or a MIG instance.
type entity struct {
	gpu *gpu
	// story provides the entity's load and memory. An entity without a holder has the idle story,
	// except in the latched-utilization scenario. All other entities have the GPU's story.
	story *story
	// mig is true if the entity is a MIG instance, and instanceID is the ID of the MIG instance.
	mig        bool
	instanceID int
	// phase shifts the entity's load and memory in time.
	phase time.Duration
	// lag is how much earlier the entity's power was sampled than the entity's other values.
	lag     time.Duration
	holders []pod
}

// New returns a simulation of the devices in a configuration. New returns an error if the
// configuration is invalid.
func New(config Config) (*Simulation, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	s := &Simulation{config: config, fields: fieldsOf(config.Style, config.Fields), nodes: make([]node, config.Nodes)}
	if config.Scenario == ScenarioRestart {
		s.restartEvery = 2 * time.Minute
	}
	if config.Links > 0 {
		s.links = linkFields(s.fields)
	}
	known := stories{}
	for n := range s.nodes {
		s.nodes[n] = s.newNode(n, known)
	}
	return s, nil
}

// newNode creates the nth node.
func (s *Simulation) newNode(n int, known stories) node {
	out := node{name: fmt.Sprintf("gpu-node-%d", n), vendor: vendorOf(s.config.Scenario, n)}
	devices := s.config.GPUs
	if out.vendor != nvidia {
		devices = min(devices, otherVendorsDevices)
	}
	for i := range devices {
		plays := part(s.config.Scenario, out.vendor, i)
		if plays == ScenarioMIG && s.config.Style == Style2 {
			// In the mixed scenario, exporters without MIG support have no MIG device.
			plays = ScenarioHealthy
		}
		g := s.newGPU(n, i, out.vendor, known.of(plays, s.config.Scenario == ScenarioMixed || s.config.Scenario == ScenarioVendors))
		g.scenario = plays
		out.gpus = append(out.gpus, g)
		out.virtualGPUs = out.virtualGPUs || plays == ScenarioTimeSliced

		instances := s.config.MIG
		switch {
		case out.vendor != nvidia:
			instances = 0
		case instances > 0:
		case plays == ScenarioMIG:
			instances = maxMIG
		case plays == ScenarioDRA && i%draRoles == draMIGDevice && s.config.Style.in(since483):
			instances = 2
		}
		if instances == 0 {
			out.entities = append(out.entities, &entity{gpu: g, phase: g.phase, holders: s.gpuHolders(&out, n, i, plays)})
		}
		for k := range instances {
			out.entities = append(out.entities, &entity{
				gpu: g, mig: true, instanceID: firstInstanceID + k,
				phase:   g.phase + time.Duration(k)*3*time.Second,
				lag:     time.Duration(k) * 20 * time.Millisecond,
				holders: s.instanceHolders(out.name, n, i, k, instances, plays),
			})
		}
	}
	if !s.config.Style.in(since45) {
		out.virtualGPUs = false
	}
	for _, e := range out.entities {
		e.story = e.gpu.story
		if len(e.holders) == 0 && e.gpu.scenario != ScenarioLatchedUtilization {
			e.story = known.of(ScenarioIdle, false)
			if !e.mig {
				e.gpu.story = e.story
			}
		}
		// An exporter that does not map virtual GPUs exposes only the last pod of a device.
		if last := len(e.holders) - 1; last > 0 && !out.virtualGPUs && e.holders[last].claim == nil && e.holders[last].job == "" {
			e.holders = e.holders[last:]
		}
	}
	if out.vendor == nvidia {
		out.rows = s.newRowTable(&out)
	}
	return out
}

// newGPU creates the ith GPU of the nth node.
func (s *Simulation) newGPU(n, i int, v vendor, st *story) *gpu {
	key := key(n, i)
	g := &gpu{
		index: i, pci: busID(i),
		hardware:   v.hardware(s.config.Style),
		story:      st,
		phase:      time.Duration(n*s.config.GPUs+i) * 7 * time.Second % st.period,
		energyBase: float64(1e9 + mix(key+2)%4e9),
	}
	for v := range g.violationBase {
		g.violationBase[v] = time.Duration(mix(key+3+uint64(v))%3600) * time.Second
	}
	v.identify(g, n)
	return g
}

// key returns the hash from which a GPU's identity and history are derived.
func key(n, i int) uint64 {
	return mix(mix(0)^uint64(n)<<20^uint64(i)) &^ 0xff
}

// newPod returns the kth pod on the ith GPU of the nth node.
func newPod(n, i, k int, namespace, name, container string) pod {
	return pod{
		namespace: namespace, name: name, container: container,
		uid:         uuid("x", key(n, i)^0xff00000000000000^uint64(k)<<32)[2:],
		memoryShare: .97, loadShare: 1,
	}
}

// gpuHolders returns the pods or batch jobs that hold an entire GPU.
func (s *Simulation) gpuHolders(of *node, n, i int, plays string) []pod {
	if of.vendor == google {
		// One pod holds all chips of a machine.
		return []pod{newPod(n, 0, 0, "training", fmt.Sprintf("tpu-job-%d", n), "trainer")}
	}
	switch s.config.Scenario {
	case ScenarioSpinning, ScenarioSlowDevice: // one job holds all GPUs
		return []pod{newPod(n, 0, 0, "training", fmt.Sprintf("%s-%d", s.config.Scenario, n), "trainer")}
	}
	switch plays {
	case ScenarioIdle, ScenarioLatchedUtilization:
		return nil
	case ScenarioTimeSliced:
		shares := []struct{ memory, load float64 }{{.52, .6}, {.31, .4}, {.12, 0}}
		var pods []pod
		for k, share := range shares {
			p := newPod(n, i, k, "notebooks", fmt.Sprintf("notebook-%d-%d-%d", n, i, k), "jupyter")
			p.vgpu = strconv.Itoa(k)
			p.memoryShare, p.loadShare = share.memory, share.load
			pods = append(pods, p)
		}
		return pods
	case ScenarioDRA:
		return s.claimHolders(of.name, n, i)
	case ScenarioSlurm:
		return jobHolders(n, i)
	default:
		return []pod{newPod(n, i, 0, "training", fmt.Sprintf("%s-%d-%d", plays, n, i), "trainer")}
	}
}

// jobHolders returns the batch jobs that hold a GPU. In each group of four GPUs, one job holds the
// first two, two jobs share the third, and the fourth is free.
func jobHolders(n, i int) []pod {
	const first, ofNode, ofFour = 4711, 100, 10
	job := func(k int) pod { return pod{job: strconv.Itoa(first + n*ofNode + i/4*ofFour + k)} }
	switch i % 4 {
	case 0, 1:
		return []pod{job(0)}
	case 2:
		return []pod{job(1), job(2)}
	}
	return nil
}

// These constants are the roles of consecutive GPUs in the dra scenario.
const (
	// draOnePod is a GPU that one pod holds through a claim.
	draOnePod = iota
	// draTwoPods is a GPU that two pods hold through one claim.
	draTwoPods
	// draMIGDevice is a GPU with instances. One MIG device is allocated through a claim.
	draMIGDevice
	// draFree is a GPU that is not allocated.
	draFree
	draRoles
)

// claimHolders returns the pods that hold an entire GPU through a claim. In style 4.5, the result
// also includes a pod with a claim for a MIG device, because exporter 4.5 maps the claim to the
// board.
func (s *Simulation) claimHolders(host string, n, i int) []pod {
	whole := &claim{namespace: "inference", pool: host, device: fmt.Sprintf("gpu-%d", i)}
	switch i % draRoles {
	case draOnePod:
		p := newPod(n, i, 0, "inference", fmt.Sprintf("llm-%d-%d", n, i), "server")
		whole.name = p.name + "-gpu-x7k2p"
		p.claim = whole
		return []pod{p}
	case draTwoPods:
		whole.name = fmt.Sprintf("shared-gpu-%d-%d", n, i)
		var pods []pod
		for k := range 2 {
			p := newPod(n, i, k, "inference", fmt.Sprintf("embed-%d-%d-%d", n, i, k), "server")
			p.claim = whole
			pods = append(pods, p)
		}
		return pods
	case draMIGDevice:
		return []pod{s.migClaimHolder(host, n, i)}
	default:
		return nil
	}
}

// migClaimHolder returns the pod that holds a GPU's first MIG device through a claim.
func (s *Simulation) migClaimHolder(host string, n, i int) pod {
	p := newPod(n, i, 0, "inference", fmt.Sprintf("rerank-%d-%d", n, i), "server")
	profile := s.config.Style.hardware().profile
	p.claim = &claim{
		name: p.name + "-mig-rxspm", namespace: "inference", pool: host,
		device:     fmt.Sprintf("gpu-%d-mig-1g10gb-19-0", i),
		migProfile: profile, migUUID: uuid("MIG", key(n, i)+0x40),
	}
	return p
}

// instanceHolders returns the pod that holds the kth MIG instance of a GPU. If the GPU has several
// instances, the last instance is free.
func (s *Simulation) instanceHolders(host string, n, i, k, of int, plays string) []pod {
	if plays == ScenarioDRA && i%draRoles == draMIGDevice {
		if k == 0 {
			return []pod{s.migClaimHolder(host, n, i)}
		}
		return nil
	}
	if plays == ScenarioIdle || (k == of-1 && of > 1) {
		return nil
	}
	return []pod{newPod(n, i, k, "inference", fmt.Sprintf("infer-%d-%d-%d", n, i, k), "server")}
}

// Sampled returns the time of the values that a scrape at time t returns. Sampled rounds t down to
// a multiple of the collect interval. If the collect interval is 0, Sampled returns t.
func (s *Simulation) Sampled(t time.Duration) time.Duration {
	return t.Truncate(s.config.CollectInterval)
}

// restarted returns the time of the last restart at or before t, or 0 if there was no restart.
func (s *Simulation) restarted(t time.Duration) time.Duration {
	if s.restartEvery == 0 {
		return 0
	}
	return t - t%s.restartEvery
}

// memoryMiB returns the entity's usable memory, which is the sum of used and free memory, and the
// entity's reserved memory.
func (e *entity) memoryMiB() (usable, reserved int64) {
	if e.mig {
		return e.gpu.hardware.instanceMiB, e.gpu.hardware.instanceReservedMiB
	}
	return e.gpu.hardware.fbMiB, e.gpu.hardware.reservedMiB
}

// occupancy returns the entity's memory occupancy at time t, between 0 and 1.
func (e *entity) occupancy(t time.Duration) float64 {
	return e.story.memory.at(e.phase + t)
}

// watts returns the power draw of the board at time t.
func (g *gpu) watts(t time.Duration) float64 {
	u := g.phase + t
	return g.hardware.idleWatts + g.story.power.at(u)*(g.hardware.limitWatts-g.hardware.idleWatts) + ripple.at(u)
}

// joules returns the energy that the board used from the start to time t. The energy is the
// integral of the power draw.
func (g *gpu) joules(t time.Duration) float64 {
	integral := func(u time.Duration) float64 {
		return g.hardware.idleWatts*u.Seconds() +
			g.story.power.integral(u)*(g.hardware.limitWatts-g.hardware.idleWatts) + ripple.integral(u)
	}
	return integral(g.phase+t) - integral(g.phase)
}

// timeOn returns how long one of the story's gates is on in [from, to).
func (g *gpu) timeOn(of gate, from, to time.Duration) time.Duration {
	return of.integral(g.phase+to) - of.integral(g.phase+from)
}

// mean returns the mean of one of the story's curves in [from, to).
func (e *entity) mean(of curve, from, to time.Duration) float64 {
	return (of.integral(e.phase+to) - of.integral(e.phase+from)) / (to - from).Seconds()
}

// befalls reports whether the XID error occurs on the entity.
func (e *entity) befalls(x xidAt) bool {
	return !e.mig || x.board || e.instanceID == firstInstanceID
}

// xidCount returns how often an XID with the given code occurred in (from, to].
func (e *entity) xidCount(code int, from, to time.Duration) int64 {
	for _, x := range e.gpu.story.xids {
		if x.code == code && !e.befalls(x) {
			return 0
		}
	}
	moments := e.gpu.story.xidEvents[code]
	return moments.count(e.gpu.phase+to) - moments.count(e.gpu.phase+from)
}

// XID is one XID error.
type XID struct {
	// At is the time since the start.
	At time.Duration
	// Code is the XID code.
	Code int
}

// xids returns all XIDs of the entity in (from, to], sorted by time.
func (e *entity) xids(from, to time.Duration) []XID {
	st := e.gpu.story
	if len(st.xids) == 0 {
		return nil
	}
	var out []XID
	phase := e.gpu.phase
	for loop := (phase + from).Truncate(st.period); loop <= phase+to; loop += st.period {
		for _, x := range st.xids {
			at := loop + x.at - phase
			if from < at && at <= to && e.befalls(x) {
				out = append(out, XID{at, x.code})
			}
		}
	}
	return out
}

// lastXID returns the code of the last XID in (from, to], or 0 if there was no XID.
func (e *entity) lastXID(from, to time.Duration) int {
	st := e.gpu.story
	// XIDs repeat in each loop of the story, so one loop is enough.
	all := e.xids(max(from, to-st.period), to)
	if len(all) == 0 {
		return 0
	}
	return all[len(all)-1].Code
}
