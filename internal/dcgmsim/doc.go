// Package dcgmsim simulates dcgm-exporter without a GPU.
//
// A [Simulation] computes the values that dcgm-exporter would expose. The values depend only on the
// scenario, the node, the device, and the time since the start. The values for any time are
// available immediately, so a test can use a fake clock. Each device follows a story. A story is a
// loop that consists of piecewise linear values and of intervals in which clock event reasons are
// active. Counters are exact integrals over the story, so the true values for any interval are also
// available from [Simulation.ThrottledTime], [Simulation.MeanOccupancy], [Simulation.Energy], and
// [Simulation.XIDs].
//
// [Simulation.AppendBody] writes the values in the text format of one exporter generation (see
// [Style]). [Server] serves response bodies over HTTP. Like the exporter, the server caches
// response bodies. The server can also inject faults. Instead of a simulation, the server can
// replay recorded bodies.
//
// Nodes with devices from other vendors expose the same values in the format of the vendor's
// exporter. Styles apply only to nodes with NVIDIA devices.
//
// Names, types, help texts, units, the order of labels, and the samples for sharing, MIG, and DRA
// are taken from the exporter's source code and default-counters.csv, in the versions that each
// Style lists.
package dcgmsim
