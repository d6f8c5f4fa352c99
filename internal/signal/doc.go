// Package signal defines the name, unit, kind, and description of every metric that this
// distribution emits, and the keys of the metrics' attributes. Components emit metrics from this
// table, and docs/signals.md is generated from it. Therefore, the code and the documentation always
// agree.
//
// The package contains data and lookups without side effects. It does not depend on pdata or DCGM.
package signal

//go:generate go run ./docgen ../../docs/signals.md ../../examples/dcgm-exporter/counters.csv ../../docs/vendors.md
