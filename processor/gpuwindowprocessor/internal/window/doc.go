// Package window is the engine of the gpu_window processor. It computes functions over aligned time
// windows from the samples of many series. Rules configure the functions.
//
// The engine is pure. It does not depend on pdata or Kubernetes, and does not read a clock or call
// other components. The caller passes samples and the current time, and fetches the rows of closed
// windows.
//
// # Structure
//
// A node has places (Resources), a place has devices, a device has series, and a series feeds
// outputs. An output is the result of one rule for one device. Places, devices, series, and outputs
// have a state for every open window. All of them are plain structs that point to each other.
//
// Each node has a lock, so that several goroutines can add samples of different nodes at the same
// time. The engine's lock guards the data that all nodes share: the clock, the list of open
// windows, the counts, and the tables of metrics and shapes. It is held only briefly, and no node
// may be locked while it is held.
//
// # Input
//
// A batch starts with Begin and finishes with End. A batch has one current node and holds the lock
// of that node. The key of a series has four parts: its Resource (a node, or a user of its
// devices), its device, its metric, and its own attributes. All other attributes describe one of
// these parts and never distinguish series. The caller determines the role of each attribute. The
// engine compares and stores descriptions as encoded text, and merges them by key.
//
// Resolve adds a sample by its key and returns its series. Add adds further samples of that series,
// as long as CanAdd returns true.
//
// # State
//
// Nodes returns the names of the nodes that send samples. Store returns the state of one node.
// Restore returns an engine that continues from stored states.
//
// # Time
//
// All times are in nanoseconds since the Unix epoch. A window is the interval (start, end], and end
// is a multiple of the window length. A window is closed when the wall clock has passed end +
// grace, whether or not its rows have been fetched.
package window
