// Package gpudata is the model of the GPUs of a node at one scrape: a [Frame] of a place with its
// devices, their samples, holders and processes.
//
// Components compute on frames. Only internal/gpudata/pdatagpu converts the Collector's
// metrics to frames and frames to metrics.
package gpudata
