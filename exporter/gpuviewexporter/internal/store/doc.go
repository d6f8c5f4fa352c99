// Package store keeps recent windows in memory. The store has one series of windows for each
// device, and one series for each container that holds the device. The store also keeps the last
// values of metrics without windows, such as power, budgets and the scheduler's view of the
// cluster.
//
// Values are stored in columns of float32, and each window is one row. NaN means that a value is
// absent. Each device uses four bytes per signal and window. With float32, ratios have an error of
// at most 6e-8, and counts below 2^24 are exact. The store does not evict data to free memory. When
// a limit is reached, the store refuses new series and counts the refused points.
//
// The package gets the names of metrics from internal/signal. The package does not depend on pdata
// or net/http.
package store
