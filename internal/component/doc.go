// Package component contains what all components of the distribution share: state in a storage
// extension, logging and status of problems, and settings. Packages that also import the
// Collector's package of the same name import this one as base.
//
// Nothing here depends on Kubernetes, except the package lease for leader election.
package component
