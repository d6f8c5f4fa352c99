//go:generate mdatagen metadata.yaml

// Package dcgmreceiver scrapes dcgm-exporter endpoints and sends what they expose: raw metric names
// and labels, one batch for each scrape of an endpoint. It does not interpret fields.
package dcgmreceiver
