package gpushare

import (
	"maps"
	"slices"
)

// Rule is the name of a rule in Koordinator's GPU share API that requests can break. The names must
// not change, because they are the values of a metric's attribute.
type Rule string

// Rules of the GPU share API. Each comment states where the rule is defined. The proposal is the
// document that proposes the GPU share API. The webhook is Koordinator's validating webhook, which
// is off by default. The scheduler is Koordinator's deviceshare plugin, which checks the pod's
// effective requests.
const (
	// VendorWithShare means that a pod requests both a vendor's GPU and koordinator.sh GPU
	// resources. Proposal rule 1 and the scheduler define this rule.
	VendorWithShare Rule = "vendor_with_share"
	// MemoryWithRatio means that gpu-memory and gpu-memory-ratio are requested together. Proposal
	// rule 2, the webhook, and the scheduler define this rule.
	MemoryWithRatio Rule = "memory_with_ratio"
	// CoreWithoutMemory means that gpu-core is requested without gpu-memory or gpu-memory-ratio.
	// Proposal rule 3 and the scheduler define this rule.
	CoreWithoutMemory Rule = "core_without_memory"
	// MemoryWithoutShared means that gpu-memory or gpu-memory-ratio is requested without
	// gpu.shared. Proposal rule 4 defines this rule. The scheduler does not enforce the rule. The
	// mutating webhook adds gpu.shared, so a stored pod breaks this rule only if the mutating
	// webhook is off.
	MemoryWithoutShared Rule = "memory_without_shared"
	// GPUWithShared means that koordinator.sh/gpu and gpu.shared are requested together. The
	// webhook and the scheduler define this rule.
	GPUWithShared Rule = "gpu_with_shared"
	// GPUZero means that koordinator.sh/gpu is requested with a quantity that is not greater than
	// zero. The webhook defines this rule.
	GPUZero Rule = "gpu_zero"
	// GPUNotMultipleOf100 means that koordinator.sh/gpu is above 100 and not a multiple of 100. The
	// webhook and the scheduler define this rule.
	GPUNotMultipleOf100 Rule = "gpu_not_multiple_of_100"
	// SharedZero means that gpu.shared is requested with a quantity that is not greater than zero.
	// The webhook defines this rule.
	SharedZero Rule = "shared_zero"
	// SharedWithoutMemory means that gpu.shared is requested, but neither gpu-memory nor
	// gpu-memory-ratio is above zero. The webhook and the scheduler define this rule.
	SharedWithoutMemory Rule = "shared_without_memory"
	// CoreNotMultipleOfShared means that gpu-core is not divisible by gpu.shared. The webhook and
	// the scheduler define this rule.
	CoreNotMultipleOfShared Rule = "core_not_multiple_of_shared"
	// RatioNotMultipleOfShared means that gpu-memory-ratio is not divisible by gpu.shared. The
	// webhook and the scheduler define this rule.
	RatioNotMultipleOfShared Rule = "ratio_not_multiple_of_shared"
	// CoreNotMultipleOf100 means that gpu.shared is not requested and gpu-core is above 100 but not
	// a multiple of 100. The scheduler defines this rule.
	CoreNotMultipleOf100 Rule = "core_not_multiple_of_100"
	// RatioNotMultipleOf100 means that gpu.shared is not requested and gpu-memory-ratio is above
	// 100 but not a multiple of 100. The scheduler defines this rule.
	RatioNotMultipleOf100 Rule = "ratio_not_multiple_of_100"
	// CoreOverDevice means that gpu-core exceeds 100 per requested device (gpu.shared). The
	// scheduler defines this rule.
	CoreOverDevice Rule = "core_over_device"
	// RatioOverDevice means that gpu-memory-ratio exceeds 100 per requested device (gpu.shared).
	// The scheduler defines this rule.
	RatioOverDevice Rule = "ratio_over_device"
	// NPUOverDevice means that a pod requests a share of more than one Huawei NPU, or more than 100
	// percentage points of the NPU's DVPP. The scheduler defines this rule.
	NPUOverDevice Rule = "npu_over_device"
	// UnknownCombination means that the scheduler does not accept the combination of resource
	// names, and that no other rule explains why. The scheduler defines this rule.
	UnknownCombination Rule = "unknown_combination"
)

