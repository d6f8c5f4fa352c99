//go:generate mdatagen metadata.yaml

// Package gpuusageprocessor counts GPU time: allocated to each container, active and idle of it,
// unallocated, and unobserved. The parts add up to the time that passed.
package gpuusageprocessor
