// Package dratest makes random histories of a node whose devices are allocated by dynamic resource
// allocation: the objects of the API server, the kubelet's list and what telemetry shows. An oracle
// that shares no code with the components says who holds each device.
package dratest
