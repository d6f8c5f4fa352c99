// Package gpushare converts the GPU requests and declarations of pods to a common form. It converts
// quantities and annotations to plain values, without side effects and without calls to the API
// server. If the input is invalid, it returns the valid part and either an error or a broken rule.
// It never panics and never guesses a value.
//
// # The families
//
// Pods request GPUs with the resource names of different systems. A [Family] is the group of names
// that one system uses:
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
//	koordinator  koordinator.sh/{gpu,gpu-core,gpu-memory-ratio}  percent points
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
// No source code was available for Aliyun and Tencent. [IsAmount] reports whether the unit of a
// resource is neither devices nor slots.
//
// # From a request to a share
//
// For Koordinator and HAMi, [Demands] returns how many devices a container requests and how much of
// each device: its memory in bytes or as a ratio, and its compute as a ratio. Koordinator's requests
// are converted as in Koordinator's webhook and scheduler:
//
//  1. gpu = v becomes gpu-core = v and gpu-memory-ratio = v.
//  2. The default of gpu.shared is 1. If the ratio (or core, if there is no ratio) is a multiple of
//     100 and above 100, the default is that value divided by 100.
//  3. Each of the gpu.shared devices provides an equal part of core and ratio, or of the bytes if
//     there is no ratio.
//
// [MemoryOf] converts a ratio to bytes. For an admission webhook, [Normalize] returns the first two
// steps as a JSON patch.
//
// # Rules
//
// [Families.Check] returns the [Rule] names that a pod's requests break: the four rules of the GPU
// share proposal, the rules of the validating webhook, and the scheduler's table of combinations.
// Koordinator's code enforces fewer rules than its proposal, and some only behind a feature gate.
// Therefore, pods that break rules can exist, and a metric counts them. The comment of each rule
// names the components that enforce it. [Families.Violations] adds the container, the field, and the
// allowed values for the messages of an admission webhook.
//
// # Allocations
//
// [PodAllocations] parses the annotations in which Koordinator, HAMi, and KAI record devices.
// [Budgets] returns the memory that each container may use, from requests and annotations.
//
// Sources: Koordinator at a7a1b76 and its GPU share proposal, HAMi at 4707fb0. Where their
// documentation and code differ, a comment states which of them this package follows.
package gpushare
