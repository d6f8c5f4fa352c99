package pipelinelint

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"
)

type section = map[string]any

// stage is a component on a path.
type stage struct {
	kind     string // the component's type
	id       string
	pipeline string
	settings section
}

// duration returns a setting, or its default where it is not set or cannot be read: that is
// for the collector to refuse.
func (s *stage) duration(key string, byDefault time.Duration) time.Duration {
	return duration(s.settings[key], byDefault)
}

func duration(value any, byDefault time.Duration) time.Duration {
	text, _ := value.(string)
	if d, err := time.ParseDuration(text); err == nil {
		return d
	}
	return byDefault
}

// path is the way of metrics from a receiver to an exporter, through connectors, which stand in
// the pipeline that exports to them.
type path []stage

func (p path) source() *stage { return &p[0] }

func (p path) end() *stage { return &p[len(p)-1] }

// index returns where a type stands first, -1 where it does not.
func (p path) index(kind string) int {
	return slices.IndexFunc(p, func(s stage) bool { return s.kind == kind })
}

// maxPaths bounds the paths of a configuration: forks of forks multiply.
const maxPaths = 10_000

// wiring is the part of a configuration that says what follows what.
type wiring struct {
	conf      section
	pipelines map[string]pipeline
	paths     []path
}

type pipeline struct{ receivers, processors, exporters []string }

var errNoPipelines = errors.New("service::pipelines is missing: must be the configuration of a collector")

// pathsOf returns the paths of metrics in a configuration.
func pathsOf(conf section) ([]path, error) {
	pipelines := pipelinesOf(conf)
	if len(pipelines) == 0 {
		return nil, errNoPipelines
	}
	w := &wiring{conf: conf, pipelines: map[string]pipeline{}}
	for name, p := range pipelines {
		if kind(name) == "metrics" {
			p, _ := p.(section)
			w.pipelines[name] = pipeline{texts(p["receivers"]), texts(p["processors"]), texts(p["exporters"])}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.pipelines)) {
		for _, receiver := range w.pipelines[name].receivers {
			if !w.connects(receiver) {
				w.walk(path{w.stage("receivers", receiver, name)}, name, nil)
			}
		}
	}
	return w.paths, nil
}

// pipelinesOf returns the pipelines of a configuration by name.
func pipelinesOf(conf section) section {
	service, _ := conf["service"].(section)
	pipelines, _ := service["pipelines"].(section)
	return pipelines
}

// exportersOf returns the ids of the exporters of a pipeline.
func exportersOf(conf section, pipeline string) []string {
	p, _ := pipelinesOf(conf)[pipeline].(section)
	return texts(p["exporters"])
}

// takesLogs reports whether a component is a receiver of a pipeline of logs.
func takesLogs(conf section, id string) bool {
	for name, p := range pipelinesOf(conf) {
		p, _ := p.(section)
		if kind(name) == "logs" && slices.Contains(texts(p["receivers"]), id) {
			return true
		}
	}
	return false
}

func (w *wiring) connects(id string) bool {
	connectors, _ := w.conf["connectors"].(section)
	_, ok := connectors[id]
	return ok
}

// walk goes on behind the receivers of a pipeline. through are the pipelines that the path
// went through, none of them twice.
func (w *wiring) walk(p path, name string, through []string) {
	if slices.Contains(through, name) || len(w.paths) >= maxPaths {
		return
	}
	through = append(slices.Clip(through), name)
	for _, id := range w.pipelines[name].processors {
		p = append(p, w.stage("processors", id, name))
	}
	for _, id := range w.pipelines[name].exporters {
		of := "exporters"
		if w.connects(id) {
			of = "connectors"
		}
		on := slices.Concat(p, path{w.stage(of, id, name)})
		if of == "exporters" || kind(id) == "gpu_events" { // metrics end there
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

func (w *wiring) stage(of, id, name string) stage {
	all, _ := w.conf[of].(section)
	settings, _ := all[id].(section)
	return stage{kind: kind(id), id: id, pipeline: name, settings: settings}
}

// kind returns the type of a component's or pipeline's id, by its present name.
func kind(id string) string {
	name, _, _ := strings.Cut(id, "/")
	if name = strings.TrimSpace(name); name == "cumulativetodelta" {
		return "cumulative_to_delta"
	}
	return name
}

func texts(value any) (out []string) {
	list, _ := value.([]any)
	for _, v := range list {
		if text, ok := v.(string); ok {
			out = append(out, text)
		}
	}
	return out
}

// input is what a receiver gives.
type input struct {
	what     content
	interval time.Duration // between two samples of a device; 0 is unknown
}

// content is the kind of metrics that a receiver gives.
type content uint8

const (
	unknown content = iota // what somebody else made
	exposed                // an exporter's metrics as they were scraped
	sampled                // samples
	others                 // nothing of a device
)

const (
	defaultInterval           = 15 * time.Second // of the receivers dcgm and nvml
	defaultPrometheusInterval = time.Minute
)

// inputs returns what a receiver gives.
func inputs(s *stage) []input {
	switch s.kind {
	case "dcgm":
		return []input{{exposed, s.duration("collection_interval", defaultInterval)}}
	case "nvml":
		return []input{{sampled, s.duration("collection_interval", defaultInterval)}}
	case "gpu_cluster":
		return []input{{what: others}}
	case "prometheus":
		return scrapes(s.settings)
	case "receiver_creator":
		var out []input
		templates, _ := s.settings["receivers"].(section)
		for _, id := range slices.Sorted(maps.Keys(templates)) {
			template, _ := templates[id].(section)
			settings, _ := template["config"].(section)
			out = append(out, inputs(&stage{kind: kind(id), settings: settings})...)
		}
		return out
	}
	return []input{{what: unknown}}
}

// scrapes returns what the jobs of a prometheus receiver give.
func scrapes(settings section) (out []input) {
	config, _ := settings["config"].(section)
	global, _ := config["global"].(section)
	interval := duration(global["scrape_interval"], defaultPrometheusInterval)
	jobs, _ := config["scrape_configs"].([]any)
	for _, job := range jobs {
		job, _ := job.(section)
		in := input{what: unknown}
		if scrapesDCGM(job) {
			in = input{exposed, duration(job["scrape_interval"], interval)}
		}
		out = append(out, in)
	}
	return out
}

// scrapesDCGM reports whether a job names dcgm-exporter or its port: in the job's name, its
// targets, or its selectors.
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
