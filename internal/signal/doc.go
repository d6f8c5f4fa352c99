// Package signal defines the name, unit, kind, and description of every metric that this
// distribution emits, and the keys of the metrics' attributes. Components use this table to emit
// metrics, and docs/signals.md is generated from the table. Therefore, the code and the
// documentation always agree.
//
// Package signal contains only data and lookup functions without side effects. The package does not
// depend on pdata or DCGM.
package signal

//go:generate go run ./docgen ../../docs/signals.md ../../examples/dcgm-exporter/counters.csv ../../docs/vendors.md
