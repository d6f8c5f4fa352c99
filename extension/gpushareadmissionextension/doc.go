//go:generate mdatagen metadata.yaml

// Package gpushareadmissionextension serves the admission webhooks of Koordinator's GPU share API.
// One adds the API's defaults to pods, and the other rejects pods that break the API's rules.
package gpushareadmissionextension
