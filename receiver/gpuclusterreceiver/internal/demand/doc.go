// Package demand computes a cluster's GPU capacity and demand: the scheduler's view of pods,
// nodes and Dynamic Resource Allocation.
//
// It is pure. It takes nodes, claims, templates, classes and slices as the API server has them.
// The receiver adds what is emitted of a node's conditions and of a slice's devices, and of pods it
// hands over plain structs. [Cluster] holds all of it. Everything that is emitted is computed from
// that at the moment, so the order in which objects came makes no difference. Results that depend
// on the slices of one pool alone are remembered until one of them changes.
//
// # Which resource names are GPUs
//
// Those of the families that [Options.IsGPU] knows, the extendedResourceName of
// a GPU class, and deviceclass.resource.kubernetes.io/<class> of one. The three
// cluster.gpu.* metrics know OpenCost's names alone.
//
// # Which device classes are GPU classes
//
// A class is a GPU class if its name is configured or equals an allowed driver's, if its
// extendedResourceName is a GPU resource, or if one of its selectors compares device.driver with
// an allowed driver or reads that driver's attributes or capacity. The selectors are searched as
// text, not evaluated.
package demand
