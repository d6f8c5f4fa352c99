// Package split divides the active power of a board among its MIG instances, containers, and
// processes. It does not depend on pdata, time, or configuration.
//
// Power is conserved: the power of all containers of a board plus the unattributed power equals its
// active power, whatever is missing. A missing measurement is never treated as zero.
package split
