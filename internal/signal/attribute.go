package signal

// Attribute keys of data points. Keys that start with hw, k8s, host, network,
// error or url are OpenTelemetry semantic conventions.
const (
	// HardwareID identifies a device: GPU-<uuid>, or GPU-<uuid>/gi<id> for a
	// MIG instance.
	HardwareID = "hw.id"
	// HardwareParent is the hw.id of the board that a MIG instance belongs to.
	HardwareParent = "hw.parent"
	// HardwareName is the operating system's name of the device: nvidia0.
	HardwareName = "hw.name"
	// HardwareModel is the model name as the exporter exposed it.
	HardwareModel = "hw.model"
	// HardwareVendor is the manufacturer's name.
	HardwareVendor = "hw.vendor"
	// HardwareType is the kind of the component; always TypeGPU here.
	HardwareType = "hw.type"
	// GPUTask tells which engine hw.gpu.utilization speaks of.
	GPUTask = "hw.gpu.task"
	// SensorLocation tells which temperature sensor was read.
	SensorLocation = "hw.sensor_location"
	// ErrorType is the kind of an error counted by hw.errors.
	ErrorType = "error.type"
	// IODirection is the direction of a transfer, seen from the GPU.
	IODirection = "network.io.direction"
	// URLFull is the scraped endpoint without credentials.
	URLFull = "url.full"

	// MIGProfile is the profile of a MIG instance, such as 1g.10gb.
	MIGProfile = "gpu.mig.profile"
	// MIGInstanceID is the NVML GPU instance id of a MIG instance.
	MIGInstanceID = "gpu.mig.gpu_instance.id"
	// MIGUUID is the MIG-<uuid> of a MIG device, where it is known.
	MIGUUID = "gpu.mig.uuid"
	// SharingStrategy tells how a device is shared between containers.
	SharingStrategy = "gpu.sharing.strategy"
	// HolderSource tells who said that a container holds a device.
	HolderSource = "gpu.holder.source"

	// ClockEventReason is one reason for which the driver lowered the clocks.
	ClockEventReason = "gpu.clock.event.reason"
	// ClockViolation is the policy whose violation throttled the device.
	ClockViolation = "gpu.clock.violation"
	// ClockDomain is the clock that a frequency belongs to.
	ClockDomain = "gpu.clock.domain"
	// Pipe is an execution pipe of the streaming multiprocessors.
	Pipe = "gpu.pipe"

	// ResourceClaimName is the DRA ResourceClaim that allocated the device.
	ResourceClaimName = "k8s.resourceclaim.name"
	// ResourceClaimUID is the UID of that claim.
	ResourceClaimUID = "k8s.resourceclaim.uid"
	// DeviceClassName is the DRA DeviceClass of the request.
	DeviceClassName = "k8s.deviceclass.name"
	// DRADriver is the DRA driver that owns the device.
	DRADriver = "dra.driver"
	// DRAPool is the driver's pool that the device belongs to.
	DRAPool = "dra.pool"
	// DRADevice is the device's name within its pool.
	DRADevice = "dra.device"
	// DRARequest is the request within the claim that the device satisfies.
	DRARequest = "dra.request"
	// DRAShareID tells allocations of one shareable device apart.
	DRAShareID = "dra.share_id"
)

// Resource attribute keys: place and workload.
const (
	HostName         = "host.name"
	K8sClusterName   = "k8s.cluster.name"
	K8sNodeName      = "k8s.node.name"
	K8sNamespaceName = "k8s.namespace.name"
	K8sPodName       = "k8s.pod.name"
	K8sPodUID        = "k8s.pod.uid"
	K8sContainerName = "k8s.container.name"
)

// Well-known attribute values.
const (
	TypeGPU      = "gpu"
	VendorNVIDIA = "NVIDIA"

	TaskGeneral = "general"
	TaskEncoder = "encoder"
	TaskDecoder = "decoder"

	LocationGPU    = "gpu"
	LocationMemory = "memory"

	DomainSM     = "sm"
	DomainMemory = "memory"

	DirectionTransmit = "transmit"
	DirectionReceive  = "receive"

	HolderSourceLabels = "labels"

	SharingNone        = "none"
	SharingMIG         = "mig"
	SharingTimeSlicing = "time_slicing"
	SharingMPS         = "mps"
	SharingDRA         = "dra_shared"
	SharingUnknown     = "unknown"

	// ErrorTypeXIDPrefix precedes the XID code in error.type.
	ErrorTypeXIDPrefix = "xid_"
)

// DescriptiveAttributes lists the data point attributes that describe a device
// without identifying a series: the last value wins and a value may appear
// later without a new series being born.
func DescriptiveAttributes() []string {
	return []string{
		HardwareParent, HardwareName, HardwareModel, HardwareVendor, HardwareType,
		MIGProfile, MIGInstanceID, MIGUUID, SharingStrategy, HolderSource,
		ResourceClaimName, ResourceClaimUID, DeviceClassName,
		DRADriver, DRAPool, DRADevice, DRARequest, DRAShareID,
	}
}
