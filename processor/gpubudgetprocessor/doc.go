//go:generate mdatagen metadata.yaml

// Package gpubudgetprocessor puts what containers may use of a GPU's memory
// beside what they do use, and says whether the numbers can be believed: what
// the containers of a device use must add up to what the device says.
package gpubudgetprocessor
