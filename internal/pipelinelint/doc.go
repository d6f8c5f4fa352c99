// Package pipelinelint checks a Collector's configuration before the Collector is started. The
// package checks the order of components and the intervals. Components are recognized by their
// types, and connectors are followed from pipeline to pipeline. Problems that the Collector's own
// `validate` command reports, such as unknown keys, are not reported. The only exception is
// components that are not configured.
package pipelinelint
