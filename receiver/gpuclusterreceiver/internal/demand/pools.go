package demand

import (
	"cmp"
	"maps"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// These are the device types whose UUIDs identify the devices in telemetry.
const (
	typeGPU = "gpu"
	typeMIG = "mig"
)

// poolID identifies a pool of a driver.
type poolID struct{ driver, name string }

// deviceID identifies a device in the cluster.
type deviceID struct{ driver, pool, device string }

// pool contains the slices of a DRA pool and the results that are computed from them. After a slice
// or a DeviceTaintRule changes, the results are recomputed the next time that they are needed.
type pool struct {
	id     poolID
	slices map[string]*Slice
	rules  map[string]*resourcev1.DeviceTaintRule // all DeviceTaintRules in the cluster

	fresh    bool // Whether the following fields are up to date.
	complete bool
	devices  map[string]*device
	order    []*device // The devices, sorted by name.
	counts   []Point   // The points of k8s.resourceslice.devices.
	capacity []Point   // The points of k8s.resourceslice.capacity.
}

// device is a device of a complete pool.
type device struct {
	*Device
	node       string
	taints     []Taint     // The taints from the driver and from DeviceTaintRules.
	effect     string      // The strongest effect of the taints, or "".
	attributes []Attribute // The attributes of the k8s.resourceslice.device point, except Device.Attributes.
	identity   []Attribute // The attributes that identify the device in telemetry.
	cutOf      []string    // The device's counter sets and UUID, which identify its hardware.
}

// SetSlice adds or replaces a slice. Slices of drivers that are not allowed are ignored.
func (c *Cluster) SetSlice(s *Slice) {
	c.DeleteSlice(s.Name)
	if !slices.Contains(c.opts.Drivers, s.Spec.Driver) {
		return
	}
	c.slices[s.Name] = s
	id := s.pool()
	p, ok := c.pools[id]
	if !ok {
		p = &pool{id: id, slices: map[string]*Slice{}, rules: c.rules}
		c.pools[id] = p
	}
	p.slices[s.Name] = s
	p.fresh = false
}

func (s *Slice) pool() poolID { return poolID{s.Spec.Driver, s.Spec.Pool.Name} }

// DeleteSlice deletes a slice.
func (c *Cluster) DeleteSlice(sliceName string) {
	old, ok := c.slices[sliceName]
	if !ok {
		return
	}
	delete(c.slices, sliceName)
	id := old.pool()
	p := c.pools[id]
	delete(p.slices, sliceName)
	p.fresh = false
	if len(p.slices) == 0 {
		delete(c.pools, id)
	}
}

// The device method returns the device with the given ID, or nil if no complete pool contains the
// device.
func (c *Cluster) device(id deviceID) *device {
	p, ok := c.pools[poolID{id.driver, id.pool}]
	if !ok {
		return nil
	}
	p.refresh()
	return p.devices[id.device]
}

// If the results of the pool are out of date, refresh recomputes them from the pool's slices and
// the DeviceTaintRules.
func (p *pool) refresh() {
	if p.fresh {
		return
	}
	*p = pool{id: p.id, slices: p.slices, rules: p.rules, fresh: true, devices: map[string]*device{}}
	var all []*resourcev1.ResourceSlice
	for _, s := range p.slices {
		all = append(all, s.ResourceSlice)
	}
	newest := gpushare.CurrentSlices(all)
	p.complete = newest != nil
	for _, s := range newest {
		of := p.slices[s.Name]
		for i := range of.Devices {
			d := &of.Devices[i]
			p.devices[d.Name] = p.newDevice(of, d)
		}
	}
	for _, deviceName := range slices.Sorted(maps.Keys(p.devices)) {
		p.order = append(p.order, p.devices[deviceName])
	}
	p.count()
	p.sum()
}

func (p *pool) newDevice(s *Slice, d *Device) *device {
	attrs := make([]Attribute, 0, 9)
	attrs = append(attrs,
		Attribute{signal.DRADriver, p.id.driver}, Attribute{signal.DRAPool, p.id.name}, Attribute{signal.DRADevice, d.Name})
	attrs = appendSet(attrs, signal.DRADeviceType, d.Type)
	taints := p.taints(d)
	effect := strongest(taints)
	attrs = appendSet(attrs, DeviceTaint, effect)
	known := len(attrs)
	attrs = slices.Clip(appendIdentity(attrs, d))
	cutOf := slices.Clone(d.CounterSets)
	if d.UUID != "" {
		cutOf = append(cutOf, "UUID "+d.UUID)
	}
	return &device{
		Device: d, node: cmp.Or(d.Node, ptr.Deref(s.Spec.NodeName, "")), taints: taints, effect: effect,
		attributes: attrs, identity: attrs[known:], cutOf: cutOf,
	}
}

// appendIdentity appends the attributes that identify the device in telemetry. If a device has no
// type, its UUID is assumed to be the UUID of a board. For devices of other types, appendIdentity
// appends only the model. For example, a board that is passed through to a virtual machine has no
// telemetry, and AMD's driver publishes no UUIDs.
func appendIdentity(attrs []Attribute, d *Device) []Attribute {
	switch d.Type {
	case typeMIG:
		attrs = appendSet(attrs, signal.MIGUUID, d.UUID)
		attrs = appendSet(attrs, signal.HardwareParent, d.ParentUUID)
		attrs = appendSet(attrs, signal.MIGProfile, d.Profile)
	case typeGPU, "":
		attrs = appendSet(attrs, signal.HardwareID, d.UUID)
	}
	return appendSet(attrs, signal.HardwareModel, d.Model)
}

// appendSet appends an attribute unless its value is empty.
func appendSet(attrs []Attribute, key, value string) []Attribute {
	if value == "" {
		return attrs
	}
	return append(attrs, Attribute{key, value})
}

// The labels method returns the attributes of a point that describes the pool or the pool's devices
// of one type.
func (p *pool) labels(deviceType string, more ...Attribute) []Attribute {
	attrs := []Attribute{{signal.DRADriver, p.id.driver}, {signal.DRAPool, p.id.name}}
	return append(appendSet(attrs, signal.DRADeviceType, deviceType), more...)
}

// The count method counts the devices of the pool by type.
func (p *pool) count() {
	counts := map[string]int64{}
	for _, d := range p.order {
		counts[d.Type]++
	}
	for _, t := range slices.Sorted(maps.Keys(counts)) {
		p.counts = append(p.counts, Point{Metric: signal.K8sResourceSliceDevices, Attributes: p.labels(t), Int: counts[t]})
	}
}

// The sum method adds up the capacities of the pool's devices without counting any hardware twice.
//
// Devices that share a counter set or a UUID represent the same hardware, for example a board and
// its partitions. If several devices represent the same hardware, only the largest value of each
// capacity counts. The largest value is added to the sum for the type of the device that has this
// value.
//
// A capacity of a device does not count if the device is a part of another listed device that also
// has this capacity.
func (p *pool) sum() {
	type key struct{ deviceType, capacity string }
	type cut struct{ board, capacity string }
	sums := map[key]float64{}
	largest := map[cut]key{}
	values := map[cut]float64{}
	boards, listed := p.boards(), p.byIdentity()
	for _, d := range p.order {
		for _, q := range d.Capacity {
			k := key{d.Type, q.Name}
			switch parent := listed.parent(d); {
			case parent != nil && parent.has(q.Name):
				continue
			case len(d.cutOf) == 0:
				sums[k] += q.Value
				continue
			}
			c := cut{boards.find(d.cutOf[0]), q.Name}
			if v, ok := values[c]; !ok || q.Value > v {
				values[c], largest[c] = q.Value, k
			}
		}
	}
	for c, k := range largest {
		sums[k] += values[c]
	}
	order := slices.SortedFunc(maps.Keys(sums), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.deviceType, b.deviceType), cmp.Compare(a.capacity, b.capacity))
	})
	for _, k := range order {
		p.capacity = append(p.capacity, Point{
			Metric:     signal.K8sResourceSliceCapacity,
			Attributes: p.labels(k.deviceType, Attribute{signal.DRACapacity, k.capacity}),
			Double:     sums[k],
		})
	}
}

