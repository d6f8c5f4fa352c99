// Package attribution determines which containers hold a device at a given time.
//
// Package attribution does not depend on telemetry formats or on API objects. Callers pass the
// responses from the kubelet and the API server, and the devices in the scrapes, as plain structs.
// From the responses and the devices, a Tracker builds immutable tables. Decide selects the source
// that determines the holders of a device.
package attribution
