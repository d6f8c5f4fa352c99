package gpuwindowprocessor

import "github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor/internal/window"

// states returns the stored states of all nodes.
func states(e *window.Engine) (all [][]byte) {
	for _, name := range e.Nodes() {
		all = append(all, e.Store(name))
	}
	return all
}
