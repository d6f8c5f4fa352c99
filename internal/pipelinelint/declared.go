package pipelinelint

import (
	"maps"
	"slices"
)

// kinds lists the kinds of components. Each kind is the name of a list of components in a pipeline,
// and the name of the top-level section that configures these components.
var kinds = []string{"receivers", "processors", "exporters"}

// The declared method reports components that are in a pipeline but are not configured, and
// receivers and processors that are configured but are not in any pipeline. Unused exporters are
// not reported, because they are common: a file that is merged over another file can replace a
// pipeline's list of exporters but cannot remove an exporter's configuration.
func (l *linter) declared(conf section) {
	used := map[string]bool{} // by kind and ID
	pipelines := at[section](conf, "service", "pipelines")
	for _, name := range slices.Sorted(maps.Keys(pipelines)) {
		for _, of := range kinds {
			for _, id := range texts(pipelines[name], of) {
				used[of+" "+id] = true
				if !configures(conf, of, id) && (of == "processors" || !configures(conf, "connectors", id)) {
					l.report(&stage{id: id, pipeline: name}, "it is in %s of the pipeline and is not configured, so the collector does not start. Add it to the section %[1]s, or remove it from the pipeline.", of)
				}
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(at[section](conf, "processors"))) {
		if !used["processors "+id] {
			l.report(&stage{id: id}, "the processor is configured but in no pipeline: it does nothing. A later file may have replaced the list of processors. Add it to the list, or remove it.")
		}
	}
	for _, id := range slices.Sorted(maps.Keys(at[section](conf, "receivers"))) {
		if !used["receivers "+id] {
			l.note(&stage{id: id}, "the receiver is configured but in no pipeline: its settings and stages have no effect.")
		}
	}
}

func configures(conf section, of, id string) bool {
	_, ok := at[section](conf, of)[id]
	return ok
}
