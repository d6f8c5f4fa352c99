// Package demand computes the GPU capacity of a cluster and the demand for GPUs from pods, nodes
// and the objects of Dynamic Resource Allocation (DRA). It uses the same rules as the scheduler.
//
// The package does no I/O. [Cluster] stores nodes, claims, templates, classes and slices as API
// objects. For each node, the receiver adds the conditions to emit. For each slice, it adds the
// devices to emit. It passes pods as plain structs. Each emission is computed from the stored
// objects. Therefore, it does not depend on the order in which the objects arrived. Results that
// depend only on the slices of one pool are cached until one of these slices changes.
//
// # Which resource names are GPUs
//
// A resource name is a GPU resource if [Options.IsGPU] accepts it, if it is the
// extendedResourceName of a GPU class, or if it has the form
// deviceclass.resource.kubernetes.io/<class> for a GPU class. The three metrics cluster.gpu.*
// include only the resource names that OpenCost uses.
//
// # Which device classes are GPU classes
//
// A class is a GPU class in any of the following cases:
//   - Its name is configured, or equals an allowed driver's name.
//   - Its extendedResourceName is a GPU resource.
//   - One of its selectors compares device.driver with an allowed driver, or reads that driver's
//     attributes or capacity. Selectors are matched as text and not evaluated.
package demand
