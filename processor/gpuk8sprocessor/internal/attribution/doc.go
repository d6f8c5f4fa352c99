// Package attribution determines which containers hold a device at a given time.
//
// It does not depend on telemetry or on API objects. Callers pass the answers from the kubelet and
// the API server, and the devices in the scrapes, as plain structs. A Tracker builds immutable
// tables from them, and Decide selects the source that determines the holders of a device.
package attribution
