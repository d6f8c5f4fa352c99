// Package budgetstage compares the amount of GPU memory that containers may use with the amount of
// GPU memory that containers actually use. Package budgetstage also checks whether the sum of the
// containers' usage equals the device's usage.
//
// Package budgetstage implements the budget section of gpu_k8s.
package budgetstage
