package pipelinelint

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/pipelinerules"
)

// Finding is one problem in a configuration.
type Finding struct {
	// Pipeline is the name of the pipeline that has the problem. Pipeline is "" if the component is
	// not in any pipeline.
	Pipeline string `json:"pipeline"`
	// Component is the ID of the component that has the problem.
	Component string `json:"component"`
	// Text describes the problem and the solution.
	Text string `json:"text"`
	// Note is true if the configuration may be intentional.
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

// Lint returns the problems in the metrics pipelines of a parsed configuration, sorted by pipeline.
// Lint also returns a problem for each component that is in a pipeline but is not configured, and
// for each receiver or processor that is configured but is not in any pipeline. If there is no
// pipeline, if no pipeline contains a component of this project, or if a part of the configuration
// that connects components has the wrong type, Lint returns an error.
func Lint(conf map[string]any) ([]Finding, error) {
	if err := shape(conf); err != nil {
		return nil, err
	}
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
		l.repeated(p)
		for _, in := range inputs(p.source()) {
			l.missing(p, in)
			l.times(p, in)
		}
		l.durations(p)
	}
	l.ends(paths)
	l.stored(paths)
	for _, p := range paths {
		if end := p.end(); end.kind == "gpu_events" && !takesLogs(conf, end.id) {
			l.report(end, "%s is the receiver of no pipeline of logs: its records go nowhere, and the collector does not start. Add a pipeline logs with receivers: [%[1]s].", end.id)
		}
	}
	l.stageLogs(conf, paths)
	l.declared(conf)
	slices.SortStableFunc(l.findings, func(a, b Finding) int { return strings.Compare(a.Pipeline, b.Pipeline) })
	return l.findings, nil
}

// The known method reports whether a path contains a component of this project.
func (p path) known() bool {
	return slices.ContainsFunc(p, func(s stage) bool {
		return s.kind == "dcgm" || s.kind == "nvml" || strings.HasPrefix(s.kind, "gpu_")
	})
}

type linter struct{ findings []Finding }

// report adds a finding, unless the same finding was already added for another path.
func (l *linter) report(s *stage, format string, args ...any) {
	l.add(Finding{Pipeline: s.pipeline, Component: s.id, Text: fmt.Sprintf(format, args...)})
}

// note adds a finding about a configuration that may be intentional.
func (l *linter) note(s *stage, text string) {
	l.add(Finding{Pipeline: s.pipeline, Component: s.id, Text: text, Note: true})
}

func (l *linter) add(f Finding) {
	if !slices.Contains(l.findings, f) {
		l.findings = append(l.findings, f)
	}
}

// The order method reports components that are in the wrong order.
func (l *linter) order(p path) {
	for i := range pipelinerules.Orders {
		o := &pipelinerules.Orders[i]
		if first, second := p.index(o.First), p.index(o.Second); first > second && second >= 0 {
			l.report(&p[first], "%s", o.Reversed())
		}
	}
}

// The once method reports every usage section on a path except the first, because only the first
// usage section counts time.
func (l *linter) once(p path) {
	first := p.index(pipelinerules.Usage)
	for i := range p[first+1:] {
		if again := &p[first+1+i]; first >= 0 && again.kind == pipelinerules.Usage {
			l.report(again, "%s is after %s, which has already counted the time of all GPUs, so it counts nothing. Remove one of the two.",
				again.id, p[first].id)
		}
	}
}

// The repeated method reports processors on a path that a receiver or gpu_synthesizer already runs
// as stages.
func (l *linter) repeated(p path) {
	for _, kind := range pipelinerules.Stages {
		first := p.index(kind)
		for i := range p[first+1:] {
			if again := &p[first+1+i]; first >= 0 && again.kind == kind && strings.Contains(p[first].id, "::stages::") {
				l.note(again, fmt.Sprintf("%s is after %s, which has already processed the same samples. Unless this is intended, remove one of the two.",
					again.id, p[first].id))
			}
		}
	}
}

// The content method returns the kind of metrics that reach the given position on a path.
func (p path) content(in input, position int) pipelinerules.Content {
	if made := p.index("gpu_synthesizer"); made >= 0 && made < position {
		return pipelinerules.Samples
	}
	return in.what
}

// The missing method reports a problem if a component on the path needs another component before it
// and that other component is not on the path. If several components need the same missing
// component, the method reports only the first of them on the path. The method does not report
// exporters that need samples; see [linter.ends].
func (l *linter) missing(p path, in input) {
	lacks := map[string]int{} // for each type of missing component, the position of the first component that needs it
	var rules []*pipelinerules.Order
	for i := range pipelinerules.Orders {
		o := &pipelinerules.Orders[i]
		second := p.index(o.Second)
		if o.Needed == "" || second < 0 || p.index(o.First) >= 0 || p.content(in, second) != o.Needed ||
			o.Needed == pipelinerules.Samples && second == len(p)-1 {
			continue
		}
		rules = append(rules, o)
		if earliest, known := lacks[o.First]; !known || second < earliest {
			lacks[o.First] = second
		}
	}
	for _, o := range rules {
		if second := p.index(o.Second); lacks[o.First] == second {
			l.report(&p[second], "%s", o.Missing())
		}
	}
}

