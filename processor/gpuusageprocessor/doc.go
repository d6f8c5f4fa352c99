//go:generate mdatagen metadata.yaml

// Package gpuusageprocessor counts the time of GPUs by who held them: what was allocated to
// each container, how much of it was used, what nobody held and what nobody saw. The parts add
// up to the time that passed.
package gpuusageprocessor
