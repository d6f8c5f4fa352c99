// Package budgetstage compares the GPU memory that containers may use with the memory
// that they use, and says whether the numbers can be trusted: the usage of a device's containers
// must add up to the device's.
//
// It is the section budget of gpu_k8s.
package budgetstage
