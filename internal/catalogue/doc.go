// Package catalogue describes the metrics of vendors' exporters: one table per exporter, each in a
// package below this one. A table contains the fields with all names that exporters have used, their
// units, the meaning of a 0, the signals computed from them, the labels, and the rules for a
// device's identity. If only one or two exporters need a function, their packages implement it; see
// Hooks.
//
// The package contains data and pure functions. It has no state and does not use pdata. The
// synthesizer computes samples with these tables, the diagnosis reports what is missing, and the
// counters csv and docs/signals.md are generated from them. A new field is one line in its
// exporter's table and needs no other change.
package catalogue