// Rules returns all rules in alphabetical order.
func Rules() []Rule {
	return []Rule{
		CoreNotMultipleOf100, CoreNotMultipleOfShared, CoreOverDevice, CoreWithoutMemory,
		GPUNotMultipleOf100, GPUWithShared, GPUZero,
		MemoryWithRatio, MemoryWithoutShared, NPUOverDevice,
		RatioNotMultipleOf100, RatioNotMultipleOfShared, RatioOverDevice,
		SharedWithoutMemory, SharedZero, UnknownCombination, VendorWithShare,
	}
}

// Check returns the rules of Koordinator's GPU share API that a pod's requests break, sorted and
// without duplicates. The containers parameter contains the requests of all containers in the
// stored pod, including init containers. The pod parameter contains the pod's effective requests;
// see [PodRequests]. If the pod parameter is nil, Check skips the rules for the entire pod.
// Requests without koordinator.sh GPU resources do not break any rule. There are no rules for FPGAs
// or RDMA.
//
// Koordinator's webhook checks only app containers. Check also checks init containers, because the
// proposal does not exempt them.
//
// According to the proposal, a vendor's GPU is any resource of a vendor's device plugin, including
// resources that the user added. The scheduler supports only nvidia.com/gpu, amd.com/gpu, and
// dcu.com/gpu. Check follows the proposal: for example, a request for a MIG resource together with
// a share breaks a rule.
func (f Families) Check(containers []Requests, pod Requests) []Rule {
	broken := map[Rule]bool{}
	var share, vendor bool
	check := func(r Requests) {
		for name, q := range r {
			family, ok := f.Lookup(name)
			share = share || family == Koordinator
			vendor = vendor || ok && family == Vendor && Units(q) > 0
		}
		checkStored(r, broken)
	}
	for _, c := range containers {
		check(c)
	}
	check(pod)
	if !share {
		return nil
	}
	if vendor {
		broken[VendorWithShare] = true
	}
	checkScheduler(pod, broken)
	return slices.Sorted(maps.Keys(broken))
}

// checkStored applies the rules of the proposal and the webhook. The proposal and the webhook check
// each container separately. The sum of the requests of all containers can also break these rules.
// In that case, the scheduler rejects the pod.
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
	addBroken(broken, map[Rule]bool{
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

func addBroken(broken, rules map[Rule]bool) {
	for rule, breaks := range rules {
		if breaks {
			broken[rule] = true
		}
	}
}

// Each bit represents a resource name in the scheduler's combinations.
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

// combinations contains the combinations of resource names that the scheduler accepts.
var combinations = []int{
	bitNVIDIA, bitAMD, bitHygon, bitGPU, bitMemory, bitRatio,
	bitCore | bitMemory, bitCore | bitRatio, bitNPUCore | bitRatio,
	bitShared | bitMemory, bitShared | bitRatio,
	bitShared | bitCore | bitMemory, bitShared | bitCore | bitRatio,
	bitShared | bitNPUCore | bitNPUCPU | bitMemory,
	bitShared | bitNPUCore | bitNPUCPU | bitNPUDVPP | bitMemory,
}

// checkScheduler applies the scheduler's rules to a pod's effective requests. The scheduler ignores
// requests with a quantity of zero.
func checkScheduler(pod Requests, broken map[Rule]bool) {
	var names int
	for name, bit := range combinationBits {
		if Units(pod[name]) > 0 {
			names |= bit
		}
	}
	shared, core, ratio := Units(pod[koordShared]), Units(pod[koordCore]), Units(pod[koordRatio])
	addBroken(broken, map[Rule]bool{
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
