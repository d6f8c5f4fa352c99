// Package catalogue describes the metrics of vendors' exporters: one table per exporter, each in a
// package below this one. A table contains the fields with all names that exporters have used,
// their units, the meaning of a 0, the signals computed from them, the labels, and the rules for a
// device's identity. What only one or two exporters need are functions in their packages; see Hooks.
//
// It contains data and pure functions, without pdata and without state. The synthesizer computes
// samples with these tables, the diagnosis reports what is missing, and the counters csv and
// docs/signals.md are generated from them. A new field is one line in its exporter's table and
// needs no other change.
package catalogue
