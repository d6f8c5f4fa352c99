// Package demand computes a cluster's GPU capacity and demand: the scheduler's view of pods,
// nodes and Dynamic Resource Allocation.
//
// It is pure: it takes objects as the API server has them, of pods plain structs that the receiver
// cuts out of them when they change, and beside nodes and slices what is to be emitted of conditions
// and devices, and gives points. [Cluster] holds them; everything that is emitted is computed from them at that moment, so
// the order in which objects came makes no difference. Results that
// depend on the slices of one pool alone are remembered until one of them changes.
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
