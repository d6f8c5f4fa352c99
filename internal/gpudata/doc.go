// Package gpudata models the GPUs of a node at the time of one scrape. A [Frame] contains the
// devices of a node with their samples, holders, and processes.
//
// Components operate on frames. Only internal/gpudata/pdatagpu converts between the Collector's
// metrics and frames.
package gpudata
