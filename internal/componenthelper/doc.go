// Package componenthelper contains what all components of the distribution share: state in a
// storage extension, logging and status of problems, and settings.
//
// Nothing here depends on Kubernetes, except the package lease for leader election.
package componenthelper
