// Package pipelinelint checks a Collector's configuration before the Collector is started. The
// package checks the order of components and the intervals. The package recognizes components by
// their types and follows connectors from pipeline to pipeline. The package does not report
// problems that the Collector's own `validate` command reports, such as unknown keys. There are
// three exceptions: components that are not configured, values that should be durations but are
// not, and gpu_events connectors that are not in a logs pipeline.
package pipelinelint
