// Package window is the engine behind the gpu_window processor: it turns the
// samples of many series into functions over aligned windows of time, by rules
// that are data.
//
// The engine is pure. It knows neither pdata nor Kubernetes nor GPUs, reads no
// clock and calls nobody: the caller hands in samples and the time, and fetches
// rows of closed windows.
//
// # Identity
//
// Every identity is resolved exactly, never by a bare hash: the values that
// identify a Resource, a device on it, an attribute set and a metric are each
// interned in a table, and a series is the triple (device, metric, attribute
// set) of table indices. State lives in slices that refer to each other by
// index, so that the garbage collector has little to look at and a sample of a
// known series allocates nothing.
//
// # Time
//
// All times are nanoseconds since the Unix epoch. A window is (start, end] with
// end a multiple of the window length. It is closed, by the wall clock alone,
// once end + grace has passed, whether or not its rows were fetched yet.
package window
