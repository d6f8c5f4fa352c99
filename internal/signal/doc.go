// Package signal defines the name, unit, kind, and description of every metric that this
// distribution emits, and the keys of their attributes. Components emit metrics from this table,
// and docs/signals.md is generated from it, so the code and the documentation always agree.
//
// The package contains data and lookups without side effects. It depends on neither pdata nor DCGM.
package signal

//go:generate go run ./docgen ../../docs/signals.md ../../examples/dcgm-exporter/counters.csv ../../docs/vendors.md
