// Package component has what every component of the distribution needs once: state in
// a storage extension, logging and status of problems, and settings. Packages that also
// import the Collector's package of that name import this one as base.
//
// Nothing here depends on Kubernetes; the election of a leader is in the package lease.
package component
