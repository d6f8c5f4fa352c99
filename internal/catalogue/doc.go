// Package catalogue describes the metrics of vendors' exporters. Each exporter has one table in its
// own subpackage. A table contains the fields with all names that exporters have used, the units of
// the fields, whether 0 means "no value", the signals that are computed from the fields, the
// labels, and the rules that identify a device. In this package, a row is one exposed sample: a
// metric name, labels, and a value. Functions that only one or two exporters need are implemented
// in those exporters' packages; see Hooks.
//
// The package contains data and pure functions. The package has no state and does not use pdata.
// The synthesizer uses the tables to compute samples, and the diagnosis uses them to report what is
// missing. The counters CSV file and docs/signals.md are generated from the tables. To add a field,
// add one line to its exporter's table; no other change is needed.
package catalogue
