// Package pipelinerules contains the rules about the order of components in a pipeline and about
// the time between samples. `gpudoctor lint` and the Helm chart use these rules to check
// configurations, and running components use the rules to check the metrics that they receive. The
// rules are defined only in this package.
package pipelinerules

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Content is the kind of metrics that a receiver provides. The value "" means that the kind is
// unknown, for example because the receiver receives data from other Collectors.
type Content string

const (
	// Raw means the unchanged metrics of an exporter.
	Raw Content = "raw"
	// Samples means the metrics that gpu_synthesizer and the nvml receiver create.
	Samples Content = "samples"
	// Others means metrics that are not about devices.
	Others Content = "others"
)

// Receiver describes a receiver of this project.
type Receiver struct {
	Provides Content `json:"provides"`
	// Interval is the default value of collection_interval.
	Interval time.Duration `json:"-"`
}

// Receivers maps the types of this project's receivers to their descriptions.
var Receivers = map[string]Receiver{
	"dcgm":        {Raw, 15 * time.Second},
	"nvml":        {Samples, 15 * time.Second},
	"gpu_cluster": {Provides: Others},
}

// Sections of gpu_k8s that the rules treat as separate components after gpu_k8s.
const (
	Power  = "gpu_k8s::power"
	Budget = "gpu_k8s::budget"
	Usage  = "gpu_k8s::usage"
)

// Sections lists the sections of gpu_k8s.
var Sections = []string{Power, Budget, Usage}

// Stages lists the stages of a receiver in the order in which they run. The first stage always
// runs.
var Stages = []string{"gpu_synthesizer", "gpu_k8s", "gpu_findings", "gpu_events", "gpu_window"}

// Renamed maps the old names of component types to the names that the Collector currently uses.
var Renamed = map[string]string{"cumulativetodelta": "cumulative_to_delta"}

// Order is a rule about the order of two components in a pipeline: the component in the First field
// must be before the component in the Second field.
type Order struct {
	// First and Second are component types or sections of gpu_k8s.
	First, Second string
	// The Why field states the reason for the rule as a sentence without the final period.
	Why string
	// Needed is a kind of metrics. If a pipeline carries metrics of that kind and contains Second,
	// the pipeline must also contain First. If Needed is "", a pipeline may contain Second without
	// First.
	Needed Content
	// The Or field describes an alternative way to correct a pipeline that does not contain First.
	Or string
}

// Orders contains the rules about the order of components.
var Orders = []Order{
	{First: "gpu_synthesizer", Second: "batch", Why: "gpu_synthesizer combines the rows of one scrape, which batch splits"},
	{First: "gpu_synthesizer", Second: "cumulative_to_delta", Why: "gpu_synthesizer reads cumulative counters"},
	{First: "gpu_synthesizer", Second: "gpu_k8s", Why: "gpu_k8s reads the samples that gpu_synthesizer creates", Needed: Raw},
	{First: "gpu_synthesizer", Second: "gpu_events", Why: "gpu_events reads the samples that gpu_synthesizer creates", Needed: Raw},
	{First: "gpu_synthesizer", Second: "gpu_window", Why: "gpu_window reads the samples that gpu_synthesizer creates", Needed: Raw},
	{First: "gpu_synthesizer", Second: "gpu_watchdog", Why: "gpu_watchdog reads the samples that gpu_synthesizer creates", Needed: Raw},
	{First: "gpu_synthesizer", Second: "gpu_view", Why: "gpu_view shows windows of the samples that gpu_synthesizer creates", Needed: Raw},
	{
		First: "gpu_window", Second: "cumulative_to_delta", Why: "gpu_window reads cumulative counters",
		Needed: Samples, Or: "move cumulative_to_delta to the collector that computes the windows",
	},
	{First: "gpu_window", Second: "gpu_view", Why: "gpu_view shows windows", Needed: Samples},
	{First: Budget, Second: "gpu_watchdog", Why: "gpu_watchdog acts on the declared memory that this section adds", Needed: Samples},
	{First: "memory_limiter", Second: "gpu_window", Why: "it rejects windows instead of samples, and rejected windows are lost"},
	{First: "gpu_k8s", Second: "gpu_window", Why: "the container series from gpu_k8s would have no windows"},
	{First: "gpu_events", Second: "gpu_window", Why: "gpu_events reads samples, and gpu_window sends only one per minute"},
	{First: "gpu_events", Second: "cumulative_to_delta", Why: "gpu_events reads cumulative counters"},
	{First: "gpu_view", Second: "cumulative_to_delta", Why: "gpu_view reads cumulative counters"},
}

// Find returns the rule about the order of two components. If there is no rule about the two
// components, Find panics.
func Find(first, second string) *Order {
	i := slices.IndexFunc(Orders, func(o Order) bool { return o.First == first && o.Second == second })
	return &Orders[i]
}

// Reversed returns a message about a pipeline in which the two components are in the wrong order.
// The message describes the problem and the solution.
func (o *Order) Reversed() string {
	change := fmt.Sprintf("Put %s before %s", name(o.First), name(o.Second))
	if o.First == "gpu_events" || o.First == "gpu_view" { // these components are always last in a pipeline
		change = fmt.Sprintf("Give %s a pipeline without %s", name(o.First), name(o.Second))
	}
	return fmt.Sprintf("%s is after %s: %s. %s.", name(o.First), name(o.Second), o.Why, change)
}

