// Package allocation tells the store's windows in the shapes that others have
// given them: OpenCost's Allocation API and the accelerators of the kubelet's
// summary. It is pure: a store and a query in, values to marshal out.
package allocation
