//go:generate mdatagen metadata.yaml

// Package dcgmreceiver scrapes dcgm-exporter endpoints and hands on what they
// expose: raw metric names and labels, one batch for each scrape of an endpoint.
// What a field means is not known here.
package dcgmreceiver
