// Package component has what all components of the distribution share: state in a storage
// extension, logging and status of problems, and settings. Packages that also import the
// Collector's package of that name import this one as base.
//
// Nothing here depends on Kubernetes. Leader election is in the package lease.
package component
