// Package demand computes the GPU capacity of a cluster and the demand for GPUs from pods, nodes,
// and the objects of Dynamic Resource Allocation (DRA). The package counts pods and claims by the
// same rules that the scheduler uses.
//
// The package performs no I/O. [Cluster] stores nodes, claims, templates, classes, slices, and
// DeviceTaintRules as API objects, and pods as plain structs. The receiver stores each node
// together with the conditions to emit, and each slice together with the devices to emit. Each
// emission is computed from all stored objects. Therefore, the emission does not depend on the
// order in which the objects arrived. Results that depend only on the slices of one pool and on
// DeviceTaintRules are cached until a slice of the pool or a DeviceTaintRule changes.
//
// A resource name refers to a GPU resource if [Options.IsGPU] accepts the name, or if the name is
// the extendedResourceName of a GPU class. The name deviceclass.resource.kubernetes.io/<class>
// refers to a GPU resource if the class is a GPU class. The three metrics whose names start with
// cluster.gpu. include only the resource names that OpenCost uses.
//
// A class is a GPU class if its name is configured or equals the name of an allowed driver. A class
// is also a GPU class if its extendedResourceName is a GPU resource. Finally, a class is a GPU
// class if any of its selectors compares device.driver with an allowed driver, or reads the
// attributes or the capacity of an allowed driver. The package matches selectors as text, and does
// not evaluate them.
package demand
