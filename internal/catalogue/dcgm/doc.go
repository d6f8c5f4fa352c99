// Package dcgm is the table of NVIDIA's dcgm-exporter: its fields with all names that exporters
// have used, the signals computed from them, its labels and its device ids. It also contains facts
// that change with time: XID codes with NVIDIA's actions, link capacities, models, MIG profiles.
//
// It contains data and pure functions. A new DCGM name is one line in fields.go.
package dcgm
