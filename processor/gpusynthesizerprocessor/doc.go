//go:generate mdatagen metadata.yaml

// Package gpusynthesizerprocessor converts the raw metrics of exporters to the samples of the
// output contract: it combines frame buffer fields into memory utilization, decodes clock event
// masks, converts all generations of names and units to one, counts XID events, and reads holders
// from the exporters' labels.
package gpusynthesizerprocessor
