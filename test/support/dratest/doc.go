// Package dratest generates random histories of a node with dynamic resource allocation, in a
// cluster whose other nodes join and leave. At each step, a history provides the API server's
// objects, the kubelet's list, and the devices that the telemetry shows. An oracle, which shares no
// code with the components, returns the expected holders of each device.
package dratest
