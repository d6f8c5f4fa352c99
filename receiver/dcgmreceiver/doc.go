//go:generate mdatagen metadata.yaml

// Package dcgmreceiver scrapes dcgm-exporter endpoints. It sends metric names and labels as
// exposed, in one batch per scrape of an endpoint, and does not interpret fields.
package dcgmreceiver
