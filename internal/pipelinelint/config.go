package pipelinelint

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/pipelinerules"
)

type section = map[string]any

// The at function returns the value at the given path in a configuration. The path is a list of
// keys. If the configuration has no value of type T at that path, the result is the zero value.
func at[T any](conf any, keys ...string) (value T) {
	for _, key := range keys {
		inner, _ := conf.(section)
		conf = inner[key]
	}
	value, _ = conf.(T)
	return value
}

// stage is a component on a path, or a part of a component that the rules treat as a separate
// component.
type stage struct {
	kind     string // the component's type
	id       string
	pipeline string
	settings section
	once     bool // true if the stage runs in a receiver, which the Collector creates only once even if it is in several pipelines
}

// duration returns the value of a setting, or the given default if the setting is missing or
// invalid. The duration method does not report invalid settings, because [linter.durations] or the
// Collector reports them.
func (s *stage) duration(key string, byDefault time.Duration) time.Duration {
	return duration(s.settings[key], byDefault)
}

func duration(value any, byDefault time.Duration) time.Duration {
	if d, err := time.ParseDuration(at[string](value)); err == nil {
		return d
	}
	return byDefault
}

// path is a list of components through which metrics pass, from a receiver to an exporter. On a
// path, a connector belongs to the pipeline in which it is an exporter.
type path []stage

func (p path) source() *stage { return &p[0] }

func (p path) end() *stage { return &p[len(p)-1] }

// index returns the first position of a component type, or -1.
func (p path) index(kind string) int {
	return slices.IndexFunc(p, func(s stage) bool { return s.kind == kind })
}

// maxPaths is the number of paths after which pathsOf does not enter further pipelines. Without
// this limit, the number of paths could grow exponentially with the number of forks.
const maxPaths = 10_000

// wiring contains the part of a configuration that connects components, and the paths found in it.
type wiring struct {
	conf      section
	pipelines map[string]pipeline
	paths     []path
}

type pipeline struct{ receivers, processors, exporters []string }

var errNoPipelines = errors.New("service::pipelines is missing: must be the configuration of a collector")

// pathsOf returns the paths that metrics take in a configuration. For each receiver with stages in
// a logs pipeline, pathsOf also returns a path that ends with that pipeline.
func pathsOf(conf section) ([]path, error) {
	pipelines := at[section](conf, "service", "pipelines")
	if len(pipelines) == 0 {
		return nil, errNoPipelines
	}
	w := &wiring{conf: conf, pipelines: map[string]pipeline{}}
	for name, p := range pipelines {
		switch kind(name) {
		case "logs":
			for _, receiver := range texts(p, "receivers") { // stages in a receiver can send log records
				if inside := w.withStages("receivers", receiver, name); len(inside) > 1 {
					w.paths = append(w.paths, append(inside, stage{kind: "logs", id: name, pipeline: name}))
				}
			}
		case "metrics":
			w.pipelines[name] = pipeline{texts(p, "receivers"), texts(p, "processors"), texts(p, "exporters")}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.pipelines)) {
		for _, receiver := range w.pipelines[name].receivers {
			if !w.connects(receiver) {
				w.walk(w.withStages("receivers", receiver, name), name, nil)
			}
		}
	}
	return w.paths, nil
}

// takesLogs reports whether a component is a receiver in a logs pipeline.
func takesLogs(conf section, id string) bool {
	for name, p := range at[section](conf, "service", "pipelines") {
		if kind(name) == "logs" && slices.Contains(texts(p, "receivers"), id) {
			return true
		}
	}
	return false
}

func (w *wiring) connects(id string) bool {
	_, ok := at[section](w.conf, "connectors")[id]
	return ok
}

// walk appends the processors and exporters of the pipeline with the given name to a path. The
// through parameter contains the pipelines that are already on the path. A path contains each
// pipeline at most once.
func (w *wiring) walk(p path, name string, through []string) {
	if slices.Contains(through, name) || len(w.paths) >= maxPaths {
		return
	}
	through = append(slices.Clip(through), name)
	for _, id := range w.pipelines[name].processors {
		p = append(p, w.withStages("processors", id, name)...)
	}
	for _, id := range w.pipelines[name].exporters {
		of := "exporters"
		if w.connects(id) {
			of = "connectors"
		}
		on := slices.Concat(p, path{w.stage(of, id, name)})
		if of == "exporters" || kind(id) == "gpu_events" { // no metrics leave this component
			w.paths = append(w.paths, on)
			continue
		}
		for _, next := range slices.Sorted(maps.Keys(w.pipelines)) {
			if slices.Contains(w.pipelines[next].receivers, id) {
				w.walk(slices.Clip(on), next, through)
			}
		}
	}
}

