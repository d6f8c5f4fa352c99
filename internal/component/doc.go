// Package component has what every component of the distribution needs once: its state in
// a storage extension, what it says in the log and as its status, and its settings. Whoever
// imports the Collector's package of that name too calls this one base.
//
// Nothing here knows Kubernetes; the election of a leader is in the package lease.
package component
