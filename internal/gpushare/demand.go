package gpushare

import (
	"cmp"
	"slices"
)

// Demand is what a container or pod asks of one resource family, normalised.
//
// Quantities above 2^50 count as 2^50: they are nonsense, and the sum over
// thousands of such pods must still fit an int64. Negative ones count as
// nothing, fractions are rounded up, as the scheduler does.
type Demand struct {
	// Family tells whose names were used.
	Family Family
	// Resource is the name that the demand is counted under.
	Resource string
	// Units is the quantity of Resource, in its unit: devices, slots, percent
	// points, bytes.
	Units int64
	// Devices is the number of devices that are asked for; of a MIG resource
	// or another partition the number of instances.
	Devices int64
	// MemoryBytes is the memory asked for on each device, 0 where it is not known.
	MemoryBytes int64
	// MemoryRatio is the share of each device's memory: 1 for the whole, 0
	// where it is not known, above 1 only where the requests break a rule.
	MemoryRatio float64
	// Core is the share of each device's compute: 1 for the whole, 0 where it
	// is not known, above 1 only where the requests break a rule.
	Core float64
	// Shared says that the request leaves room for others on the device. False
	// for nvidia.com/gpu even where the node time-slices it: only the node tells.
	Shared bool
}

// Demands returns what the requests ask of GPUs of the built-in families.
func Demands(r Requests) []Demand { return Families{}.Demands(r) }

// Demands returns what the requests ask of GPUs, sorted by resource name.
//
// Koordinator's defaulting and its split over devices are applied, so requests
// give the same before and after its webhook. HAMi's memory and cores are per
// device of one container: a pod's sum of them means nothing, so ask container
// by container where they are in use. Requests that contradict themselves (a
// vendor's GPU beside a share) give every demand that they name; Check says so.
func (f Families) Demands(r Requests) []Demand {
	var out []Demand
	for name, q := range r {
		res, ok := f.Lookup(name)
		if !ok || !res.Counted() || res.Family == Koordinator || slices.ContainsFunc(hamiNames, func(h hami) bool {
			return h.count == name && h.named(r)
		}) {
			continue
		}
		n := Units(q)
		if n == 0 {
			continue
		}
		d := Demand{Family: res.Family, Resource: name, Units: n, Devices: n, Shared: res.Shared}
		if !res.Shared {
			d.MemoryRatio, d.Core = 1, 1
		}
		out = append(out, d)
	}
	for _, h := range hamiNames {
		if d, ok := h.demand(r); ok {
			out = append(out, d)
		}
	}
	for _, family := range []func(Requests) (Demand, bool){koordinator, aliyun, tencent} {
		if d, ok := family(r); ok {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b Demand) int { return cmp.Compare(a.Resource, b.Resource) })
	return out
}

// koordinator applies the mutating webhook's defaulting and the scheduler's
// split. Where the two differ (core above 100 without gpu.shared and without a
// ratio: the webhook makes one device of each 100, the scheduler alone would
// put all on one) the webhook is followed, because it is on by default.
//
// The split is exact, the scheduler's truncates percent points; it refuses
// what does not divide, so this shows only in requests that break a rule.
func koordinator(r Requests) (Demand, bool) {
	gpu, shared, core := Units(r[koordGPU]), Units(r[koordShared]), Units(r[koordCore])
	memory, ratio := Units(r[koordMemory]), Units(r[koordRatio])
	if gpu+shared+core+memory+ratio == 0 || Units(r[npuCore]) > 0 {
		return Demand{}, false
	}
	d := Demand{Family: Koordinator}
	for _, name := range []string{koordGPU, koordRatio, koordCore, koordMemory, koordShared} {
		if n := Units(r[name]); n > 0 {
			d.Resource, d.Units = name, n
			break
		}
	}
	if gpu > 0 {
		core, ratio = gpu, gpu
	}
	d.Devices = shared
	if shared == 0 {
		d.Devices = defaultShared(core, ratio)
	}
	n := float64(d.Devices)
	d.Core = float64(core) / 100 / n
	switch {
	case ratio > 0:
		d.MemoryRatio = float64(ratio) / 100 / n
		d.Shared = d.MemoryRatio < 1
	case memory > 0:
		d.MemoryBytes = memory / d.Devices
		d.Shared = true
	default:
		d.Shared = d.Core < 1
	}
	return d, true
}

