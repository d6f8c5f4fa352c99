// Package synth turns the rows of one scrape into the samples of the output
// contract. It merges rows that repeat a device's value, joins fields into
// occupancy and link utilization, decodes the clock event mask, counts XID
// events, and reads holders from labels.
//
// It uses the field catalogue and the signal table, and neither pdata nor the
// wall clock. The only state across scrapes is, per device, what is needed to count XID events
// and to turn counters into rates.
package synth
