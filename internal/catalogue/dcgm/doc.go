// Package dcgm is the catalogue of NVIDIA's dcgm-exporter: its fields with every spelling
// that exporters have used for them, what signals are made of them, its labels and device
// ids, and beside that what ages: XID codes with NVIDIA's action, link capacities, models,
// MIG profiles.
//
// It is data and pure functions. A new DCGM name is one line in fields.go.
package dcgm
