package signal

// GPUSharingClients is what the Kubernetes processor says of a device; the
// container series that it makes are the samples' own.
var GPUSharingClients = add(Metric{
	Name: "gpu.sharing.clients", Unit: "{container}", Int: true, Stage: StageWorkload,
	Description: "Containers and jobs that hold the device; absent while nothing authoritative says who does.",
	Source:      "PodResources, DRA allocations, the exporter's labels, processes",
})
