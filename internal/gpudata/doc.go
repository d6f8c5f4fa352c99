// Package gpudata models the GPUs of a node at one scrape: a [Frame] contains a place's devices,
// with their samples, holders, and processes.
//
// Components compute on frames. Only internal/gpudata/pdatagpu converts between the Collector's
// metrics and frames.
package gpudata
