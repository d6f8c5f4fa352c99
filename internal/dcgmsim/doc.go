// Package dcgmsim simulates dcgm-exporter without a GPU.
//
// A [Simulation] is a pure function. It computes the values that dcgm-exporter would expose from a
// scenario, a node, a device, and the time since the start. The values for any time are available
// immediately, so a test can use a fake clock. Each device plays a story. A story is a loop of
// piecewise linear values, and of intervals in which a clock event reason is active. Counters are
// exact integrals over the story. Therefore, the Simulation can also return the true values for any
// interval: [Simulation.ThrottledTime], [Simulation.MeanOccupancy], [Simulation.Energy], and
// [Simulation.XIDs].
//
// [Simulation.AppendBody] writes the values in the text format of one exporter generation (see
// [Style]). [Server] serves these bodies over HTTP. It caches them as the exporter does, and can
// inject faults. It can also replay recorded bodies.
//
// Nodes with devices of other vendors expose the same values in the format of the vendor's
// exporter. They have no styles.
//
// Names, types, help texts, units, the order of labels, and the samples for sharing, MIG, and DRA
// are taken from the exporter's source code and default-counters.csv, in the versions that each
// Style lists.
package dcgmsim
