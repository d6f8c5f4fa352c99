//go:generate mdatagen metadata.yaml

// Package gpupowerprocessor splits the measured power of a board into idle and
// active power, and shares the active part out to MIG instances, containers and
// processes. What nobody can be charged with is shown as such, so that the parts
// always add up to what was measured.
package gpupowerprocessor
