// Package componenthelper contains code that all components of the distribution share: state in a
// storage extension, logging and status of problems, and settings.
//
// Nothing in this package depends on Kubernetes, except the subpackage lease, which implements
// leader election.
package componenthelper
