// Package pipelinelint checks the wiring and the intervals in a collector's configuration before it
// is started. It recognizes components by their types, and follows connectors from pipeline to
// pipeline. Except for components that are not configured, it does not report what the collector's
// own `validate` command reports, such as unknown keys.
package pipelinelint
