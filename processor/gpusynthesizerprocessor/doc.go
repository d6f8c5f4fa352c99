//go:generate mdatagen metadata.yaml

// Package gpusynthesizerprocessor turns the raw metrics of exporters into the samples of the output
// contract: it joins frame buffer fields into occupancy, decodes clock event masks, converts every
// generation of names and units to one, counts XID events, and reads holders from the exporters'
// labels.
package gpusynthesizerprocessor
