package signal

// Metrics about scheduling, which the gpu_cluster receiver computes from API objects. The
// OpenTelemetry Resource of most of these metrics is the cluster. For allocatable GPUs, capacity,
// and node conditions, the Resource is the node. For device health, the Resource is the container.
var (
	// ClusterPendingPodCount is the number of pods that are waiting for GPUs, as OpenCost defines
	// it.
	ClusterPendingPodCount = add(Metric{
		Name: "cluster.gpu.pending_pod_count", Unit: "{pod}", Int: true, Stage: StageCluster,
		Description: "Pods in phase Pending that request the resource, by OpenCost's definition.",
		Source:      "regular containers' requests, otherwise limits",
		OpenCost:    "cluster_gpu_pending_pod_count",
		Attributes:  []string{Resource},
	})
	// ClusterPendingRequestTotal is the number of units that pending pods request, as OpenCost
	// defines it.
	ClusterPendingRequestTotal = add(Metric{
		Name: "cluster.gpu.pending_request_total", Unit: "{gpu}", Int: true, Stage: StageCluster,
		Description: "Units of the resource that pods in phase Pending request, by OpenCost's definition.",
		Source:      "regular containers' requests, otherwise limits",
		OpenCost:    "cluster_gpu_pending_request_total",
		Attributes:  []string{Resource},
	})
	// ClusterRequestedAllocatableRatio is the scheduler saturation, as OpenCost defines it.
	ClusterRequestedAllocatableRatio = add(Metric{
		Name: "cluster.gpu.requested_allocatable_ratio", Unit: "1", MayExceed1: true, Stage: StageCluster,
		Description: "Units requested by Pending and Running pods, divided by the allocatable units of all nodes, by OpenCost's definition. Above 1, the cluster is oversubscribed.",
		Source:      "requested / allocatable, only if allocatable > 0",
		OpenCost:    "cluster_gpu_requested_allocatable_ratio",
		Attributes:  []string{Resource},
	})
	// K8sGPUPods is the number of pods that request a GPU resource, by resource and state.
	K8sGPUPods = add(Metric{
		Name: "k8s.gpu.pods", Unit: "{pod}", Int: true, Stage: StageCluster,
		Description: "Pods that request the resource, by state. Terminal pods do not count. Terminating pods with a node count.",
		Source:      "effective pod requests, as the scheduler computes them",
		Attributes:  []string{Resource, State},
	})
	// K8sGPURequested is the number of requested units in the pods that K8sGPUPods counts.
	K8sGPURequested = add(Metric{
		Name: "k8s.gpu.requested", Unit: "{gpu}", Int: true, Stage: StageCluster,
		Description: "Devices or slots that these pods request, by state. Absent for resources that are amounts of memory or compute.",
		Source:      "effective pod requests, as the scheduler computes them",
		Attributes:  []string{Resource, State},
	})
	// K8sGPUAllocatable is the number of allocatable GPUs on a node.
	K8sGPUAllocatable = add(Metric{
		Name: "k8s.gpu.allocatable", Unit: "{gpu}", Int: true, Stage: StageCluster,
		Description: "Allocatable devices or slots of the node, by the node's state. Absent for resources that are amounts.",
		Source:      "node.status.allocatable",
		Attributes:  []string{Resource, State},
	})
	// K8sGPUCapacity is the total number of GPUs on a node.
	K8sGPUCapacity = add(Metric{
		Name: "k8s.gpu.capacity", Unit: "{gpu}", Int: true, Stage: StageCluster,
		Description: "Devices or slots of the node, by the node's state. Absent for resources that are amounts.",
		Source:      "node.status.capacity",
		Attributes:  []string{Resource, State},
	})
	// K8sNodeGPUCondition reports node conditions about GPUs, which other software sets.
	K8sNodeGPUCondition = add(Metric{
		Name: "k8s.node.gpu.condition", Unit: "{condition}", Int: true, Stage: StageCluster,
		Description: "1 for the current status of each node condition about GPUs, as other software set it.",
		Source:      "node.status.conditions, by the receiver's node_conditions",
		Attributes:  []string{NodeConditionType, NodeConditionStatus},
	})
	// K8sPodGPUHealth is the health of a pod's devices, as the kubelet reports it.
	K8sPodGPUHealth = add(Metric{
		Name: "k8s.pod.gpu.health", Unit: "{device}", Int: true, Stage: StageCluster,
		Description: "1 for the current health (healthy, unhealthy, unknown) of each GPU of a container, as its device plugin or DRA driver reports it.",
		Source:      "status.containerStatuses.allocatedResourcesStatus of pods",
		Attributes:  []string{Resource, ResourceID, State},
	})
	// K8sGPUPendingOldestAge is the age of the oldest pod that is waiting for a GPU resource.
	K8sGPUPendingOldestAge = add(Metric{
		Name: "k8s.gpu.pending.oldest_age", Unit: "s", Stage: StageCluster,
		Description: "Age of the oldest pod that waits for the resource without a node. Absent if no pod waits.",
		Source:      "metadata.creationTimestamp of pods gated, unschedulable or queued",
		Attributes:  []string{Resource},
	})
	// K8sGPURequestInvalid is the number of pods whose requests break a rule of the GPU share API.
	K8sGPURequestInvalid = add(Metric{
		Name: "k8s.gpu.request.invalid", Unit: "{pod}", Int: true, Stage: StageCluster,
		Description: "Pods whose spec breaks the rule of the GPU share API.",
		Source:      "container requests and annotations",
		Attributes:  []string{Rule},
	})
	// K8sResourceSliceDevices is the number of devices that DRA drivers advertise.
	K8sResourceSliceDevices = add(Metric{
		Name: "k8s.resourceslice.devices", Unit: "{device}", Int: true, Stage: StageCluster,
		Description: "Devices that a DRA driver advertises in a complete pool of the highest generation.",
		Source:      "ResourceSlice devices; partitions of one device are all listed",
		Attributes:  []string{DRADriver, DRAPool, DRADeviceType},
	})
	// K8sResourceSlicePoolDevices is the number of devices in a pool that are allocated,
	// unavailable, or available.
	K8sResourceSlicePoolDevices = add(Metric{
		Name: "k8s.resourceslice.pool.devices", Unit: "{device}", Int: true, Stage: StageCluster, Off: true,
		Description: "Devices of a complete pool: allocated to a claim, unavailable because of a taint, or available. The state available is absent if devices share hardware or can be allocated several times. Off by default.",
		Source:      "ResourceSlice devices, DeviceTaintRules, ResourceClaim allocation results",
		Attributes:  []string{DRADriver, DRAPool, State},
	})
	// K8sResourceSliceCapacity is the capacity of advertised devices.
	K8sResourceSliceCapacity = add(Metric{
		Name: "k8s.resourceslice.capacity", Unit: "{unit}", Stage: StageCluster,
		Description: "Capacity of these devices, in the quantity's unit. A capacity counts once if several devices consume it from one counter set, or if it belongs to another listed device.",
		Source:      "ResourceSlice device capacities",
		Attributes:  []string{DRADriver, DRAPool, DRADeviceType, DRACapacity},
	})
	// K8sResourceSliceDevice has a series for each advertised device.
	K8sResourceSliceDevice = add(Metric{
		Name: "k8s.resourceslice.device", Unit: "{device}", Int: true, Stage: StageCluster,
		Description: "1 for each advertised device, with the driver's attributes. To match it with telemetry, join on hw.id or gpu.mig.uuid.",
		Source:      "ResourceSlice devices",
		Attributes:  []string{DRADriver, DRAPool, DRADevice},
	})
	// K8sResourceSliceDeviceTaint has a series for each taint of an advertised device.
	K8sResourceSliceDeviceTaint = add(Metric{
		Name: "k8s.resourceslice.device.taint", Unit: "{taint}", Int: true, Stage: StageCluster,
		Description: "1 for each taint that a driver or a DeviceTaintRule set on an advertised device, with the taint's key, value and effect.",
		Source:      "ResourceSlice devices, DeviceTaintRules",
		Attributes:  []string{DRADriver, DRAPool, DRADevice, DRATaintKey, DRATaintValue, DRATaintEffect},
	})
	// K8sResourceClaimCount is the number of ResourceClaims.
	K8sResourceClaimCount = add(Metric{
		Name: "k8s.resourceclaim.count", Unit: "{claim}", Int: true, Stage: StageCluster,
		Description: "ResourceClaims for GPUs by state: pending (without an allocation), allocated (without a reservation), or reserved (by a pod).",
		Source:      "ResourceClaims, and pending pods whose claims do not exist yet",
		Attributes:  []string{DeviceClassName, State},
	})
	// K8sResourceClaimRequested is the number of devices that ResourceClaims request.
	K8sResourceClaimRequested = add(Metric{
		Name: "k8s.resourceclaim.requested", Unit: "{device}", Int: true, Stage: StageCluster,
		Description: "Devices that these claims request or have.",
		Source:      "claim requests, allocation results",
		Attributes:  []string{DeviceClassName, State},
	})
	// K8sResourceClaimDevice has a series for each device that is allocated to a claim.
	K8sResourceClaimDevice = add(Metric{
		Name: "k8s.resourceclaim.device", Unit: "{device}", Int: true, Stage: StageCluster,
		Description: "1 for each device of a claim and each pod that reserves it. To match it with telemetry, join on hw.id or gpu.mig.uuid.",
		Source:      "ResourceClaim allocation results, ResourceSlice attributes",
		Attributes:  []string{ResourceClaimUID, DRARequest, DRADriver, DRAPool, DRADevice, DRAShareID},
	})
	// K8sResourceClaimDeviceCondition has a series for each condition of an allocated device.
	K8sResourceClaimDeviceCondition = add(Metric{
		Name: "k8s.resourceclaim.device.condition", Unit: "{condition}", Int: true, Stage: StageCluster, Off: true,
		Description: "1 for the current status of each condition of a claim's device, as its driver reports it. A binding condition that was not reported is unknown. Off by default.",
		Source:      "ResourceClaim status.devices, and the binding conditions of the allocation results",
		Attributes:  []string{ResourceClaimUID, DRARequest, DRADriver, DRAPool, DRADevice, DRAShareID, DRAConditionType, DRAConditionStatus, DRAConditionRole},
	})
)
