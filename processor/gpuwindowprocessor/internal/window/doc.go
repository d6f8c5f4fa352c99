// Package window is the engine of the gpu_window processor. It computes functions over aligned time
// windows from the samples of many series. The rules for this are data.
//
// The engine is pure. It does not depend on pdata or Kubernetes, and does not read a clock or call
// other components. The caller passes samples and the time, and fetches the rows of closed windows.
//
// # Structure
//
// A node has places (Resources), a place has devices, a device has series, and a series feeds
// outputs. An output is the result of one rule for one device. Each of them has a state for every
// open window. All of them are plain structs that point to each other.
//
// A node has one lock, so that several cores can add samples of different nodes. The engine's own
// lock guards what all nodes share: the clock, the list of open windows, the counts, and the tables
// of metrics and shapes. It is held only briefly, and no node is locked while it is held.
//
// # Input
//
// A batch starts with Begin and finishes with End. It has one current node, whose lock it holds.
// The key of a series has four parts: its Resource (a node, or a user of its devices), its device,
// its metric, and its own attributes. Everything else describes one of them and never distinguishes
// series. The caller decides which attribute is which. The engine compares and stores descriptions
// as encoded text, and merges them by key.
//
// Resolve adds a sample by its key and returns its series. Add adds further samples of that series,
// as long as CanAdd returns true.
//
// # State
//
// Nodes returns the names of the nodes that send samples. Store returns the state of one node.
// Restore returns an engine that continues from such states.
//
// # Time
//
// All times are in nanoseconds since the Unix epoch. A window is (start, end], and end is a
// multiple of the window length. A window is closed when the wall clock has passed end + grace,
// whether or not its rows have been fetched.
package window
