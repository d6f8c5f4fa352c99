// Package powerstage splits the measured power of a board into idle and active power, and divides
// the active power among MIG instances, containers, and processes. Power that belongs to no holder
// is emitted as unattributed, so that the parts always add up to the measured power.
//
// It implements the power section of gpu_k8s.
package powerstage
