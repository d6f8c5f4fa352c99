// Package synth converts the rows of one scrape into the samples of the output contract. A row is
// one point that an exporter exposes. The package merges rows that repeat a device's value,
// combines fields into memory and link utilization, decodes the clock event mask, counts XID
// events, and reads holders from labels.
//
// The package uses the field catalog and the signal table. The package does not use pdata and does
// not read the clock: callers pass the time. For each device, the package keeps the state that it
// needs to process the next scrape, such as the last values of counters, the counted XID events,
// and the sources of the device.
package synth
