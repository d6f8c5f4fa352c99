//go:generate mdatagen metadata.yaml

// Package gpushareadmissionextension serves the admission webhooks for Koordinator's GPU Share API.
// One webhook adds the API's default values to pods. The other webhook rejects pods that break the
// API's rules.
package gpushareadmissionextension