// Missing returns a message about a pipeline that does not contain o.First. The message describes
// the problem and the solution.
func (o *Order) Missing() string {
	text := fmt.Sprintf("%s is missing before %s: %s. Put %[1]s before %[2]s", name(o.First), name(o.Second), o.Why)
	if o.Or != "" {
		text += ", or " + o.Or
	}
	return text + "."
}

// name returns the name of a component or a section for use in a sentence.
func name(kind string) string {
	if of, section, ok := strings.Cut(kind, "::"); ok {
		return of + " with the section " + section
	}
	return kind
}

// Interval is a rule about a setting. The time between two samples must be shorter than the value
// of the setting.
type Interval struct {
	// Component is a component type or a section of gpu_k8s.
	Component, Setting string
	Default            time.Duration
	// Equal is true if the time between two samples may also be equal to the value of the setting.
	Equal bool
	// The Otherwise field describes, in a sentence without the final period, what happens if the
	// time between two samples is too long.
	Otherwise string
	// Age is true if the setting limits the age of samples. Because gpu_window delays samples,
	// components after gpu_window receive older samples.
	Age bool
}

// Intervals contains the rules about the time between two samples of a device.
var Intervals = []Interval{
	{Component: "gpu_window", Setting: "window", Default: time.Minute, Equal: true, Otherwise: "windows without a sample are missing"},
	{Component: "gpu_window", Setting: "max_gap", Default: 90 * time.Second, Otherwise: "no time counts as observed, and gpu.window.coverage is 0"},
	{Component: Power, Setting: "max_gap", Default: 90 * time.Second, Otherwise: "no energy is counted"},
	{Component: Usage, Setting: "max_gap", Default: 90 * time.Second, Otherwise: "all time is unobserved"},
	{Component: "gpu_findings", Setting: "max_gap", Default: 90 * time.Second, Otherwise: "no finding is ever reported"},
	{Component: "gpu_events", Setting: "max_gap", Default: 90 * time.Second, Otherwise: "throttling and memory pressure are never reported"},
	{Component: "gpu_watchdog", Setting: "max_data_age", Default: 90 * time.Second, Otherwise: "all data is too old to act on", Age: true},
}

// FindInterval returns the rule about a setting of a component. If there is no rule about the
// setting, FindInterval panics.
func FindInterval(component, setting string) *Interval {
	i := slices.IndexFunc(Intervals, func(r Interval) bool { return r.Component == component && r.Setting == setting })
	return &Intervals[i]
}

// Allows reports whether the interval between samples is short enough for the given value of the
// setting.
func (r *Interval) Allows(value, interval time.Duration) bool {
	return interval < value || interval == value && r.Equal
}

// Sentence returns a message about a setting that is too short for the interval between samples.
// The message describes the problem and the solution. The source parameter is the text before
// "every <interval>" in the message, such as "dcgm is read".
func (r *Interval) Sentence(value time.Duration, source string, interval time.Duration) string {
	return fmt.Sprintf("%s is %s and %s every %s: %s. %s", r.Setting, value, source, interval, r.Otherwise, change)
}

// WindowGrace is the default value of gpu_window's grace setting.
const WindowGrace = 5 * time.Second

// AgeSentence returns a message about a setting that is shorter than the age of the samples that
// gpu_window sends. The message describes the problem and the solution.
func (r *Interval) AgeSentence(value, age time.Duration) string {
	return fmt.Sprintf("%s is %s and gpu_window sends samples that are up to %s old: some of them are too old to act on. Set it to %[3]s or more.",
		r.Setting, value, age)
}

const change = "Set it above two intervals, or read more often."

// JSON returns the rules as JSON. The Helm chart uses the JSON, because templates cannot call Go
// code.
func JSON() ([]byte, error) {
	type order struct {
		First    string  `json:"first"`
		Second   string  `json:"second"`
		Needed   Content `json:"needed,omitempty"`
		Reversed string  `json:"reversed"`
		Missing  string  `json:"missing,omitempty"`
	}
	type interval struct {
		Component string `json:"component"`
		Setting   string `json:"setting"`
		Default   string `json:"default"`
		Equal     bool   `json:"equal,omitempty"`
		Otherwise string `json:"otherwise"`
	}
	type receiver struct {
		Provides Content `json:"provides"`
		Interval string  `json:"interval,omitempty"`
	}
	tables := struct {
		Receivers map[string]receiver `json:"receivers"`
		Renamed   map[string]string   `json:"renamed"`
		Stages    []string            `json:"stages"`
		Sections  []string            `json:"sections"`
		Orders    []order             `json:"orders"`
		Intervals []interval          `json:"intervals"`
	}{Receivers: map[string]receiver{}, Renamed: Renamed, Stages: Stages, Sections: Sections}
	for kind, r := range Receivers {
		out := receiver{Provides: r.Provides}
		if r.Interval > 0 {
			out.Interval = r.Interval.String()
		}
		tables.Receivers[kind] = out
	}
	for i := range Orders {
		o := &Orders[i]
		out := order{First: o.First, Second: o.Second, Needed: o.Needed, Reversed: o.Reversed()}
		if o.Needed != "" {
			out.Missing = o.Missing()
		}
		tables.Orders = append(tables.Orders, out)
	}
	for _, r := range Intervals {
		tables.Intervals = append(tables.Intervals, interval{
			r.Component, r.Setting, r.Default.String(), r.Equal, r.Otherwise + ". " + change,
		})
	}
	out, err := json.MarshalIndent(tables, "", "  ")
	return append(out, '\n'), err
}
