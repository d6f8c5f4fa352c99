// Package dcgm contains the catalogue table for NVIDIA's dcgm-exporter: its fields with all names
// that exporters have used, the signals computed from them, its labels, and its device IDs. It also
// contains facts that change over time: XID codes with NVIDIA's actions, link capacities, models,
// and MIG profiles.
//
// It contains data and pure functions. A new DCGM name is one line in fields.go.
package dcgm
