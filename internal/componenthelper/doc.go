// Package componenthelper contains code that all components of the distribution share: storing
// state in a storage extension, logging problems and reporting them as component status, and
// decoding settings.
//
// Nothing in this package depends on Kubernetes, except the subpackage lease, which implements
// leader election.
package componenthelper
