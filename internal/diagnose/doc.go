// Package diagnose reports which signals one scrape of an exporter can give, why the others are
// missing, and how to enable them.
//
// A [Scrape] records the state of each field on each device and returns a [Verdict] per device and
// signal. The gpu_synthesizer processor fills it with its own rows. An [Exposition] parses rows with
// their labels and returns a [Report] for users, with advice and warnings. gpudoctor prints that
// report.
//
// An exposition never shows why a signal is missing: exporters drop fields for which DCGM has no
// value, so a missing field may be absent from the csv, unsupported, or blank. A verdict that is
// inferred in this way is marked as likely. All other verdicts are proven by the scrape.
// The package has only data and pure functions. It does not use pdata, files or the network.
package diagnose
