package signal

// Attribute keys of data points. Most keys that start with hw, k8s, host, network, error, or url
// are from the OpenTelemetry semantic conventions.
const (
	// HardwareID identifies a device: GPU-<uuid>, or GPU-<uuid>/gi<id> for a MIG instance.
	HardwareID = "hw.id"
	// HardwareParent is the hw.id of a MIG instance's board.
	HardwareParent = "hw.parent"
	// HardwareName is the device's name in the operating system, such as nvidia0.
	HardwareName = "hw.name"
	// HardwareModel is the model name that the exporter exposes.
	HardwareModel = "hw.model"
	// HardwareVendor is the manufacturer's name.
	HardwareVendor = "hw.vendor"
	// HardwareType is the kind of hardware component. The value is always TypeGPU.
	HardwareType = "hw.type"
	// HardwareSerialNumber is the board's serial number.
	HardwareSerialNumber = "hw.serial_number"
	// HardwareDriverVersion is the version of the GPU driver.
	HardwareDriverVersion = "hw.driver_version"
	// GPUTask is the engine whose utilization hw.gpu.utilization reports.
	GPUTask = "hw.gpu.task"
	// SensorLocation is the location of a temperature sensor.
	SensorLocation = "hw.sensor_location"
	// HardwareState is a state of the board that hw.status reports.
	HardwareState = "hw.state"
	// RecoveryAction is an action that the gpu.recovery.action metric reports.
	RecoveryAction = "gpu.recovery.action"
	// EventSource is the source of an event count: either the exporter's counter, or changes to the
	// field that contains the last event's code. Counting changes to the last code yields only a
	// lower bound.
	EventSource = "gpu.event.source"
	// ErrorType is the kind of error that hw.errors counts.
	ErrorType = "error.type"
	// IODirection is the direction of a transfer from the GPU's perspective.
	IODirection = "network.io.direction"
	// ScopeNVML is the instrumentation scope of the nvml receiver's samples.
	ScopeNVML = "github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver"
	// URLFull is the URL of the scraped endpoint, without credentials.
	URLFull = "url.full"

	// MIGProfile is the profile of a MIG instance, such as 1g.10gb.
	MIGProfile = "gpu.mig.profile"
	// MIGInstanceID is the GPU instance ID that NVML assigns to a MIG instance.
	MIGInstanceID = "gpu.mig.gpu_instance.id"
	// MIGUUID is the UUID of a MIG device in the form MIG-<uuid>, if it is known.
	MIGUUID = "gpu.mig.uuid"
	// SharingStrategy specifies how containers share a device.
	SharingStrategy = "gpu.sharing.strategy"
	// PartitionCount is the number of partitions on the board to which a partition belongs.
	PartitionCount = "gpu.partition.count"
	// SharingReplicas is the number of replicas of a shared device that a container holds, if that
	// number is greater than 1.
	SharingReplicas = "gpu.sharing.replicas"
	// HolderSource is the data source that reported which container holds a device.
	HolderSource = "gpu.holder.source"
	// PowerSource is the kind of activity that determined how a board's active power was divided.
	PowerSource = "gpu.power.source"
	// PowerEstimated is true if no activity was measured and power was therefore divided equally or
	// only by size.
	PowerEstimated = "gpu.power.estimated"
	// BudgetSource specifies where a memory budget was declared.
	BudgetSource = "gpu.memory.budget.source"
	// BudgetSourceExporter is the value of BudgetSource for a budget that an exporter reports.
	BudgetSourceExporter = "exporter"
	// UsageEstimated is true if a container's share of a device is not declared and was therefore
	// estimated by dividing or scaling.
	UsageEstimated = "gpu.usage.estimated"
	// CostCurrency is the ISO 4217 code of a cost's currency.
	CostCurrency = "gpu.cost.currency"
	// Reason is the reason for the state that a metric reports.
	Reason = "reason"
	// State is one of a metric's mutually exclusive states.
	State = "state"

	// ClockEventReason is the reason why the driver lowered the clocks.
	ClockEventReason = "gpu.clock.event.reason"
	// ClockViolation is the policy whose violation throttled the device.
	ClockViolation = "gpu.clock.violation"
	// ClockDomain is the clock whose frequency is reported.
	ClockDomain = "gpu.clock.domain"
	// Pipe is the name of an execution pipe of the streaming multiprocessors.
	Pipe = "gpu.pipe"

	// ResourceClaimName is the name of the DRA ResourceClaim to which the device is allocated.
	ResourceClaimName = "k8s.resourceclaim.name"
	// ResourceClaimUID is the UID of the ResourceClaim.
	ResourceClaimUID = "k8s.resourceclaim.uid"
	// DeviceClassName is the name of the DRA DeviceClass that the request specifies.
	DeviceClassName = "k8s.deviceclass.name"
	// DRADriver is the name of the DRA driver that manages the device.
	DRADriver = "dra.driver"
	// DRAPool is the name of the pool to which the device belongs.
	DRAPool = "dra.pool"
	// DRADevice is the device's name within its pool.
	DRADevice = "dra.device"
	// DRARequest is the name of the request in the claim for which the device was allocated.
	DRARequest = "dra.request"
	// DRAShareID distinguishes allocations of a shareable device.
	DRAShareID = "dra.share_id"
	// DRADeviceType is the device's type according to the driver, such as gpu, mig, or vfio.
	DRADeviceType = "dra.device.type"
	// DRATaintKey is the key of a device's taint, such as gpu.nvidia.com/xid.
	DRATaintKey = "dra.taint.key"
	// DRATaintValue is the value of the taint, such as 79. The attribute is omitted if the taint
	// has no value.
	DRATaintValue = "dra.taint.value"
	// DRATaintEffect is the taint's effect on claims: NoSchedule, NoExecute, or None.
	DRATaintEffect = "dra.taint.effect"
	// DRAConditionType is the type of a condition of an allocated device, such as Ready.
	DRAConditionType = "dra.condition.type"
	// DRAConditionStatus is the status of a condition of an allocated device: true, false, or
	// unknown.
	DRAConditionStatus = "dra.condition.status"
	// DRAConditionRole is the role of a condition when the scheduler binds a pod: binding or
	// binding_failure. Conditions without such a role do not have this attribute.
	DRAConditionRole = "dra.condition.role"
	// DRACapacity is the name of a capacity that a device advertises.
	DRACapacity = "dra.capacity"

	// NodeConditionType is the type of a node condition, such as XidCriticalError.
	NodeConditionType = "k8s.node.condition.type"
	// NodeConditionStatus is the status of a node condition: true, false, or unknown.
	NodeConditionStatus = "k8s.node.condition.status"
	// Resource is the name of a Kubernetes resource, such as nvidia.com/gpu.
	Resource = "resource"
	// ResourceID is the ID that the kubelet uses for a device that is allocated to a container.
	ResourceID = "k8s.resource.id"
	// Rule is the name of a rule in the GPU share API that a pod's requests break.
	Rule = "rule"

	// ProcessPID is the process ID in the host's PID namespace.
	ProcessPID = "process.pid"
	// ProcessSource identifies the exporter that reported a process. The attribute is present until
	// gpu_k8s finds the process's device.
	ProcessSource = "gpu.process.source"
	// ContainerID is the container runtime's ID for the container in which a process runs.
	ContainerID = "container.id"
	// AcceleratorMake is cAdvisor's label for the manufacturer.
	AcceleratorMake = "make"
	// AcceleratorModel is cAdvisor's label for the model.
	AcceleratorModel = "model"
	// AcceleratorID is cAdvisor's label for the device's UUID.
	AcceleratorID = "acc_id"
)

