// Package budgetstage compares the GPU memory that containers may use with the memory that they use. It
// reports whether the numbers are consistent: the usage of a device's containers must add up to the
// device's usage.
//
// It is the section "budget" of gpu_k8s.
package budgetstage
