package gpushare

import "cmp"

// Demand describes how many devices a container requests and how much of each device. Demand is the
// common form of requests that use Koordinator's or HAMi's resource names.
//
// Quantities above 2^50 are treated as 2^50, so that the sum for thousands of pods fits into an
// int64. Negative quantities are treated as zero, and fractional quantities are rounded up, as the
// scheduler does.
type Demand struct {
	// Family identifies the system whose resource names are used: Koordinator or HAMi.
	Family Family
	// Devices is the number of requested devices.
	Devices int64
	// MemoryBytes is the requested memory per device, or 0 if it is unknown.
	MemoryBytes int64
	// MemoryRatio is the requested fraction of each device's memory. The value 1 means all of the
	// memory, and 0 means that the fraction is unknown. MemoryRatio exceeds 1 only if the requests
	// break a rule.
	MemoryRatio float64
	// Core is the requested fraction of each device's compute. The value 1 means all of the
	// compute, and 0 means that the fraction is unknown. Core exceeds 1 only if the requests break
	// a rule.
	Core float64
}

// Demands returns the shares of devices that a container requests.
//
// Demands applies the defaults of Koordinator's mutating webhook and divides the request among the
// devices, so the result does not depend on whether the webhook has already changed the pod. HAMi's
// memory and core requests apply to each device of one container, so the sum of the requests of a
// pod's containers is meaningless. If requests contradict each other (for example, a vendor's GPU
// together with a share), Demands returns the demands for all of them, and [Families.Check] reports
// the contradiction.
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

// The koordinator function applies the mutating webhook's defaults and then divides the request
// among the devices in the same way as the scheduler. If a container requests more than 100
// percentage points of gpu-core but neither gpu.shared nor a ratio, the webhook and the scheduler
// differ: the webhook adds a request for one device per 100 percentage points, whereas the
// scheduler by itself would use a single device. The koordinator function follows the webhook,
// which is on by default.
//
// The koordinator function divides ratios exactly, whereas the scheduler truncates the quotients to
// percentage points. Because the scheduler rejects values that are not divisible by the number of
// devices, the results differ only for requests that break a rule.
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

// defaultShared returns the value of gpu.shared that the mutating webhook adds. According to the
// proposal, the webhook divides the ratio by 100 if the ratio is a multiple of 100. The webhook's
// code divides only multiples above 100, which has the same result. If there is no ratio, the
// webhook's code uses gpu-core, which the proposal does not mention.
func defaultShared(core, ratio int64) int64 {
	points := cmp.Or(ratio, core)
	if points > 100 && points%100 == 0 {
		return points / 100
	}
	return 1
}

// hami contains HAMi's resource names for the vGPUs of one vendor.
type hami struct{ count, memory, percentage, cores string }

// hamiNVIDIA contains the resource names for NVIDIA vGPUs. [PodAllocations] uses these names to
// find the containers that request a vGPU.
var hamiNVIDIA = hami{"nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"}

var hamiNames = []hami{
	{"amd.com/gpu", "amd.com/gpumem", "", "amd.com/gpucores"},
	{"hygon.com/dcunum", "hygon.com/dcumem", "", "hygon.com/dcucores"},
	hamiNVIDIA,
}

func (h hami) isRequested(r Requests) bool {
	return Units(r[h.count])+Units(r[h.memory])+Units(r[h.percentage])+Units(r[h.cores]) > 0
}

// The demand method interprets requests in the same way as HAMi's code. A request for memory takes
// precedence over a request for a percentage of the memory. A percentage above 100 is treated as
// 100. If neither memory nor a percentage is requested, the demand is all of the memory, because
// HAMi's default (defaultMemory) is a scheduler setting that is not visible in the pod. If the
// demand is all of the memory or the requested percentage is 100, and no cores are requested, the
// demand includes all of the compute. If the request does not contain a number of vGPUs, the demand
// is one vGPU (defaultGPUNum). Requests for memory are in MiB. HAMi's memoryFactor setting is not
// applied.
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