// These keys are for resource attributes that describe the node and the workload.
const (
	HostName = "host.name"
	// HostType is the instance type of the node.
	HostType = "host.type"
	// K8sNodeLabelPrefix is the prefix of the attribute keys for node labels.
	K8sNodeLabelPrefix = "k8s.node.label."
	// K8sPodLabelPrefix is the prefix of the attribute keys for pod labels.
	K8sPodLabelPrefix  = "k8s.pod.label."
	K8sClusterName     = "k8s.cluster.name"
	K8sNodeName        = "k8s.node.name"
	K8sNamespaceName   = "k8s.namespace.name"
	K8sPodName         = "k8s.pod.name"
	K8sPodUID          = "k8s.pod.uid"
	K8sContainerName   = "k8s.container.name"
	K8sDeploymentName  = "k8s.deployment.name"
	K8sStatefulSetName = "k8s.statefulset.name"
	K8sDaemonSetName   = "k8s.daemonset.name"
	K8sJobName         = "k8s.job.name"
	K8sCronJobName     = "k8s.cronjob.name"
	// K8sWorkloadKind and K8sWorkloadName identify the top-level owner of a pod, such as a
	// Deployment, JobSet, or RayCluster. Both attributes are omitted until all owners in the pod's
	// owner chain are known.
	K8sWorkloadKind = "k8s.workload.kind"
	K8sWorkloadName = "k8s.workload.name"
	// KueueWorkloadName is the name of the Kueue Workload through which a pod was admitted.
	KueueWorkloadName = "kueue.workload.name"
	// ContainerName is the name of a container that is not in a pod.
	ContainerName = "container.name"
	// HPCJobID is the ID of a batch job.
	HPCJobID = "hpc.job.id"
	// HPCJobUser is the user who started a batch job. HPCJobPartition is the job scheduler's
	// partition (queue) in which the job runs.
	HPCJobUser      = "hpc.job.user"
	HPCJobPartition = "hpc.job.partition"
)

