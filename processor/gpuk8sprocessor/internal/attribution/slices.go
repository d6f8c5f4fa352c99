package attribution

import (
	"slices"
	"strings"
)

// sliceDevice is a device as its driver describes it in a slice.
type sliceDevice struct {
	kind, uuid, parent, profile string
}

// slicePool has the slices of a pool's highest generation.
type slicePool struct {
	generation, have, want int64
	names                  map[string]bool
	contradicts            bool
}

// whole reports whether all slices are there and fit each other: the scheduler uses
// no pool whose slices differ in how many they are, or name a device twice.
func (p *slicePool) whole() bool { return p.have == p.want && !p.contradicts }

// sliceDevices returns the devices of all complete pools of the given drivers,
// each pool's highest generation: in a lower one, and in half a pool, a name can
// mean another device by now. whole says that there is no half a pool.
func sliceDevices(all []Slice, drivers []string) (devices map[DRADevice]sliceDevice, whole bool) {
	type pool struct{ driver, name string }
	pools := map[pool]*slicePool{}
	for i := range all {
		s := &all[i]
		if !slices.Contains(drivers, s.Driver) {
			continue
		}
		k := pool{s.Driver, s.Pool}
		p := pools[k]
		if p == nil || s.Generation > p.generation {
			p = &slicePool{generation: s.Generation, want: s.Count, names: map[string]bool{}}
			pools[k] = p
		}
		if s.Generation < p.generation {
			continue
		}
		p.have++
		p.contradicts = p.contradicts || s.Count != p.want
		for _, d := range s.Devices {
			p.contradicts = p.contradicts || p.names[d.Name]
			p.names[d.Name] = true
		}
	}
	whole = true
	for _, p := range pools {
		whole = whole && p.whole()
	}
	devices = map[DRADevice]sliceDevice{}
	for i := range all {
		s := &all[i]
		p := pools[pool{s.Driver, s.Pool}]
		if p == nil || s.Generation != p.generation || !p.whole() {
			continue
		}
		for _, d := range s.Devices {
			devices[DRADevice{s.Driver, s.Pool, d.Name}] = sliceDevice{
				kind:    attribute(d.Attributes, "type"),
				uuid:    attribute(d.Attributes, "uuid"),
				parent:  attribute(d.Attributes, "parentUUID"),
				profile: attribute(d.Attributes, "profile"),
			}
		}
	}
	return devices, whole
}

// attribute returns an attribute by its plain name, which is the driver's own
// domain, else by any qualified name, the first in order.
func attribute(attributes map[string]string, name string) string {
	if v, ok := attributes[name]; ok {
		return v
	}
	best := ""
	for k := range attributes {
		if _, last, ok := strings.Cut(k, "/"); ok && last == name && (best == "" || k < best) {
			best = k
		}
	}
	return attributes[best]
}
