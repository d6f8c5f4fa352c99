// Package split shares the active power of a board out to its MIG instances,
// containers and processes. It knows nothing of pdata, time or configuration.
//
// Power is conserved: what the containers of a board are charged with and what
// is unattributed add up to its active power, whatever is missing. A missing
// measure is never taken for a zero.
package split
