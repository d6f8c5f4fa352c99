// Package allocation converts the windows in the store to the format of OpenCost's Allocation API,
// and to the format that the kubelet's summary API used for accelerators. The functions take a
// store and a query, and their results can be marshaled to JSON. The package does no I/O.
package allocation
