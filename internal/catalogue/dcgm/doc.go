// Package dcgm contains the catalogue table for NVIDIA's dcgm-exporter: the fields with all names
// that exporters have used, the signals that are computed from the fields, the labels, and the
// device IDs. The package also contains data that changes over time, such as XID codes with
// NVIDIA's actions, link capacities, models, and MIG profiles.
//
// To support a new DCGM name, add a line to fields.go.
package dcgm
