// Package dcgmsim simulates dcgm-exporter without a GPU.
//
// A [Simulation] is a pure function. From a scenario, a node, a device, and the time since the
// start it computes every value that dcgm-exporter would expose. Values are therefore available
// for any time, and a test can use a fake clock. Each device plays a story: a loop of piecewise
// linear values, and intervals in which a clock event reason is active. Counters are the exact
// integrals of these. Therefore the Simulation also provides the true values for any interval:
// [Simulation.ThrottledTime], [Simulation.MeanOccupancy], [Simulation.Energy], and
// [Simulation.XIDs].
//
// [Simulation.AppendBody] writes these values in the text format of one exporter generation (see
// [Style]). [Server] serves the bodies over HTTP. It caches them as the exporter does, injects
// faults on request, or replays recorded bodies instead.
//
// Nodes of other vendors expose the same values in the format of their exporters, which have no
// styles.
//
// Names, types, help texts, units, the order of labels, and the rows for sharing, MIG, and DRA are
// those of the exporter's source code and default-counters.csv, in the versions that each Style
// names.
package dcgmsim
