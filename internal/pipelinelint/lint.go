package pipelinelint

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Finding is one problem in a configuration.
type Finding struct {
	// Pipeline is the name of the pipeline with the problem. It is empty for a component that is in
	// no pipeline.
	Pipeline string `json:"pipeline"`
	// Component is the id of the component to move, add to, or change.
	Component string `json:"component"`
	// Text describes the problem and the change that solves it.
	Text string `json:"text"`
	// Note is true if this may be intended.
	Note bool `json:"note,omitempty"`
}

// String returns the finding as one line of text.
func (f *Finding) String() string {
	text := f.Component + ": " + f.Text
	if f.Pipeline != "" {
		text = fmt.Sprintf("pipeline %s: %s", f.Pipeline, text)
	}
	if f.Note {
		text = "note: " + text
	}
	return text
}

// Lint returns the problems of the metrics pipelines in a parsed configuration, sorted by pipeline,
// and the components of all pipelines that are not configured or not used.
// It returns an error if there is no pipeline, or none with a component of this project.
func Lint(conf map[string]any) ([]Finding, error) {
	paths, err := pathsOf(conf)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(paths, path.known) {
		return nil, errors.New("no metrics pipeline has a component of otelcol-gpu (dcgm, nvml, gpu_synthesizer, gpu_window, …): there is nothing to check. Pass all files with which the collector is started")
	}
	var l linter
	for _, p := range paths {
		l.order(p)
		l.once(p)
		for _, in := range inputs(p.source()) {
			l.complete(p, in)
			l.deltas(p, in)
			l.times(p, in)
		}
	}
	l.ends(paths)
	l.stored(paths)
	for _, p := range paths {
		if end := p.end(); end.kind == "gpu_events" && !takesLogs(conf, end.id) {
			l.say(end, "%s is the receiver of no pipeline of logs: its records go nowhere, and the collector does not start. Add a pipeline logs with receivers: [%[1]s].", end.id)
		}
	}
	l.stageLogs(conf, paths)
	l.declared(conf)
	slices.SortStableFunc(l.findings, func(a, b Finding) int { return strings.Compare(a.Pipeline, b.Pipeline) })
	return l.findings, nil
}

// known reports whether a path contains a component of this project.
func (p path) known() bool {
	return slices.ContainsFunc(p, func(s stage) bool {
		return s.kind == "dcgm" || s.kind == "nvml" || strings.HasPrefix(s.kind, "gpu_")
	})
}

type linter struct{ findings []Finding }

// say adds a finding, unless another path has the same one.
func (l *linter) say(s *stage, format string, args ...any) {
	l.add(Finding{Pipeline: s.pipeline, Component: s.id, Text: fmt.Sprintf(format, args...)})
}

// note adds a finding that may be intended.
func (l *linter) note(s *stage, text string) {
	l.add(Finding{Pipeline: s.pipeline, Component: s.id, Text: text, Note: true})
}

func (l *linter) add(f Finding) {
	if !slices.Contains(l.findings, f) {
		l.findings = append(l.findings, f)
	}
}

// orders are pairs of types. If a pipeline has both, the first must come before the second, for the
// given reason.
var orders = []struct{ first, second, why string }{
	{"gpu_synthesizer", "batch", "gpu_synthesizer combines the rows of one scrape, which batch splits"},
	{"gpu_synthesizer", "gpu_k8s", "gpu_k8s reads the samples that gpu_synthesizer creates"},
	{"gpu_synthesizer", "gpu_window", "gpu_window reads the samples that gpu_synthesizer creates"},
	{"gpu_synthesizer", "cumulative_to_delta", "gpu_synthesizer reads cumulative counters"},
	{"gpu_window", "cumulative_to_delta", "gpu_window reads cumulative counters"},
	{"memory_limiter", "gpu_window", "after gpu_window it rejects windows, which are then lost, instead of samples"},
	{"gpu_events", "gpu_window", "gpu_events reads samples, and gpu_window sends only one per minute"},
	{"gpu_k8s", "gpu_window", "the container series from gpu_k8s would have no windows"},
	{"gpu_watchdog", "gpu_window", "gpu_watchdog reads samples, and gpu_window sends only one per minute"},
}

// order reports components in the wrong order.
func (l *linter) order(p path) {
	for _, o := range orders {
		first, second := p.index(o.first), p.index(o.second)
		switch {
		case first < 0 || second < 0 || first < second:
		case first == len(p)-1: // an exporter ends its path
			l.say(&p[first], "%s is after %s: %s. Give %s a pipeline without %s.",
				o.first, o.second, o.why, o.first, o.second)
		default:
			l.say(&p[first], "%s is after %s: %s. Put %s before %s.", o.first, o.second, o.why, o.first, o.second)
		}
	}
}

// once reports a second section usage on a path, which counts nothing.
func (l *linter) once(p path) {
	first := p.index(usageSection)
	for i := range p[first+1:] {
		if again := &p[first+1+i]; first >= 0 && again.kind == usageSection {
			l.say(again, "%s is after %s, which has already counted the time of all GPUs, so it counts nothing. Remove one of the two.",
				again.id, p[first].id)
		}
	}
}

