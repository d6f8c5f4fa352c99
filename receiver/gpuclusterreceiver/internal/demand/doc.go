// Package demand computes what a cluster has of GPUs and what is asked of it:
// the scheduler's view of pods, nodes and Dynamic Resource Allocation.
//
// It is pure: it takes plain structs, which the receiver cuts out of API
// objects when they change, and gives points. [Cluster] holds the structs;
// everything that is emitted is computed from them at that moment, so the
// order in which objects came, and whether they came at once or one change
// after the other, makes no difference. What only depends on the slices of one
// pool is remembered until one of them changes.
//
// # Which resource names are GPUs
//
// Those of the families that [Options.IsGPU] knows, the extendedResourceName of
// a GPU class, and deviceclass.resource.kubernetes.io/<class> of one. The three
// cluster.gpu.* metrics know OpenCost's names alone.
//
// # Which device classes are GPU classes
//
// A class is one if its name is configured or is that of an allowed driver, if
// its extendedResourceName is a GPU resource, or if one of its selectors
// compares device.driver with an allowed driver or reads that driver's
// attributes or capacity. The selectors are searched as text, not evaluated.
package demand
