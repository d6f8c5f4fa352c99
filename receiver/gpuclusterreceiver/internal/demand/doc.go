// Package demand computes a cluster's GPU capacity and demand: the scheduler's view of pods,
// nodes and Dynamic Resource Allocation.
//
// The package does no I/O. [Cluster] stores nodes, claims, templates, classes and slices as API
// objects. The receiver adds the emitted conditions of nodes and the emitted devices of slices, and
// passes pods as plain structs. Each emission is computed from the stored objects, so the order in
// which they arrived makes no difference. Results that only depend on the slices of one pool are
// cached until one of these slices changes.
//
// # Which resource names are GPUs
//
// GPU resources are the names that [Options.IsGPU] accepts, the extendedResourceName of a GPU
// class, and deviceclass.resource.kubernetes.io/<class> of a GPU class. The three
// cluster.gpu.* metrics only use the names that OpenCost uses.
//
// # Which device classes are GPU classes
//
// A class is a GPU class if its name is configured or equals an allowed driver's, if its
// extendedResourceName is a GPU resource, or if one of its selectors compares device.driver with
// an allowed driver or reads that driver's attributes or capacity. Selectors are matched as text,
// not evaluated.
package demand
