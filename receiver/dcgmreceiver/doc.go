//go:generate mdatagen metadata.yaml

// Package dcgmreceiver scrapes dcgm-exporter endpoints. It sends raw metric names and labels, in
// one batch per scrape of an endpoint. It does not interpret fields.
package dcgmreceiver
