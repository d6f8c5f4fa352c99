// Package handover tests in the built collector when the dcgm receiver hands rows to
// gpu_synthesizer without making metrics of them, and that the samples are the same either
// way: with every kind of component in between, forks and reloads.
//
// The tests need OTELCOL_GPU_BIN, the directory of the built commands, and skip without it.
package handover
