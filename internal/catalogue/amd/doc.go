// Package amd contains the catalogue table for AMD's device-metrics-exporter, releases 1.0 to 1.5.
package amd
