// Package attribution decides which containers hold which device at which time.
//
// It knows neither telemetry nor objects of the API: what the kubelet, the API
// server and the scrapes say comes as plain structs, a Tracker builds immutable
// tables of them, and Decide picks the one source that speaks for a device.
package attribution