// Well-known attribute values.
const (
	TypeGPU      = "gpu"
	VendorNVIDIA = "NVIDIA"
	VendorAMD    = "AMD"
	VendorGoogle = "Google"
	VendorAWS    = "AWS"
	VendorIntel  = "Intel"
	VendorHuawei = "Huawei"

	TaskGeneral = "general"
	TaskEncoder = "encoder"
	TaskDecoder = "decoder"

	LocationGPU    = "gpu"
	LocationMemory = "memory"
	// AMD GPUs have temperature sensors at the edge of the die and at the hottest point on the die.
	LocationEdge     = "edge"
	LocationJunction = "junction"

	DomainSM     = "sm"
	DomainMemory = "memory"

	DirectionTransmit = "transmit"
	DirectionReceive  = "receive"

	HolderSourceLabels       = "labels"
	HolderSourcePodResources = "pod_resources"
	HolderSourceDRA          = "dra"
	HolderSourceAnnotation   = "annotation"
	HolderSourceProcesses    = "processes"

	SharingNone        = "none"
	SharingMIG         = "mig"
	SharingTimeSlicing = "time_slicing"
	SharingMPS         = "mps"
	SharingDRA         = "dra_shared"
	SharingUnknown     = "unknown"

	EventSourceCounter  = "counter"
	EventSourceLastCode = "last_code"

	StatusOK               = "ok"
	StatusDegraded         = "degraded"
	StatusPredictedFailure = "predicted_failure"
	StatusFailed           = "failed"

	// ErrorTypeXIDPrefix is the text before the XID code in values of error.type.
	ErrorTypeXIDPrefix = "xid_"
)

// Attribute documents an attribute of data points.
type Attribute struct {
	// Key is the attribute's key.
	Key string
	// Meaning describes the attribute for users.
	Meaning string
	// Values lists all possible values. If there are too many values to list, Values is nil.
	Values []string
}

// PointAttributes returns all attributes of data points. Attributes that identify a device come
// first. Callers must not modify the result.
func PointAttributes() []Attribute { return pointAttributes }