// withSections returns a component. If the component is gpu_k8s, withSections also returns its
// sections, as if they were components after gpu_k8s.
func withSections(s stage) path {
	out := path{s}
	if s.kind != "gpu_k8s" {
		return out
	}
	for _, kind := range pipelinerules.Sections {
		name := strings.TrimPrefix(kind, "gpu_k8s::")
		if _, exists := s.settings[name]; exists {
			out = append(out, stage{
				kind: kind, id: s.id + "::" + name, pipeline: s.pipeline, settings: at[section](s.settings, name), once: s.once,
			})
		}
	}
	return out
}

// withStages returns a component and the stages that run inside it, as if each stage were a
// component in the pipeline.
func (w *wiring) withStages(of, id, name string) path {
	s := w.stage(of, id, name)
	out := withSections(s)
	sections, ok := s.settings["stages"].(section)
	if !ok || of == "processors" && s.kind != "gpu_synthesizer" {
		return out
	}
	for _, kind := range pipelinerules.Stages {
		_, exists := sections[kind]
		if kind == "gpu_synthesizer" {
			exists = of == "receivers" // in a receiver, gpu_synthesizer always runs; a processor with stages is gpu_synthesizer itself
		}
		if exists {
			out = append(out, withSections(stage{
				kind: kind, id: id + "::stages::" + kind, pipeline: name, settings: at[section](sections, kind), once: of == "receivers",
			})...)
		}
	}
	return out
}

func (w *wiring) stage(of, id, name string) stage {
	return stage{kind: kind(id), id: id, pipeline: name, settings: at[section](w.conf, of, id)}
}

// kind returns the type in the ID of a component or a pipeline. If the type has been renamed, kind
// returns the current name.
func kind(id string) string {
	name, _, _ := strings.Cut(id, "/")
	name = strings.TrimSpace(name)
	return cmp.Or(pipelinerules.Renamed[name], name)
}

// texts returns the strings in the list at the given path in a configuration. The path is a list of
// keys.
func texts(conf any, keys ...string) (out []string) {
	for _, v := range at[[]any](conf, keys...) {
		if text, ok := v.(string); ok {
			out = append(out, text)
		}
	}
	return out
}

// input describes one set of metrics that a receiver provides.
type input struct {
	what     pipelinerules.Content
	interval time.Duration // time between two samples of a device; 0 if the time is unknown
}

const defaultPrometheusInterval = time.Minute

// inputs describes the metrics that a receiver provides.
func inputs(s *stage) []input {
	if r, ok := pipelinerules.Receivers[s.kind]; ok {
		return []input{{r.Provides, s.duration("collection_interval", r.Interval)}}
	}
	switch s.kind {
	case "prometheus":
		return scrapes(s.settings)
	case "receiver_creator":
		var out []input
		templates := at[section](s.settings, "receivers")
		for _, id := range slices.Sorted(maps.Keys(templates)) {
			out = append(out, inputs(&stage{kind: kind(id), settings: at[section](templates, id, "config")})...)
		}
		return out
	}
	return []input{{}}
}

// scrapes describes the metrics that each job of a Prometheus receiver provides.
func scrapes(settings section) (out []input) {
	interval := duration(at[any](settings, "config", "global", "scrape_interval"), defaultPrometheusInterval)
	for _, job := range at[[]any](settings, "config", "scrape_configs") {
		in := input{}
		if scrapesDCGM(at[section](job)) {
			in = input{pipelinerules.Raw, duration(at[any](job, "scrape_interval"), interval)}
		}
		out = append(out, in)
	}
	return out
}

// scrapesDCGM reports whether a job probably scrapes dcgm-exporter. A job is assumed to scrape
// dcgm-exporter if any string in the job's configuration contains "dcgm" or ends with
// dcgm-exporter's port.
func scrapesDCGM(value any) bool {
	switch value := value.(type) {
	case string:
		return strings.Contains(strings.ToLower(value), "dcgm") || strings.HasSuffix(value, ":9400")
	case []any:
		return slices.ContainsFunc(value, scrapesDCGM)
	case section:
		for _, v := range value {
			if scrapesDCGM(v) {
				return true
			}
		}
	}
	return false
}
