// Package window is the engine behind the gpu_window processor: it turns the
// samples of many series into functions over aligned windows of time, by rules
// that are data.
//
// The engine is pure. It knows neither pdata nor Kubernetes nor GPUs, reads no
// clock and calls nothing: the caller passes samples and the time, and fetches
// rows of closed windows.
//
// # Structure
//
// A place (a Resource) has devices, a device has series, a series feeds outputs,
// an output is one rule's result on one device. Each of them has a state for
// every open window. All are plain structs that point to each other.
//
// # Intake
//
// A batch goes from Begin to End. Resolve adds a sample by its Resource, scope,
// metric and attributes and returns its series. Add adds further samples of that
// series, without attributes, as long as CanAdd is true.
//
// # State
//
// Nodes returns the names of the nodes that send samples. Store returns the state of one
// node, Restore an engine that continues from such states.
//
// # Time
//
// All times are nanoseconds since the Unix epoch. A window is (start, end] with
// end a multiple of the window length. It is closed, by the wall clock alone,
// once end + grace has passed, whether or not its rows were fetched yet.
package window
