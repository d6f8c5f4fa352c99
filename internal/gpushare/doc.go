// Package gpushare converts the GPU requests and declarations of pods to a common form. The
// functions convert quantities and annotations to plain values, have no side effects, and do not
// call the API server. If the input is invalid, the functions return the valid part and either an
// error or a broken rule. The functions never panic and never guess a value.
//
// # The families
//
// Pods use the resource names of different systems to request GPUs. The table lists the systems,
// their resource names, and the units of the quantities. A [Family] contains the resource names of
// one or more of these systems:
//
//	nvidia       nvidia.com/gpu, nvidia.com/gpu.shared         devices or slots
//	nvidia_mig   nvidia.com/mig-<profile>[.me][.shared]        instances or slots
//	amd          amd.com/gpu, amd.com/{s,d,q,c}px_nps{1,2,4}   devices, partitions
//	hygon        dcu.com/gpu, hygon.com/dcunum                 devices
//	intel        gpu.intel.com/{i915,xe}, not *_monitoring     devices
//	gaudi        habana.ai/gaudi                               devices
//	tpu          google.com/tpu                                chips
//	neuron       aws.amazon.com/{neuron,neurondevice}          devices
//	             aws.amazon.com/neuroncore                     cores of devices
//	ascend       huawei.com/Ascend910 and others               devices, virtual NPUs
//	koordinator  koordinator.sh/{gpu,gpu-core,gpu-memory-ratio}  percentage points
//	             koordinator.sh/gpu-memory                     bytes
//	             koordinator.sh/gpu.shared                     devices in a pod, slots on a node
//	hami         gpumem (MiB), gpumem-percentage, gpucores     of each vGPU of one container
//	             with nvidia.com/gpu, amd.com/gpu, hygon.com/dcunum
//	aliyun       aliyun.com/gpu-mem                            GiB on one device
//	tencent      tencent.com/vcuda-{core,memory}               points, 256 MiB blocks
//	dra          deviceclass.resource.kubernetes.io/<class>    devices, of the classes given
//	others       metax-tech.com/sgpu, mthreads.com/vgpu, birentech.com/gpu, volcano.sh/vgpu-number,
//	             k8s.amazonaws.com/vgpu, added names           devices or slots
//	kai          annotations only
//
// A slot is one of several virtual devices that a device plugin advertises for one device. The zero
// value of [Families] contains the names in this table; [NewFamilies] adds names and DeviceClasses.
// No source code was available for Aliyun and Tencent. [IsAmount] reports whether a resource has a
// unit other than devices or slots.
//
// # From a request to a share
//
// For Koordinator and HAMi, [Demands] returns how many devices a container requests and how much of
// each device: its memory in bytes or as a ratio, and its compute as a ratio. [Demands] converts
// Koordinator's requests in the same way as Koordinator's webhook and scheduler:
//
//  1. A request for gpu becomes requests for gpu-core and gpu-memory-ratio with the same value.
//  2. gpu.shared defaults to 1. However, if gpu-memory-ratio (or gpu-core, if there is no ratio) is
//     above 100 and a multiple of 100, gpu.shared defaults to that value divided by 100.
//  3. The value of gpu.shared is the number of devices. The requested core and memory are divided
//     equally among these devices.
//
// [MemoryOf] converts a ratio to bytes. For an admission webhook, [Normalize] returns a JSON patch
// that performs the first two steps.
//
// # Rules
//
// [Families.Check] returns the [Rule] names that a pod's requests break: the four rules of the GPU
// share proposal, the rules of the validating webhook, and the scheduler's table of combinations.
// Koordinator's code enforces fewer rules than its proposal defines, and some rules only behind a
// feature gate. As a result, running pods can break rules, and a metric counts those pods. The
// comment on each rule names the components that define the rule. For the messages of an admission
// webhook, [Families.Violations] adds the container, the field, and the allowed values.
//
// # Allocations
//
// [PodAllocations] parses the annotations in which Koordinator, HAMi, and Volcano record allocated
// devices, and KAI's annotations, which contain only a request. [Budgets] uses requests and
// annotations to determine how much memory each container may use.
//
// Package gpushare is based on Koordinator at commit a7a1b76, Koordinator's GPU share proposal, and
// HAMi at commit 4707fb0. If the documentation and the code of these projects differ, a comment
// states which of them this package follows.
package gpushare
