package gpushare

import (
	"maps"
	"slices"
)

// Rule is a rule of Koordinator's GPU share API that requests break. The names
// are stable: they are the values of the rule attribute.
type Rule string

// The rules. "Proposal" is the GPU share API's own text, "webhook" Koordinator's
// validating webhook (off by default), "scheduler" its deviceshare plugin, which
// sees the pod's effective requests.
const (
	// VendorWithShare: a vendor's GPU and koordinator.sh GPU resources in one
	// pod. Proposal rule 1; scheduler.
	VendorWithShare Rule = "vendor_with_share"
	// MemoryWithRatio: gpu-memory and gpu-memory-ratio together. Proposal rule
	// 2; webhook; scheduler.
	MemoryWithRatio Rule = "memory_with_ratio"
	// CoreWithoutMemory: gpu-core without gpu-memory or gpu-memory-ratio.
	// Proposal rule 3; scheduler.
	CoreWithoutMemory Rule = "core_without_memory"
	// MemoryWithoutShared: gpu-memory or gpu-memory-ratio without gpu.shared.
	// Proposal rule 4. The scheduler accepts it, and the mutating webhook adds
	// gpu.shared, so a stored pod breaks it only where that webhook is off.
	MemoryWithoutShared Rule = "memory_without_shared"
	// GPUWithShared: koordinator.sh/gpu and gpu.shared together. Webhook; scheduler.
	GPUWithShared Rule = "gpu_with_shared"
	// GPUZero: koordinator.sh/gpu that is not above zero. Webhook.
	GPUZero Rule = "gpu_zero"
	// GPUNotMultipleOf100: koordinator.sh/gpu above 100 and no multiple of 100.
	// Webhook; scheduler.
	GPUNotMultipleOf100 Rule = "gpu_not_multiple_of_100"
	// SharedZero: gpu.shared that is not above zero. Webhook.
	SharedZero Rule = "shared_zero"
	// SharedWithoutMemory: gpu.shared without gpu-memory or gpu-memory-ratio
	// above zero. Webhook; scheduler.
	SharedWithoutMemory Rule = "shared_without_memory"
	// CoreNotMultipleOfShared: gpu-core that gpu.shared does not divide.
	// Webhook; scheduler.
	CoreNotMultipleOfShared Rule = "core_not_multiple_of_shared"
	// RatioNotMultipleOfShared: gpu-memory-ratio that gpu.shared does not
	// divide. Webhook; scheduler.
	RatioNotMultipleOfShared Rule = "ratio_not_multiple_of_shared"
	// CoreNotMultipleOf100: gpu-core above 100 and no multiple of 100, without
	// gpu.shared. Scheduler.
	CoreNotMultipleOf100 Rule = "core_not_multiple_of_100"
	// RatioNotMultipleOf100: gpu-memory-ratio above 100 and no multiple of 100,
	// without gpu.shared. Scheduler.
	RatioNotMultipleOf100 Rule = "ratio_not_multiple_of_100"
	// CoreOverDevice: gpu-core above 100 for each device of gpu.shared. Scheduler.
	CoreOverDevice Rule = "core_over_device"
	// RatioOverDevice: gpu-memory-ratio above 100 for each device of gpu.shared.
	// Scheduler.
	RatioOverDevice Rule = "ratio_over_device"
	// NPUOverDevice: a share of more than one Huawei NPU, or of more than 100
	// points of its DVPP. Scheduler.
	NPUOverDevice Rule = "npu_over_device"
	// UnknownCombination: a set of names that is not in the scheduler's table,
	// where none of the rules above says why. Scheduler.
	UnknownCombination Rule = "unknown_combination"
)

// Rules returns every rule, sorted.
func Rules() []Rule {
	return []Rule{
		CoreNotMultipleOf100, CoreNotMultipleOfShared, CoreOverDevice, CoreWithoutMemory,
		GPUNotMultipleOf100, GPUWithShared, GPUZero,
		MemoryWithRatio, MemoryWithoutShared, NPUOverDevice,
		RatioNotMultipleOf100, RatioNotMultipleOfShared, RatioOverDevice,
		SharedWithoutMemory, SharedZero, UnknownCombination, VendorWithShare,
	}
}