var pointAttributes = []Attribute{
	{HardwareID, "the device: `GPU-<uuid>`, or `GPU-<uuid>/gi<GPU instance id>` for a MIG instance", nil},
	{HardwareParent, "the board of a MIG instance", nil},
	{HardwareName, "the operating system's device name", nil},
	{HardwareModel, "the model as the exporter reports it", nil},
	{HardwareVendor, "the manufacturer", []string{VendorNVIDIA, VendorAMD, VendorGoogle, VendorAWS, VendorIntel, VendorHuawei}},
	{HardwareType, "the kind of hardware", []string{TypeGPU}},
	{HardwareSerialNumber, "the board's serial number, if exposed", nil},
	{HardwareDriverVersion, "the driver's version, if exposed", nil},
	{MIGProfile, "MIG profile, on instances", nil},
	{MIGInstanceID, "NVML GPU instance id, on instances", nil},
	{MIGUUID, "MIG device UUID, if known", nil},
	{PartitionCount, "number of the board's partitions, on AMD partitions, if known", nil},
	{SharingStrategy, "how the device is shared, on a container's points", []string{
		SharingNone, SharingMIG, SharingTimeSlicing, SharingMPS, SharingDRA, SharingUnknown,
	}},
	{SharingReplicas, "number of replicas of a shared device that the container holds, if several", nil},
	{HolderSource, "source that named the holder", []string{
		HolderSourcePodResources, HolderSourceDRA, HolderSourceAnnotation, HolderSourceLabels, HolderSourceProcesses,
	}},
	{ResourceClaimName, "DRA ResourceClaim that allocated the device", nil},
	{ResourceClaimUID, "UID of the ResourceClaim", nil},
	{DeviceClassName, "DRA DeviceClass of the request", nil},
	{DRADriver, "DRA driver of the device", nil},
	{DRAPool, "the DRA driver's pool", nil},
	{DRADevice, "device name in the pool", nil},
	{DRARequest, "request within the claim", nil},
	{DRAShareID, "allocation of a shareable device", nil},
	{GPUTask, "engine whose utilization is measured", []string{TaskGeneral, TaskEncoder, TaskDecoder}},
	{SensorLocation, "temperature sensor", []string{LocationGPU, LocationMemory, LocationEdge, LocationJunction}},
	{ErrorType, "kind of error; absent while XID errors are counted and none has occurred", []string{
		ErrorTypeXIDPrefix + "<code>", "corrected", "uncorrected", "row_remap_uncorrectable", "row_remap_correctable",
		"row_remap_failure", "pcie_replay", "nvlink_crc", "nvlink_replay", "nvlink_recovery",
		"deferred",
	}},
	{EventSource, "source of the XID count; last_code is a lower bound", []string{EventSourceCounter, EventSourceLastCode}},
	{HardwareState, "the worst observed state of the board", []string{StatusOK, StatusDegraded, StatusPredictedFailure, StatusFailed}},
	{RecoveryAction, "action that ends the error", []string{"none", "gpu_reset", "node_reboot", "drain_p2p", "drain_and_reset"}},
	{IODirection, "direction, seen from the GPU", []string{DirectionTransmit, DirectionReceive}},
	{ClockEventReason, "why the clocks are lowered; of each vendor, the most severe reason first", []string{
		"hw_thermal", "hw_power_brake", "hw_slowdown", "sw_thermal", "sw_power_cap", "sync_boost",
		// Reasons from Level Zero, which Intel's exporter provides.
		"psu_alert", "thermal_limit", "thermal", "current_limit", "voltage", "ave_pwr_cap", "burst_pwr_cap", "power",
		"hw_range", "sw_range",
	}},
	{ClockViolation, "policy that throttles", []string{"power", "thermal", "sync_boost", "board_limit", "processor_hot", "vr_thermal", "hbm_thermal"}},
	{ClockDomain, "clock", []string{DomainSM, DomainMemory}},
	{Pipe, "execution pipe", []string{"tensor", "fp64", "fp32", "fp16", "int", "tensor_imma", "tensor_hmma", "tensor_dfma"}},
	{URLFull, "scraped endpoint, without credentials", nil},
	{PowerSource, "activity that active power is split by", []string{"gr_engine_active", "sm_active", "tensor_dram", "slices"}},
	{PowerEstimated, "true if power was divided equally or only by size, because no measure was available", nil},
	{UsageEstimated, "true if the share of the device was divided or scaled, because of a missing declaration", []string{"true", "false"}},
	{CostCurrency, "ISO 4217 code of the amount", nil},
	{BudgetSource, "source of a memory budget, best source first", []string{
		"koordinator_allocation", "hami_allocation", "dra", "koordinator", "hami", "kai",
		"extended_resource", "annotation", BudgetSourceExporter, "mps", "mig", "whole_gpu",
	}},
	{Finding, "condition that gpu_findings evaluates", []string{FindingFrozen, FindingSpinning, FindingLatched, FindingSlow, FindingDegrading}},
	{Resource, "Kubernetes resource name", nil},
	{ResourceID, "kubelet's name of a device: the device plugin's id, `<driver>/<pool>/<device>` for a claim, or a CDI id", nil},
	{State, "one of the exclusive states", nil},
	{Reason, "reason for the state", nil},
	{Signal, "sample metric, with its own attribute in braces", nil},
	{NodeConditionType, "type of a node condition", nil},
	{NodeConditionStatus, "current status of the condition", []string{"true", "false", "unknown"}},
	{Rule, "rule of the GPU share API that is broken", nil},
	{DRADeviceType, "driver's type of the device", nil},
	{DRATaintKey, "key of a device's taint", nil},
	{DRATaintValue, "value of the taint, if any", nil},
	{DRATaintEffect, "effect of the taint on claims", []string{"NoSchedule", "NoExecute", "None"}},
	{DRAConditionType, "type of a condition of a claim's device", nil},
	{DRAConditionStatus, "current status of the condition", []string{"true", "false", "unknown"}},
	{DRAConditionRole, "`binding` if pods are bound only when the condition is true, `binding_failure` if the allocation is removed when the condition is true, otherwise absent", []string{"binding", "binding_failure"}},
	{DRACapacity, "name of a device's capacity", nil},
	{ProcessPID, "process ID on the host", nil},
	{ProcessSource, "exporter that reported a process, until `gpu_k8s` finds the device", nil},
	{ContainerID, "container runtime's ID", nil},
	{AcceleratorMake, "manufacturer, as cAdvisor labeled it", []string{"nvidia"}},
	{AcceleratorModel, "model, as cAdvisor labeled it", nil},
	{AcceleratorID, "device UUID, as cAdvisor labeled it", nil},
}

