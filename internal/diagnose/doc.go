// Package diagnose says which signals one scrape of a dcgm-exporter can give, why the others are
// missing, and what turns it on.
//
// A [Scrape] takes what was seen of each field on each device and gives a
// [Verdict] per device and signal; the gpu_synthesizer processor feeds it with
// its own rows. An [Exposition] takes whole rows with their labels and makes a
// [Report] for a person, with advice and warnings; gpudoctor prints that.
//
// An exposition never shows why something is missing: exporters drop values that DCGM does not
// have, so a field that is missing may be absent from the csv, unsupported, or blank. A verdict
// that rests on such an inference is marked likely; the scrape proves the others.
//
// The package is data and pure functions, without pdata, files or network.
package diagnose
