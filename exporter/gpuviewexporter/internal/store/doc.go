// Package store keeps recent windows in memory. It has one series for each device, and one series
// for each container that holds the device. It also keeps the last values of metrics without
// windows, such as power, budgets and the scheduler's view of the cluster.
//
// A window is one row in columns of float32 values. NaN means that a value is absent. A device uses
// four bytes per signal and window. A float32 represents a ratio with an error of at most 6e-8, and
// represents counts below 2^24 exactly. The store does not evict data to free memory. It refuses
// series above a limit and counts their points.
//
// The package gets metric names from internal/signal. It does not depend on pdata or net/http.
package store
