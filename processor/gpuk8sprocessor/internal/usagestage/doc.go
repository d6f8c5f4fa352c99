// Package usagestage counts allocated, unallocated, and unobserved GPU time. It divides the
// allocated time of each container into active and idle time. The parts add up to the time that
// passed.
//
// It implements the usage section of gpu_k8s.
package usagestage
