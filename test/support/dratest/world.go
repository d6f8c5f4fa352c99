package dratest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"
)

// These are the names of the vendors' DRA drivers.
const (
	NVIDIA = "gpu.nvidia.com"
	AMD    = "gpu.amd.com"
	Intel  = "gpu.intel.com"
)

// Remembered is how long gpu_k8s remembers an instance after the telemetry last showed the
// instance.
const Remembered = 2 * time.Minute

// Options control which data an observer of a history can read.
type Options struct {
	// Kubelet is true if the kubelet's list can be read. Claims is true if ResourceClaims can be
	// read.
	Kubelet, Claims bool
	// Labels is true if the exporter labels each instance with its DRA device. MIGUUIDs is true if
	// the exporter labels each instance with its UUID.
	Labels, MIGUUIDs bool
	// If OldKubelet is true, the kubelet lists ended pods, as before Kubernetes 1.34, and does not
	// list share IDs, as before Kubernetes 1.35.
	OldKubelet bool
}

// groupOwner is the kind of object that owns claims that are reserved for PodGroups.
var groupOwner = schema.GroupVersionKind{Group: "scheduling.k8s.io", Version: "v1beta1", Kind: "PodGroup"}

func drawOptions(t *rapid.T) Options {
	return Options{
		Kubelet:    rapid.IntRange(0, 4).Draw(t, "kubelet") > 0,
		Claims:     rapid.Bool().Draw(t, "claims"),
		Labels:     rapid.Bool().Draw(t, "labels"),
		MIGUUIDs:   rapid.Bool().Draw(t, "MIG UUIDs"),
		OldKubelet: rapid.Bool().Draw(t, "old kubelet"),
	}
}

// World is the state of a cluster. The Change method advances the state.
type World struct {
	Options
	// Node is the current name of the observed node. The observed node can restart, and can rejoin
	// the cluster under another name. All other nodes can join and leave.
	Node string
	// Starts is the number of times that the observer has restarted. A restart clears the
	// observer's memory.
	Starts int

	boards  []*board // of the observed node
	rules   []taintRule
	devices []*device // all advertised devices, of all vendors and nodes
	pods    []*pod
	claims  []*claim
	waiting []*claim // claims without an allocation

	generation int64
	parts      int // number of ResourceSlices in which the observed node's pool is published
	hidden     bool
	// others is the number of other nodes that have joined so far.
	others int
	// names is the number of names that the observed node has had.
	names  int
	serial int
	now    time.Time
	// seen contains the time at which the telemetry last showed each instance. labeled contains the
	// time at which the exporter last labeled an instance with a DRA device, by device and
	// instance.
	seen    map[*instance]time.Time
	labeled map[string]map[*instance]time.Time
}

// boardKind defines how a board is allocated.
type boardKind int

const (
	whole boardKind = iota
	// On a shares board, several claims can each have a share.
	shares
	// A static board is partitioned into instances before the allocation.
	static
	// A dynamic board is allocated as a whole or in partitions that exist only while they are
	// allocated.
	dynamic
)

type board struct {
	kind  boardKind
	uuid  string
	index int
	next  int // next instance number
}

// device is a device that a driver advertises.
type device struct {
	driver, pool, name string
	// kind is the value of the "type" attribute.
	kind string
	// board is nil for devices of other vendors or other nodes.
	board *board
	// uuid is the UUID of a static instance.
	uuid    string
	profile string
	// taints contains the taints that the driver publishes.
	taints []resourcev1.DeviceTaint
	// If binds is true, pods wait until the driver has attached the device.
	binds bool
	// If removed is true, the node was removed, so no ResourceSlice lists the device.
	removed bool
	// If renamed is true, the device's name has changed in ResourceSlices, but not in existing
	// allocations.
	renamed bool
	// instance is the instance in the telemetry, or nil.
	instance *instance
}

