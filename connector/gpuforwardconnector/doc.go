//go:generate mdatagen metadata.yaml

// Package gpuforwardconnector passes samples on from one pipeline to others without making metrics
// of them; pdatagpu.Forward does it.
package gpuforwardconnector
