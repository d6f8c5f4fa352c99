// Package window implements the engine of the gpu_window processor. The engine aggregates the
// samples of many series over aligned time windows. The aggregation functions are configured by
// rules.
//
// The engine has no dependencies on pdata or Kubernetes, does not read a clock, and does not call
// other components. The caller passes samples and the current time to the engine, and fetches the
// rows of closed windows.
//
// # Structure
//
// A node contains places (Resources), a place contains devices, a device contains series, and the
// samples of a series are added to outputs. An output is one result series of one rule for one
// device. Places, devices, series, and outputs have a separate state for each open window. Nodes,
// places, devices, series, and outputs are plain structs that point to each other.
//
// Each node has its own lock, so that several goroutines can add samples of different nodes at the
// same time. The engine's lock guards the data that all nodes share: the clock, the list of open
// windows, the counts, and the tables of metrics and shapes. The engine's lock is held only
// briefly. While the engine's lock is held, no node may be locked.
//
// # Input
//
// A batch starts with Begin and finishes with End. At any time, a batch has one current node and
// holds the lock of that node. The key of a series has four parts: the Resource (a node, or a user
// of the node's devices), the device, the metric, and the series' own attributes. All other
// attributes only describe one part of the key and never distinguish series. The caller determines
// the role of each attribute. The engine compares and stores descriptive attributes as encoded
// text, and merges the attributes by key.
//
// Resolve adds a sample, finds the series of the sample by its key, and returns that series. As
// long as CanAdd returns true for a series, further samples can be added with Add.
//
// # State
//
// Nodes returns the names of the nodes that send samples. Store returns the state of one node.
// Restore returns an engine that continues from the stored states of nodes.
//
// # Time
//
// All times are in nanoseconds since the Unix epoch. A window is the interval (start, end], and end
// is a multiple of the window length. A window closes when the wall clock reaches end + grace,
// whether or not the rows of the window have been fetched.
package window
