// Package store keeps the windows of the last hours in memory: for each device
// its own series, for each container that holds it the container's, and beside
// them the last value of what has no window (power, budgets) and what the
// scheduler says of the cluster.
//
// Windows are columns of float32 in which NaN is absent, so that a device costs
// four bytes per signal and window. A float32 holds a ratio to 6e-8 and a count
// below 2^24 exactly. Nothing is evicted to make room: what is above a limit is
// refused and counted.
//
// The package knows metric names from internal/signal and neither pdata nor HTTP.
package store
