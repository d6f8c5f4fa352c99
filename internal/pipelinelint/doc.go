// Package pipelinelint checks the wiring and the intervals in a collector's configuration before it
// is started. It recognizes components by their types, and follows connectors from pipeline to
// pipeline. It does not report what the collector's own `validate` command reports, such as unknown
// keys.
package pipelinelint
