// Package dcgm is the catalogue of NVIDIA's dcgm-exporter: its fields with every spelling
// that exporters have used, the signals that are made from them, its labels and device
// ids. It also has the facts that age: XID codes with NVIDIA's actions, link capacities, models,
// MIG profiles.
//
// It is data and pure functions. A new DCGM name is one line in fields.go.
package dcgm
