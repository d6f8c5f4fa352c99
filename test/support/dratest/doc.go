// Package dratest generates random histories of a node with dynamic resource allocation, in a
// cluster whose other nodes join and leave. A history consists of the API server's objects, the
// kubelet's list, and the devices that telemetry shows. An oracle that shares no code with the
// components returns the holders of each device.
package dratest
