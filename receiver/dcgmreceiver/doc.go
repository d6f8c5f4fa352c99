//go:generate mdatagen metadata.yaml

// Package dcgmreceiver scrapes dcgm-exporter endpoints. It sends metric names and labels without
// changes, with one batch per scrape of an endpoint. It does not interpret exporter fields.
package dcgmreceiver