// defaultShared is the gpu.shared that the mutating webhook injects. The
// proposal takes every multiple of 100, the code those above 100: the same. The
// branch on core is the code's alone.
func defaultShared(core, ratio int64) int64 {
	points := ratio
	if ratio == 0 {
		points = core
	}
	if points > 100 && points%100 == 0 {
		return points / 100
	}
	return 1
}

// hami are the names of one vendor's vGPU requests.
type hami struct{ count, memory, percentage, cores string }

var hamiNames = []hami{
	{"nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"},
	{"amd.com/gpu", "amd.com/gpumem", "", "amd.com/gpucores"},
	{"hygon.com/dcunum", "hygon.com/dcumem", "", "hygon.com/dcucores"},
}

// named reports whether the requests name a share, so that the count is vGPUs.
func (h hami) named(r Requests) bool {
	return Units(r[h.memory])+Units(r[h.percentage])+Units(r[h.cores]) > 0
}

// demand follows HAMi's code: memory before percentage, a percentage above 100
// is 100, without either the whole memory (HAMi's defaultMemory is a setting of
// its scheduler that no pod shows), the whole memory without cores is the whole
// GPU, no count is one vGPU (defaultGPUNum). Memory is in MiB: a memoryFactor
// in HAMi's settings is not applied.
func (h hami) demand(r Requests) (Demand, bool) {
	if !h.named(r) {
		return Demand{}, false
	}
	n := max(Units(r[h.count]), 1)
	d := Demand{Family: HAMi, Resource: h.count, Units: n, Devices: n}
	memory, percentage := Units(r[h.memory]), min(Units(r[h.percentage]), 100)
	switch {
	case memory > 0:
		d.MemoryBytes = times(memory, mebi)
	case percentage > 0:
		d.MemoryRatio = float64(percentage) / 100
	default:
		d.MemoryRatio = 1
	}
	d.Core = float64(min(Units(r[h.cores]), 100)) / 100
	if d.Core == 0 && (percentage == 100 || d.MemoryRatio == 1) {
		d.Core = 1
	}
	d.Shared = d.Core < 1
	return d, true
}

// aliyun: gpu-mem in GiB on one device (general knowledge; the unit is a
// setting of the device plugin, GiB by default).
func aliyun(r Requests) (Demand, bool) {
	const name = "aliyun.com/gpu-mem"
	n := Units(r[name])
	return Demand{
		Family: Aliyun, Resource: name, Units: n, Devices: 1, MemoryBytes: times(n, gibi), Shared: true,
	}, n > 0
}

// tencent: vcuda-core in percent points, whole devices from 100 on, and
// vcuda-memory in blocks of 256 MiB (general knowledge).
func tencent(r Requests) (Demand, bool) {
	const coreName, memoryName = "tencent.com/vcuda-core", "tencent.com/vcuda-memory"
	core, blocks := Units(r[coreName]), Units(r[memoryName])
	switch {
	case core >= 100:
		return Demand{Family: Tencent, Resource: coreName, Units: core, Devices: core / 100, MemoryRatio: 1, Core: 1}, true
	case core > 0:
		return Demand{
			Family: Tencent, Resource: coreName, Units: core, Devices: 1,
			MemoryBytes: times(blocks, 256*mebi), Core: float64(core) / 100, Shared: true,
		}, true
	}
	return Demand{
		Family: Tencent, Resource: memoryName, Units: blocks, Devices: 1,
		MemoryBytes: times(blocks, 256*mebi), Shared: true,
	}, blocks > 0
}
