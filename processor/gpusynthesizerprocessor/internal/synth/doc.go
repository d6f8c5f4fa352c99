// Package synth converts the rows of one scrape into the samples of the output contract. A row is
// one point that an exporter exposes. The package merges rows that repeat a device's value,
// combines fields into memory and link utilization, decodes the clock event mask, counts XID
// events, and reads holders from labels.
//
// The package uses the field catalog and the signal table. The package uses neither pdata nor the
// wall clock. For each device, the package keeps only the state that it needs to count XID events
// and to convert counters to rates.
package synth
