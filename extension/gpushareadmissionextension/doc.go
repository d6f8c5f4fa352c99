//go:generate mdatagen metadata.yaml

// Package gpushareadmissionextension serves the admission webhooks for Koordinator's GPU share API.
// One webhook adds the defaults of the API to pods. The other webhook rejects pods that break the
// rules of the API.
package gpushareadmissionextension
