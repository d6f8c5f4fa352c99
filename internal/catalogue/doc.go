// Package catalogue says what a vendor's exporter exposes: one table per exporter in a
// package below this one, `dcgm` first. A table has the fields with every spelling that
// exporters have used for them, their units, what a 0 means, the signals that are made of
// them, the labels, and how a device is identified.
//
// It is data and pure functions, without pdata and without state. The synthesizer makes
// samples by these tables, the diagnosis says by them what is missing, and the counters csv
// and docs/signals.md are generated from them. A new field is one line in its exporter's
// table and nothing anywhere else.
package catalogue
