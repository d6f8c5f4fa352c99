// Package gpudata is the model of GPUs at one scrape: a [Frame] of a place, with its devices,
// their samples, who holds them and which processes are on them.
//
// Components compute on frames. Only internal/gpudata/pdatagpu turns the Collector's
// metrics into frames and frames into metrics.
package gpudata
