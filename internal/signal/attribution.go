package signal

// GPUSharingClients is the number of containers and jobs that hold a device. gpu_k8s adds this
// metric when it attributes devices to containers. The container series that gpu_k8s adds have the
// same metric names as the samples.
var GPUSharingClients = add(Metric{
	Name: "gpu.sharing.clients", Unit: "{container}", Int: true, Stage: StageWorkload,
	Description: "Containers and jobs that hold the device. Absent while the holders are unknown.",
	Source:      "PodResources, DRA allocations, the exporter's labels, processes",
})