// The boards method groups counter sets and UUIDs by hardware. Counter sets and UUIDs of the same
// device belong to the same hardware.
func (p *pool) boards() parents {
	boards := parents{}
	for _, d := range p.order {
		for _, of := range d.cutOf {
			boards[boards.find(of)] = boards.find(d.cutOf[0])
		}
	}
	return boards
}

// The has method reports whether the device advertises the given capacity.
func (d *device) has(capacity string) bool {
	return slices.ContainsFunc(d.Capacity, func(c Capacity) bool { return c.Name == capacity })
}

// The identified type contains two maps of the devices of a pool: one by UUID, and one by PCI
// address.
type identified struct{ uuids, addresses map[string]*device }

func (p *pool) byIdentity() identified {
	found := identified{map[string]*device{}, map[string]*device{}}
	for _, d := range p.order {
		found.uuids[d.UUID], found.addresses[d.PCIAddress] = d, d
	}
	return found
}

// The parent method returns the listed device that contains d, or nil if there is no such device.
func (i identified) parent(d *device) *device {
	var parent *device
	switch {
	case d.ParentUUID != "":
		parent = i.uuids[d.ParentUUID]
	case d.ParentPCIAddress != "":
		parent = i.addresses[d.ParentPCIAddress]
	}
	if parent == d {
		return nil
	}
	return parent
}

