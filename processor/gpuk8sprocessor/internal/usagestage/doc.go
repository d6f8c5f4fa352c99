// Package usagestage counts GPU time: the time that is allocated to each container, divided into
// active and idle time, and unallocated and unobserved time. The parts add up to the time that
// passed.
//
// It is the section usage of gpu_k8s.
package usagestage
