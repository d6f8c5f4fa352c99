// Package usagestage counts GPU time: allocated to each container, active and idle of it,
// unallocated, and unobserved. The parts add up to the time that passed.
//
// It is the section usage of gpu_k8s.
package usagestage
