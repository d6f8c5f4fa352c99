//go:generate mdatagen metadata.yaml

// Package dcgmreceiver scrapes dcgm-exporter endpoints. The receiver does not change metric names
// or labels, and does not interpret exporter fields. For each scrape of an endpoint, the receiver
// sends one batch.
package dcgmreceiver
