// Package store keeps the windows of the last hours in memory: a series for each device and one
// for each container that holds it. It also keeps the last values of metrics without windows, such
// as power, budgets and the scheduler's view of the cluster.
//
// A window is one row in columns of float32, in which NaN is absent. A device costs four bytes per
// signal and window. A float32 holds a ratio to 6e-8 and a count below 2^24 exactly. The store does
// not evict data to free memory: series above a limit are refused and counted.
//
// The package gets metric names from internal/signal. It does not depend on pdata or HTTP.
package store