// Check returns each rule of Koordinator's GPU share API that the requests of a pod break, once
// and sorted. The containers are those of the pod as stored, init containers too, pod its effective
// requests: see [PodRequests]. A nil pod leaves out what only the pod as a whole can break. Requests
// that name no koordinator.sh GPU resource break none. No rule is about FPGA or RDMA.
//
// Koordinator's webhook checks app containers only. The proposal makes no such exception, and the
// requests of an init container are as binding as others.
//
// In the proposal a vendor's GPU is any name of a vendor's device plugin, also one that the user
// added; the scheduler knows only nvidia.com/gpu, amd.com/gpu and dcu.com/gpu. Check follows the
// proposal, so that it reports MIG beside a share too.
func (f Families) Check(containers []Requests, pod Requests) []Rule {
	broken := map[Rule]bool{}
	var share, vendor bool
	look := func(r Requests) {
		for name, q := range r {
			family, ok := f.Lookup(name)
			share = share || family == Koordinator
			vendor = vendor || ok && family == Vendor && Units(q) > 0
		}
		checkStored(r, broken)
	}
	for _, c := range containers {
		look(c)
	}
	look(pod)
	if !share {
		return nil
	}
	if vendor {
		broken[VendorWithShare] = true
	}
	checkScheduler(pod, broken)
	return slices.Sorted(maps.Keys(broken))
}

// checkStored applies the proposal and the webhook, which look at containers;
// the pod's sum can break them as well and is then refused by the scheduler.
func checkStored(r Requests, broken map[Rule]bool) {
	_, hasGPU := r[koordGPU]
	_, hasShared := r[koordShared]
	gpu, shared, core := Units(r[koordGPU]), Units(r[koordShared]), Units(r[koordCore])
	memory, ratio := Units(r[koordMemory]), Units(r[koordRatio])

	if hasGPU && hasShared {
		broken[GPUWithShared] = true
		return
	}
	ofGPU, sized := Units(r[npuCore]) == 0, memory > 0 || ratio > 0
	note(broken, map[Rule]bool{
		GPUZero:                  hasGPU && gpu == 0,
		GPUNotMultipleOf100:      gpu > 100 && gpu%100 != 0,
		SharedZero:               hasShared && shared == 0,
		MemoryWithRatio:          ofGPU && memory > 0 && ratio > 0,
		CoreWithoutMemory:        ofGPU && !sized && core > 0 && !hasGPU,
		SharedWithoutMemory:      ofGPU && !sized && hasShared,
		MemoryWithoutShared:      ofGPU && sized && !hasShared && !hasGPU,
		CoreNotMultipleOfShared:  ofGPU && shared > 0 && core%shared != 0,
		RatioNotMultipleOfShared: ofGPU && shared > 0 && ratio%shared != 0,
	})
}

// note adds the rules that are broken.
func note(broken, rules map[Rule]bool) {
	for rule, breaks := range rules {
		if breaks {
			broken[rule] = true
		}
	}
}

// The names that the scheduler's combinations are made of, as bits.
const (
	bitNVIDIA = 1 << iota
	bitAMD
	bitHygon
	bitGPU
	bitShared
	bitCore
	bitMemory
	bitRatio
	bitNPUCore
	bitNPUCPU
	bitNPUDVPP
)

var combinationBits = map[string]int{
	"nvidia.com/gpu": bitNVIDIA, "amd.com/gpu": bitAMD, "dcu.com/gpu": bitHygon,
	koordGPU: bitGPU, koordShared: bitShared, koordCore: bitCore, koordMemory: bitMemory, koordRatio: bitRatio,
	npuCore: bitNPUCore, npuCPU: bitNPUCPU, npuDVPP: bitNPUDVPP,
}

// combinations are those that the scheduler accepts.
var combinations = []int{
	bitNVIDIA, bitAMD, bitHygon, bitGPU, bitMemory, bitRatio,
	bitCore | bitMemory, bitCore | bitRatio, bitNPUCore | bitRatio,
	bitShared | bitMemory, bitShared | bitRatio,
	bitShared | bitCore | bitMemory, bitShared | bitCore | bitRatio,
	bitShared | bitNPUCore | bitNPUCPU | bitMemory,
	bitShared | bitNPUCore | bitNPUCPU | bitNPUDVPP | bitMemory,
}

// checkScheduler applies what the scheduler refuses in the pod's effective
// requests, from which it removes zeros.
func checkScheduler(pod Requests, broken map[Rule]bool) {
	var names int
	for name, bit := range combinationBits {
		if Units(pod[name]) > 0 {
			names |= bit
		}
	}
	shared, core, ratio := Units(pod[koordShared]), Units(pod[koordCore]), Units(pod[koordRatio])
	note(broken, map[Rule]bool{
		CoreNotMultipleOf100:  shared == 0 && core > 100 && core%100 != 0,
		CoreOverDevice:        shared > 0 && core/shared > 100,
		RatioNotMultipleOf100: shared == 0 && ratio > 100 && ratio%100 != 0,
		RatioOverDevice:       shared > 0 && ratio/shared > 100,
		NPUOverDevice:         names&bitNPUCore != 0 && names&bitShared != 0 && (shared > 1 || Units(pod[npuDVPP]) > 100),
		UnknownCombination: names != 0 && !slices.Contains(combinations, names) &&
			!broken[VendorWithShare] && !broken[MemoryWithRatio] && !broken[CoreWithoutMemory] &&
			!broken[SharedWithoutMemory] && !broken[GPUWithShared],
	})
}
