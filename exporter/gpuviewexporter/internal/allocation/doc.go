// Package allocation converts the store's windows into the formats of OpenCost's
// Allocation API and of the accelerators in the kubelet's summary. It takes a store
// and a query and returns values to marshal; it does no I/O.
package allocation
