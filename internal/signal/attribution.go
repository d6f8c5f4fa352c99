package signal

// GPUSharingClients is the only device metric that the Kubernetes processor adds. The container
// series that the processor adds have the same names as the samples.
var GPUSharingClients = add(Metric{
	Name: "gpu.sharing.clients", Unit: "{container}", Int: true, Stage: StageWorkload,
	Description: "Containers and jobs that hold the device. Absent while the holders are unknown.",
	Source:      "PodResources, DRA allocations, the exporter's labels, processes",
})
