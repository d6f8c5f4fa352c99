// Package usagestage counts allocated, unallocated, and unobserved GPU time. The allocated time of
// each container is divided into active and idle time. For each board, the allocated, unallocated,
// and unobserved time add up to the time that has passed.
//
// Package usagestage implements the usage section of gpu_k8s.
package usagestage