// instance is a MIG instance on a board. An instance that is created again later is a different
// instance.
type instance struct {
	id     string // hw.id
	number int
	device *device
}

type claim struct {
	namespace, name, uid string
	results              []result
	// pods contains the pods that the claim is reserved for.
	pods []*pod
	// If group is true, the claim is reserved for a PodGroup that contains these pods.
	group bool
	// If extended is true, the scheduler created the claim for an extended resource.
	extended    bool
	template    bool
	tolerations []resourcev1.DeviceToleration
	// wants is the number of requested devices, for claims without an allocation.
	wants int
	// If gone is true, the claim is also reserved for a pod that no longer exists.
	gone bool
}

type result struct {
	device         *device
	request, share string
	admin          bool
	reported       *[]metav1.Condition // conditions from the driver, at most one of each type
}

type pod struct {
	namespace, name, uid string
	node                 string
	created              time.Time
	containers           []container
	claims               []*claim
	ended, preparing     bool
	// If unbound is true, the pod is waiting for the binding conditions of its devices.
	unbound bool
	// If stranger is true, the pod references a claim that is not reserved for the pod.
	stranger bool
	// If monitors is true, the pod has the name of a monitoring agent.
	monitors bool
}

type container struct {
	name string
	init bool
	uses []use
}

type use struct {
	claim   *claim
	request string // empty if the container uses all requests
}

var slicesOf = map[string]float64{"1g.10gb": 1, "2g.20gb": 2, "3g.40gb": 3, "4g.40gb": 4, "7g.80gb": 7}

// New draws the initial state of a cluster with an observed node and another node.
func New(t *rapid.T, now time.Time) *World {
	w := &World{
		Options: drawOptions(t), Node: "n1", names: 1, generation: 1, parts: rapid.IntRange(1, 2).Draw(t, "slices"), now: now,
		seen: map[*instance]time.Time{}, labeled: map[string]map[*instance]time.Time{},
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "boards") {
		w.addBoard(t, i)
	}
	for _, driver := range []string{AMD, Intel} {
		if rapid.Bool().Draw(t, driver) {
			w.devices = append(w.devices, &device{driver: driver, pool: w.Node, name: "card-0", kind: "gpu"})
		}
	}
	w.join()
	return w
}

// join adds another node with one device. The device has the same name on all nodes that join adds.
func (w *World) join() {
	w.others++
	w.devices = append(w.devices, &device{driver: NVIDIA, pool: fmt.Sprint("other-", w.others), name: "gpu-0", kind: "gpu"})
}

func (w *World) addBoard(t *rapid.T, index int) {
	b := &board{kind: sampledFrom(t, "kind", whole, shares, static, dynamic), index: index, uuid: fmt.Sprintf("GPU-%08d-0000-0000-0000-000000000000", index)}
	w.boards = append(w.boards, b)
	binds := rapid.IntRange(0, 3).Draw(t, "binds") == 0
	add := func(d *device) *device {
		d.driver, d.pool, d.board, d.binds = NVIDIA, w.Node, b, binds
		w.devices = append(w.devices, d)
		return d
	}
	part := func(profile string, start int) *device {
		return add(&device{name: fmt.Sprintf("gpu-%d-mig-%s-0-%d", index, profile[:2]+profile[3:], start), kind: "mig", profile: profile})
	}
	switch b.kind {
	case static:
		layouts := [][]string{{"3g.40gb", "4g.40gb"}, {"1g.10gb", "1g.10gb", "2g.20gb", "3g.40gb"}, {"3g.40gb", "3g.40gb"}, {"7g.80gb"}}
		for start, profile := range rapid.SampledFrom(layouts).Draw(t, "layout") {
			d := part(profile, start)
			d.uuid = fmt.Sprintf("MIG-%04d%04d-0000-0000-0000-000000000000", index, start)
			w.appear(d)
		}
	case dynamic:
		add(&device{name: fmt.Sprint("gpu-", index), kind: "gpu"})
		for start, profile := range []string{"4g.40gb", "3g.40gb", "3g.40gb", "1g.10gb", "1g.10gb"} {
			part(profile, start)
		}
	default:
		add(&device{name: fmt.Sprint("gpu-", index), kind: "gpu"})
	}
}

