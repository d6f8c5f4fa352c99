// Package dcgmsim is a dcgm-exporter that needs no GPU.
//
// A [Simulation] is a pure function: of a scenario, a node, a device and
// the time since the start it gives every value that dcgm-exporter would expose, so any moment can be asked for and a test can drive a fake clock.
// Each device plays a story, a loop of piecewise linear values and of
// intervals in which a clock event reason is active. Counters are the
// integrals of these in closed form, which is why the same Simulation can also
// say what is true: [Simulation.ThrottledTime], [Simulation.MeanOccupancy],
// [Simulation.Energy] and [Simulation.XIDs] over any interval.
//
// [Simulation.AppendBody] writes that truth in the text style of one exporter
// generation (see [Style]), and [Server] serves the bodies over HTTP, with
// caching as the exporter does it, with faults on request, or replays recorded
// outputs instead.
//
// Nodes of AMD and Google show the same truth as their exporters do, which have no styles.
//
// Names, types, help texts, units, label order and the rows that sharing, MIG
// and DRA add follow the exporter's sources and default-counters.csv of the
// versions that each Style names.
package dcgmsim
