// Package budgetstage compares the GPU memory that containers may use with the GPU memory that they
// use. It also checks that the usage of a device's containers adds up to the device's usage.
//
// It implements the budget section of gpu_k8s.
package budgetstage
