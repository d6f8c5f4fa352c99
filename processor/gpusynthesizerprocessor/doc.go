//go:generate mdatagen metadata.yaml

// Package gpusynthesizerprocessor turns the raw metrics of a dcgm-exporter into
// the samples of the output contract: it joins frame buffer fields into
// occupancy, decodes clock event masks, brings every generation of names and
// units into one, counts XID events, and says which containers the exporter's
// labels named.
package gpusynthesizerprocessor