// The parents type contains the edges of a union-find forest.
type parents map[string]string

func (p parents) find(set string) string {
	for p[set] != "" && p[set] != set {
		set = p[set]
	}
	return set
}

// addPools emits the devices and capacities that drivers advertise in complete pools.
func (e *emission) addPools() {
	complete := make([]*pool, 0, len(e.pools))
	for _, p := range e.pools {
		p.refresh()
		if p.complete {
			complete = append(complete, p)
		} else {
			e.stats.IncompletePools++
			e.stats.IncompletePool = p.id.driver + "/" + p.id.name
		}
	}
	for _, of := range []struct {
		metric *signal.Metric
		add    func(*pool)
	}{
		{signal.K8sResourceSliceDevices, func(p *pool) { e.out = append(e.out, p.counts...) }},
		{signal.K8sResourceSliceCapacity, func(p *pool) { e.out = append(e.out, p.capacity...) }},
		{signal.K8sResourceSliceDevice, e.addDevices},
		{signal.K8sResourceSliceDeviceTaint, e.addTaints},
	} {
		if e.opts.Disabled[of.metric] {
			continue
		}
		for _, p := range complete {
			of.add(p)
		}
	}
	if e.observed.Claims && e.observed.TaintRules && !e.opts.Disabled[signal.K8sResourceSlicePoolDevices] {
		e.addPoolStatus(complete)
	}
}

// addDevices emits one point for each device of a pool.
func (e *emission) addDevices(p *pool) {
	for _, d := range p.order {
		e.out = append(e.out, Point{
			Metric: signal.K8sResourceSliceDevice, Place: Place{Node: d.node}, Attributes: d.attributes, More: d.Attributes, Int: 1,
		})
	}
}

// addTaints emits the taints of the devices of a pool.
func (e *emission) addTaints(p *pool) {
	for _, d := range p.order {
		for _, t := range d.taints {
			attrs := []Attribute{
				{signal.DRADriver, p.id.driver},
				{signal.DRAPool, p.id.name},
				{signal.DRADevice, d.Name},
				{signal.DRATaintKey, t.Key},
				{signal.DRATaintEffect, t.Effect},
			}
			attrs = appendSet(appendSet(attrs, signal.DRATaintValue, t.Value), signal.DRADeviceType, d.Type)
			attrs = append(attrs, d.identity...)
			e.out = append(e.out, Point{
				Metric: signal.K8sResourceSliceDeviceTaint, Place: Place{Node: d.node}, Attributes: attrs, Int: 1,
			})
		}
	}
}
