// Package diagnose reports which signals an exporter's scrape provides, why the other signals are
// missing, and how to enable them.
//
// A [Scrape] records the state of each field on each device and returns a [Verdict] for each device
// and signal. The gpu_synthesizer processor fills a Scrape from the rows that it has already
// parsed. An [Exposition] parses rows with their labels and returns a [Report] for users, with
// advice and warnings. gpudoctor prints this report.
//
// An exposition often does not show why a signal is missing. Exporters omit fields for which DCGM
// has no value. A field may be missing because it is not in the CSV file, is not supported, or has
// no value. If the scrape does not prove the reason, the verdict is marked as likely.
//
// Package diagnose accesses neither pdata nor files nor the network.
package diagnose
