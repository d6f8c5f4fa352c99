// Package powerstage splits the measured power of a board into idle power and active power. The
// active power is divided among MIG instances, containers, and processes. Active power that cannot
// be charged to any holder is emitted as unattributed power. Therefore, the parts always add up to
// the measured power.
//
// Package powerstage implements the power section of gpu_k8s.
package powerstage
