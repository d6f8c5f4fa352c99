// Package store keeps the windows of the last hours in memory: for each device its own series,
// for each container that holds it the container's, and the last values of metrics without
// windows: power, budgets, the scheduler's view of the cluster.
//
// Windows are columns of float32 in which NaN is absent, so that a device costs four bytes per
// signal and window. A float32 holds a ratio to 6e-8 and a count below 2^24 exactly. Nothing is
// evicted to make room: series above a limit are refused and counted.
//
// The package knows metric names from internal/signal and neither pdata nor HTTP.
package store
