//go:generate mdatagen metadata.yaml

// Package gpushareadmissionextension serves the admission webhooks of Koordinator's GPU share API: one
// completes what pods request of it, the other rejects pods that break its rules.
package gpushareadmissionextension
