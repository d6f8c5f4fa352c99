// Package demand computes a cluster's GPU capacity and demand from pods, nodes, and the objects of
// Dynamic Resource Allocation, as the scheduler does.
//
// The package does no I/O. [Cluster] stores nodes, claims, templates, classes, and slices as API
// objects. The receiver adds the emitted conditions of nodes and the emitted devices of slices, and
// passes pods as plain structs. Each emission is computed from the stored objects, so it does not
// depend on the order in which they arrived. Results that depend only on the slices of one pool are
// cached until one of these slices changes.
//
// # Which resource names are GPUs
//
// GPU resources are the names that [Options.IsGPU] accepts, the extendedResourceName of a GPU
// class, and deviceclass.resource.kubernetes.io/<class> for a GPU class. The three cluster.gpu.*
// metrics use only the names that OpenCost uses.
//
// # Which device classes are GPU classes
//
// A class is a GPU class in any of the following cases:
//   - Its name is configured, or equals an allowed driver's name.
//   - Its extendedResourceName is a GPU resource.
//   - One of its selectors compares device.driver with an allowed driver, or reads that driver's
//     attributes or capacity. Selectors are matched as text and not evaluated.
package demand
