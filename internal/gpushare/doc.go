// Package gpushare turns what pods declare about GPUs into one form. It is
// pure: quantities and annotations in, plain values out; it never asks the API
// server, and a mistake in the input is an error or a broken rule beside the
// good part, never a panic or a guess.
//
// # The families
//
// GPUs are asked for in several languages. A [Family] is a group of them:
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
//	ascend       huawei.com/Ascend910 and its kin              devices, virtual NPUs
//	koordinator  koordinator.sh/{gpu,gpu-core,gpu-memory-ratio}  percent points
//	             koordinator.sh/gpu-memory                     bytes
//	             koordinator.sh/gpu.shared                     devices in a pod, slots on a node
//	hami         gpumem (MiB), gpumem-percentage, gpucores     of each vGPU of one container
//	             beside nvidia.com/gpu, amd.com/gpu, hygon.com/dcunum
//	aliyun       aliyun.com/gpu-mem                            GiB on one device
//	tencent      tencent.com/vcuda-{core,memory}               points, 256 MiB blocks
//	dra          deviceclass.resource.kubernetes.io/<class>    devices, of the classes given
//	others       metax-tech.com/sgpu, mthreads.com/vgpu, birentech.com/gpu, volcano.sh/vgpu-number,
//	             k8s.amazonaws.com/vgpu, added names           devices or slots
//	kai          annotations only
//
// [Families] is the table; its zero value holds the above, [NewFamilies] adds
// names and DeviceClasses. Aliyun and Tencent are from general knowledge. [IsAmount] says which
// of the units are neither devices nor slots.
//
// # From a request to a share
//
// [Demands] says, for Koordinator and HAMi, how many devices a container wants, and how much of
// each: bytes or a ratio of its memory, a ratio of its compute. Koordinator is brought to this
// form as its webhook and scheduler do:
//
//  1. gpu = v becomes gpu-core = v and gpu-memory-ratio = v.
//  2. Without gpu.shared, it is ratio/100 (without a ratio core/100) where that
//     is a multiple of 100 above 100, else 1.
//  3. Each of the gpu.shared devices gives an equal part of core and ratio, or
//     of the bytes where there is no ratio.
//
// A ratio meets a device's size in [MemoryOf]. [Normalize] makes the first two steps as a JSON patch
// of a pod, for an admission webhook.
//
// # Rules
//
// [Families.Check] reports the [Rule] names that a pod's requests break: the proposal's four,
// the validating webhook's, and the scheduler's table of combinations. Koordinator's code
// enforces fewer than its proposal states, some of them only behind a feature gate; pods that
// break them are stored all the same, which is why there is a metric. Each rule's comment names
// who enforces it. [Families.Violations] adds the container, the field and what is allowed, for
// an admission webhook.
//
// # What was given
//
// [PodAllocations] reads the annotations in which Koordinator, HAMi and KAI write down devices.
// [Budgets] returns the memory that each container may use, from requests and annotations.
//
// Sources: Koordinator at a7a1b76 and its GPU share proposal, HAMi at 4707fb0. Where their texts
// and their code differ, a comment there says which one is followed.
package gpushare
