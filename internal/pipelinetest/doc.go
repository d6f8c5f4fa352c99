// Package pipelinetest tests components together that must not know each
// other: receivers of either kind in front of the synthesizer.
package pipelinetest
