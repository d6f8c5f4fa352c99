// Package dcgm is the field catalogue: everything this project knows about
// what NVIDIA's dcgm-exporter exposes. It holds the fields with every spelling
// that exporters have used for them, the unit of each spelling, the sentinels
// that stand for "no value", the meaning of labels, clock event reasons, XID
// codes, MIG profiles and link capacities.
//
// It is data and pure functions, without pdata and without state. A new DCGM
// name is one line in fields.go and nothing anywhere else; another vendor's
// exporter would be another table of the same shape.
package dcgm
