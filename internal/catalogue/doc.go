// Package catalogue describes what vendors' exporters expose: one table per exporter, each in a
// package below this one (`dcgm` was the first). A table has the fields with every spelling that
// exporters have used, their units, the meaning of a 0, the signals that are made from
// them, the labels, and the recipe for a device's identity.
//
// It is data and pure functions, without pdata and without state. The synthesizer makes
// samples from these tables, the diagnosis reports what is missing, and the counters csv
// and docs/signals.md are generated from them. A new field is one line in its exporter's
// table and needs no other change.
package catalogue
