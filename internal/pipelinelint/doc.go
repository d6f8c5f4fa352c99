// Package pipelinelint finds what is wired or timed wrongly in a collector's configuration,
// before it is started. It knows the components by their types' names, and follows
// connectors from pipeline to pipeline. What the collector itself refuses, such as an
// unknown key, is left to its `validate`.
package pipelinelint
