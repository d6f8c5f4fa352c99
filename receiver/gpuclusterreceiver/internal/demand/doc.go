// Package demand computes the GPU capacity of a cluster and the demand for GPUs from pods, nodes
// and the objects of Dynamic Resource Allocation (DRA). The package counts pods and claims by the
// same rules that the scheduler uses.
//
// The package does no I/O. [Cluster] stores nodes, claims, templates, classes, and slices as API
// objects, and pods as plain structs. For each node, the receiver adds the conditions to emit. For
// each slice, the receiver adds the devices to emit. Each emission is computed from all stored
// objects. Therefore, the emission does not depend on the order in which the objects arrived.
// Results that depend only on the slices of one pool are cached until a slice of the pool changes.
//
// # Which resource names are GPUs
//
// A resource name is a GPU resource if [Options.IsGPU] accepts it, if it is the
// extendedResourceName of a GPU class, or if it has the form
// deviceclass.resource.kubernetes.io/<class> for a GPU class. The three metrics whose names start
// with cluster.gpu. include only the resource names that OpenCost uses.
//
// # Which device classes are GPU classes
//
// A class is a GPU class in any of the following cases:
//   - The name of the class is configured, or equals the name of an allowed driver.
//   - The extendedResourceName of the class is a GPU resource.
//   - A selector of the class compares device.driver with an allowed driver, or reads the
//     attributes or the capacity of an allowed driver. Selectors are matched as text, but are not
//     evaluated.
package demand
