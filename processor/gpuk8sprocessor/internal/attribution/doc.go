// Package attribution decides which containers hold which device at which time.
//
// It does not depend on telemetry or on API objects: the answers of the kubelet, the API server,
// and the scrapes are passed in as plain structs. A Tracker builds immutable tables from them, and
// Decide selects the source that determines the holders of a device.
package attribution
