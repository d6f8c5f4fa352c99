// Package signal is the single source of the names, units, kinds and
// descriptions of every metric that this distribution emits, and of the keys
// of their attributes. Components emit from this table and docs/signals.md is
// generated from it, so that code and documentation cannot drift apart.
//
// The package is data and pure lookups: it knows neither pdata nor DCGM.
package signal

//go:generate go run ./docgen ../../docs/signals.md ../../examples/dcgm-exporter/counters.csv ../../docs/vendors.md