// complete reports that no component turns exporters' metrics into samples.
func (l *linter) complete(p path, in input) {
	if in.what != exposed || p.index("gpu_synthesizer") >= 0 {
		return
	}
	for _, reader := range []string{"gpu_k8s", "gpu_window", "gpu_watchdog", "gpu_view", "gpu_events"} {
		if at := p.index(reader); at >= 0 {
			l.say(&p[at], "gpu_synthesizer is missing: %s cannot read the metrics of %s. Put gpu_synthesizer directly after the receiver.",
				reader, p.source().id)
			return
		}
	}
}

// deltas reports differences of samples. They are for a backend, which gets windows.
func (l *linter) deltas(p path, in input) {
	made, at := p.index("gpu_synthesizer"), p.index("cumulative_to_delta")
	if samples := in.what == sampled || made >= 0; samples && at > made && p.index("gpu_window") < 0 {
		l.say(&p[at], "gpu_window is missing: cumulative_to_delta gets samples, and a gpu_window that receives its output needs cumulative counters. Put gpu_window before cumulative_to_delta, or move both to the collector that computes the windows.")
	}
}

// spans are settings with the time for which a sample is valid. The interval must be shorter.
var spans = []struct {
	kind, setting string
	byDefault     time.Duration
	otherwise     string
}{
	{"gpu_window", "window", time.Minute, "windows without a sample are missing"},
	{"gpu_window", "max_gap", 90 * time.Second, "no time counts as observed, and gpu.window.coverage is 0"},
	{powerSection, "max_gap", 90 * time.Second, "no energy is counted"},
	{usageSection, "max_gap", 90 * time.Second, "all time is unobserved"},
	{"gpu_findings", "max_gap", 90 * time.Second, "no finding is ever reported"},
	{"gpu_events", "max_gap", 90 * time.Second, "throttling and memory pressure are never reported"},
	{"gpu_watchdog", "max_data_age", 90 * time.Second, "all data is too old to act on"},
}

// times reports samples that arrive too rarely.
func (l *linter) times(p path, in input) {
	for _, span := range spans {
		at := p.index(span.kind)
		if at < 0 || in.interval == 0 {
			continue
		}
		length := p[at].duration(span.setting, span.byDefault)
		if in.interval > length || in.interval == length && span.setting != "window" {
			l.say(&p[at], "%s is %s and %s is read every %s: %s. Set it above two intervals, or read more often.",
				span.setting, length, p.source().id, in.interval, span.otherwise)
		}
	}
}

// ends reports exporters that do not receive the metrics that they need on any path.
func (l *linter) ends(paths []path) {
	type gets struct {
		exporter stage
		ready    bool // the required metrics, or metrics that may be these
		samples  bool
	}
	var all []gets
	for _, p := range paths {
		maker, wants := makers[p.end().kind]
		if !wants {
			continue
		}
		at := slices.IndexFunc(all, func(g gets) bool { return g.exporter.id == p.end().id })
		if at < 0 {
			at = len(all)
			all = append(all, gets{exporter: *p.end()})
		}
		all[at].ready = all[at].ready || p.index(maker.kind) >= 0
		for _, in := range inputs(p.source()) {
			all[at].ready = all[at].ready || in.what == unknown
			all[at].samples = all[at].samples || in.what == exposed || in.what == sampled
		}
	}
	for i := range all {
		if g := &all[i]; g.samples && !g.ready {
			kind := g.exporter.kind
			l.say(&g.exporter, "%s is missing: %s only receives samples. Put %s before it in the pipeline.", makers[kind].name, kind, makers[kind].name)
		}
	}
}

// stored reports processors that keep state and are in several pipelines.
func (l *linter) stored(paths []path) {
	first := map[string]string{} // pipeline by processor
	for _, p := range paths {
		for i := 1; i < len(p)-1; i++ {
			s := &p[i]
			if s.settings["storage"] == nil || s.once {
				continue
			}
			if other, known := first[s.id]; known && other != s.pipeline {
				l.say(s, "it has a storage and is also in %s. Each pipeline has its own instance, and only one of them can use the storage, so the collector does not start. Define a second one, such as %s/2.", other, s.kind)
			} else {
				first[s.id] = s.pipeline
			}
		}
	}
}

// stageLogs reports receivers whose stage gpu_events has no logs pipeline.
func (l *linter) stageLogs(conf section, paths []path) {
	for _, p := range paths {
		s := p.source()
		if sections, ok := s.settings["stages"].(section); ok {
			if _, events := sections["gpu_events"]; events && !takesLogs(conf, s.id) {
				l.say(s, "stages::gpu_events sends log records, but %[1]s is not in a logs pipeline, so the collector does not start. Add %[1]s to the receivers of a logs pipeline.", s.id)
			}
		}
	}
}

// maker is the component that provides the metrics that an exporter needs.
type maker struct{ kind, name string }

// makers has the component that each type of exporter needs.
var makers = map[string]maker{
	"gpu_view":     {"gpu_window", "gpu_window"},
	"gpu_watchdog": {budgetSection, "gpu_k8s with the section budget"},
}
