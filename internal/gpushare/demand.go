package gpushare

import "cmp"

// Demand is the share of devices that a container asks for in Koordinator's or
// HAMi's names, normalised.
//
// Quantities above 2^50 count as 2^50: they are nonsense, and the sum over
// thousands of such pods must still fit an int64. Negative ones count as
// nothing, fractions are rounded up, as the scheduler does.
type Demand struct {
	// Family tells whose names were used: Koordinator or HAMi.
	Family Family
	// Devices is the number of devices that are asked for.
	Devices int64
	// MemoryBytes is the memory asked for on each device, 0 where it is not known.
	MemoryBytes int64
	// MemoryRatio is the share of each device's memory: 1 for the whole, 0
	// where it is not known, above 1 only where the requests break a rule.
	MemoryRatio float64
	// Core is the share of each device's compute: 1 for the whole, 0 where it
	// is not known, above 1 only where the requests break a rule.
	Core float64
}

// Demands returns the shares that a container's requests ask for.
//
// Koordinator's defaulting and its split over devices are applied, so requests
// give the same before and after its webhook. HAMi's memory and cores are per
// device of one container: a pod's sum of them means nothing. Requests that
// contradict themselves (a vendor's GPU beside a share) give every demand that
// they name; [Families.Check] reports them.
func Demands(r Requests) []Demand {
	var out []Demand
	for _, h := range hamiNames {
		if d, ok := h.demand(r); ok {
			out = append(out, d)
		}
	}
	if d, ok := koordinator(r); ok {
		out = append(out, d)
	}
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
	if gpu > 0 {
		core, ratio = gpu, gpu
	}
	d := Demand{Family: Koordinator, Devices: shared}
	if shared == 0 {
		d.Devices = defaultShared(core, ratio)
	}
	n := float64(d.Devices)
	d.Core = float64(core) / 100 / n
	if ratio > 0 {
		d.MemoryRatio = float64(ratio) / 100 / n
	} else {
		d.MemoryBytes = memory / d.Devices
	}
	return d, true
}

// defaultShared is the gpu.shared that the mutating webhook injects. The
// proposal takes every multiple of 100, the code those above 100: the same. The
// branch on core is the code's alone.
func defaultShared(core, ratio int64) int64 {
	points := cmp.Or(ratio, core)
	if points > 100 && points%100 == 0 {
		return points / 100
	}
	return 1
}

// hami are the names of one vendor's vGPU requests.
type hami struct{ count, memory, percentage, cores string }

// hamiNVIDIA are the names of the vGPUs that [PodAllocations] reads about.
var hamiNVIDIA = hami{"nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"}

var hamiNames = []hami{
	{"amd.com/gpu", "amd.com/gpumem", "", "amd.com/gpucores"},
	{"hygon.com/dcunum", "hygon.com/dcumem", "", "hygon.com/dcucores"},
	hamiNVIDIA,
}

// asked reports whether a vGPU is asked for by one of the names.
func (h hami) asked(r Requests) bool {
	return Units(r[h.count])+Units(r[h.memory])+Units(r[h.percentage])+Units(r[h.cores]) > 0
}

// demand follows HAMi's code: memory before percentage, a percentage above 100
// is 100, without either the whole memory (HAMi's defaultMemory is a setting of
// its scheduler that no pod shows), the whole memory without cores is the whole
// GPU, no count is one vGPU (defaultGPUNum). Memory is in MiB: a memoryFactor
// in HAMi's settings is not applied.
func (h hami) demand(r Requests) (Demand, bool) {
	memory, percentage, cores := Units(r[h.memory]), min(Units(r[h.percentage]), 100), min(Units(r[h.cores]), 100)
	if memory+percentage+cores == 0 {
		return Demand{}, false
	}
	d := Demand{Family: HAMi, Devices: max(Units(r[h.count]), 1), Core: float64(cores) / 100}
	switch {
	case memory > 0:
		d.MemoryBytes = times(memory, mebi)
	case percentage > 0:
		d.MemoryRatio = float64(percentage) / 100
	default:
		d.MemoryRatio = 1
	}
	if d.Core == 0 && (percentage == 100 || d.MemoryRatio == 1) {
		d.Core = 1
	}
	return d, true
}