// appear creates a new instance for a device.
func (w *World) appear(d *device) {
	d.instance = &instance{id: fmt.Sprintf("%s/gi%d", d.board.uuid, d.board.next), number: d.board.next, device: d}
	d.board.next++
}

// The takes method returns the number of claims to which the device or a share of the device is
// allocated.
func (w *World) takes(d *device) (n int) {
	for _, c := range w.claims {
		for _, r := range c.results {
			if r.device == d && !r.admin {
				n++
			}
		}
	}
	return n
}

// The free method reports whether the scheduler could allocate the device to the given claim.
func (w *World) free(d *device, c *claim) bool {
	switch {
	case d.renamed, d.removed, w.taintedFor(d, c, resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNoExecute):
		return false
	case d.board != nil && d.board.kind == shares:
		return w.takes(d) < 3
	case d.board == nil || d.board.kind != dynamic:
		return w.takes(d) == 0
	}
	// The board and its partitions consume the same shared counters.
	left := 7.0
	for _, o := range w.devices {
		if o.board == d.board && w.takes(o) > 0 {
			left -= o.slices()
		}
	}
	return w.takes(d) == 0 && d.slices() <= left
}

func (d *device) slices() float64 {
	if d.profile == "" {
		return 7
	}
	return slicesOf[d.profile]
}

// settle creates and deletes instances on dynamic boards to match the current allocations.
func (w *World) settle() {
	for _, d := range w.devices {
		if d.pool != w.Node || d.board == nil || d.board.kind != dynamic || d.kind != "mig" {
			continue
		}
		switch taken := w.takes(d) > 0; {
		case taken && d.instance == nil:
			w.appear(d)
		case !taken:
			d.instance = nil
		}
	}
}

// memory returns the device's memory in GiB.
func (d *device) memory() int {
	if d.profile == "" {
		return 80
	}
	gib, _ := strconv.Atoi(strings.TrimSuffix(d.profile[3:], "gb"))
	return gib
}

func (w *World) remove(c *claim) {
	w.claims = slices.DeleteFunc(w.claims, func(o *claim) bool { return o == c })
}

// String returns a description of the world for failure messages.
func (w *World) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%+v node=%s hidden=%t rules=%+v\n", w.Options, w.Node, w.hidden, w.rules)
	for _, d := range w.devices {
		fmt.Fprintf(&b, "device %s/%s %s left=%t", d.driver, d.pool, d.name, d.removed)
		if d.board != nil {
			fmt.Fprintf(&b, " board %s kind %d", d.board.uuid, d.board.kind)
		}
		if d.instance != nil {
			fmt.Fprintf(&b, " instance %s", d.instance.id)
		}
		b.WriteByte('\n')
	}
	for _, p := range w.pods {
		fmt.Fprintf(&b, "pod %s %s on %s ended=%t preparing=%t unbound=%t stranger=%t\n", p.name, p.uid, p.node, p.ended, p.preparing, p.unbound, p.stranger)
		for _, e := range p.has() {
			fmt.Fprintf(&b, "  container %q has %s admin=%t\n", e.holder.Container, e.result.device.name, e.result.admin)
		}
	}
	for _, c := range w.claims {
		fmt.Fprintf(&b, "claim %s group=%t gone=%t:", c.name, c.group, c.gone)
		for _, r := range c.results {
			b.WriteString(" " + r.device.name)
		}
		for _, p := range c.pods {
			b.WriteString(" for " + p.name)
		}
		b.WriteByte('\n')
	}
	for id, v := range w.Holders() {
		fmt.Fprintf(&b, "%s: %+v\n", id, v)
	}
	return b.String()
}
