// Package synth turns the rows of one scrape into the samples of the output
// contract. It folds rows that repeat a device's value, joins fields into
// occupancy and link utilization, decodes the clock event mask, counts XID
// events, and says which containers the labels named.
//
// It knows the field catalogue and the signal table, and neither pdata nor the
// wall clock. The only state across scrapes is what counts XID events and what
// turns byte counters into rates, per device.
package synth