// The times method reports components that do not receive samples often enough, and components
// after gpu_window whose maximum age of samples is too short.
func (l *linter) times(p path, in input) {
	for i := range pipelinerules.Intervals {
		r := &pipelinerules.Intervals[i]
		at := p.index(r.Component)
		if at < 0 {
			continue
		}
		value, age := p[at].duration(r.Setting, r.Default), p.ageInWindows(at, in.interval)
		switch {
		case in.interval > 0 && !r.Allows(value, in.interval):
			l.report(&p[at], "%s", r.Sentence(value, p.source().id+" is read", in.interval))
		case r.Age && value < age:
			l.report(&p[at], "%s", r.AgeSentence(value, age))
		}
	}
}

// ageInWindows returns the maximum age that the newest sample can reach in a component after
// gpu_window. If the component is not after gpu_window, the result is 0. The maximum age is the sum
// of four durations: a sample is at most one interval older than the end of its window, the grace
// period follows the end of the window, gpu_window sends the window at most one second after the
// grace period, and gpu_window sends the next window one window length later. If the interval is
// unknown, pass 0.
func (p path) ageInWindows(position int, interval time.Duration) time.Duration {
	at := p.index("gpu_window")
	if at < 0 || at > position {
		return 0
	}
	window := pipelinerules.FindInterval("gpu_window", "window").Default
	return interval + p[at].duration("grace", pipelinerules.WindowGrace) + time.Second + p[at].duration("window", window)
}

// The durations method reports settings that interval rules use but whose values are not durations.
// Without durations, the linter cannot check the interval rules.
func (l *linter) durations(p path) {
	check := func(s *stage, setting string) {
		value, exists := s.settings[setting]
		if text, ok := value.(string); ok {
			_, err := time.ParseDuration(text)
			exists = err != nil
			value = strconv.Quote(text)
		}
		if exists && value != nil {
			l.report(s, "%s is %v: must be a duration with its unit, as in 15s.", setting, value)
		}
	}
	if pipelinerules.Receivers[p.source().kind].Interval > 0 {
		check(p.source(), "collection_interval")
	}
	for i := range pipelinerules.Intervals {
		if at := p.index(pipelinerules.Intervals[i].Component); at >= 0 {
			check(&p[at], pipelinerules.Intervals[i].Setting)
		}
	}
}

// The ends method reports exporters that receive samples but do not receive the metrics that they
// need on any of their paths. One suitable path is enough, because an exporter may also receive
// other metrics, such as those from gpu_cluster.
func (l *linter) ends(paths []path) {
	type need struct {
		exporter string
		rule     *pipelinerules.Order
	}
	met, lacks := map[need]bool{}, map[need]bool{}
	var needs []need
	for _, p := range paths {
		for i := range pipelinerules.Orders {
			o := &pipelinerules.Orders[i]
			if o.Second != p.end().kind || o.Needed != pipelinerules.Samples {
				continue
			}
			n := need{p.end().id, o}
			if !slices.Contains(needs, n) {
				needs = append(needs, n)
			}
			for _, in := range inputs(p.source()) {
				what := p.content(in, len(p)-1)
				met[n] = met[n] || what == "" || p.index(o.First) >= 0
				lacks[n] = lacks[n] || what == o.Needed
			}
		}
	}
	for _, n := range needs {
		if lacks[n] && !met[n] {
			i := slices.IndexFunc(paths, func(p path) bool { return p.end().id == n.exporter })
			l.report(paths[i].end(), "%s", n.rule.Missing())
		}
	}
}

// The stored method reports processors that use a storage extension and are in several pipelines.
func (l *linter) stored(paths []path) {
	first := map[string]string{} // the first pipeline that contains each processor
	for _, p := range paths {
		for i := 1; i < len(p)-1; i++ {
			s := &p[i]
			if s.settings["storage"] == nil || s.once {
				continue
			}
			if other, known := first[s.id]; known && other != s.pipeline {
				l.report(s, "it has a storage and is also in %s. Each pipeline has its own instance, and only one of them can use the storage, so the collector does not start. Define a second one, such as %s/2.", other, s.kind)
			} else {
				first[s.id] = s.pipeline
			}
		}
	}
}

// stageLogs reports receivers that have the gpu_events stage but are not in any logs pipeline, and
// receivers with stages in a logs pipeline that do not have the gpu_events stage.
func (l *linter) stageLogs(conf section, paths []path) {
	for _, p := range paths {
		s := p.source()
		if sections, ok := s.settings["stages"].(section); ok {
			if _, events := sections["gpu_events"]; events && !takesLogs(conf, s.id) {
				l.report(s, "stages::gpu_events sends log records, but %[1]s is not in a logs pipeline, so the collector does not start. Add %[1]s to the receivers of a logs pipeline.", s.id)
			} else if !events && p.end().kind == "logs" {
				l.note(s, fmt.Sprintf("%s is in a logs pipeline, but sends no log records. Add gpu_events to its stages.", s.id))
			}
		}
	}
}
