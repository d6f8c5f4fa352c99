// Package pipelinelint checks the order of components and the intervals in a Collector's
// configuration before the Collector is started. It recognizes components by their types, and
// follows connectors from pipeline to pipeline. It does not report what the Collector's own
// `validate` command reports, such as unknown keys. The only exception is components that are not
// configured.
package pipelinelint
