// Package split divides the active power of a board among the board's MIG instances, containers,
// and processes. Package split does not depend on pdata, time, or configuration.
//
// For every board, the power of all containers plus the unattributed power equals the active power,
// even if measurements are missing. A missing measurement is never treated as zero.
package split