// Values returns all possible values of an attribute of data points, or nil if there are too many
// to list.
func Values(key string) []string {
	for _, a := range pointAttributes {
		if a.Key == key {
			return a.Values
		}
	}
	return nil
}

// AttributeRole specifies whether an attribute of a data point is part of the identity of a series.
type AttributeRole uint8

// If an attribute describes a device or a sample and its value changes, the series continues with
// the new value.
const (
	DistinguishesSeries AttributeRole = iota // distinguishes series of the same device
	IdentifiesDevice
	DescribesDevice // Describes the device or its allocation.
	DescribesSample // Describes a sample, and is sent with the last sample of the series.
)

var attributeRoles = map[string]AttributeRole{
	HardwareID: IdentifiesDevice,

	HardwareParent: DescribesDevice, HardwareName: DescribesDevice, HardwareModel: DescribesDevice, HardwareVendor: DescribesDevice,
	HardwareType: DescribesDevice, HardwareSerialNumber: DescribesDevice, HardwareDriverVersion: DescribesDevice,
	MIGProfile: DescribesDevice, MIGInstanceID: DescribesDevice, MIGUUID: DescribesDevice, PartitionCount: DescribesDevice,
	SharingStrategy: DescribesDevice, ResourceClaimName: DescribesDevice, ResourceClaimUID: DescribesDevice, DeviceClassName: DescribesDevice,
	DRADriver: DescribesDevice, DRAPool: DescribesDevice, DRADevice: DescribesDevice, DRARequest: DescribesDevice, DRAShareID: DescribesDevice,

	SharingReplicas: DescribesSample, HolderSource: DescribesSample, PowerSource: DescribesSample, PowerEstimated: DescribesSample,
	BudgetSource: DescribesSample, EventSource: DescribesSample,
}

// RoleOf returns the role of an attribute of data points. Unknown attributes, such as attributes
// that users add, distinguish series.
func RoleOf(key string) AttributeRole { return attributeRoles[key] }
