// Package allocation converts the store's windows into the formats of OpenCost's Allocation API and
// of the accelerators in the kubelet's summary API. Its functions take a store and a query and
// return values to marshal. The package does no I/O.
package allocation
