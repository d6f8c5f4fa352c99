//go:generate mdatagen metadata.yaml

// Package gpusynthesizerprocessor converts the raw metrics of exporters into the samples of the
// output contract. The processor computes memory utilization from frame buffer fields, decodes
// clock event masks, unifies the metric names and units of all exporter versions, counts XID
// events, and reads holders from the exporters' labels.
package gpusynthesizerprocessor
