// Package attribution determines which containers hold a device at a given time.
//
// Package attribution does not depend on telemetry formats or on API objects. Callers pass the
// responses from the kubelet and the API server, and the devices in the scrapes, as plain structs.
// A Tracker builds immutable tables from this data. Decide selects the source that determines the
// holders of a device.
package attribution
