package dashboards

import (
	"cmp"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.yaml.in/yaml/v3"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/dcgm"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/controlplane"
)

const (
	// root is the path of the repository's root directory, relative to this package.
	root        = "../.."
	examplesDir = root + "/examples"
)

var update = flag.Bool("update", false, "write the pictures of docs/dashboards anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(controlplane.Main(m)) }

// query is a published PromQL expression and its location.
type query struct {
	where, expr string
}

// panel contains those properties of a dashboard panel that the tests use.
type panel struct {
	ID          int
	Type, Title string
	Description string
	GridPos     struct{ X, Y, W, H int }
	FieldConfig struct {
		Defaults struct {
			Unit       string
			NoValue    string
			Min, Max   *float64
			Thresholds struct {
				Steps []struct {
					Color string
					Value *float64
				}
			}
		}
		Overrides []struct {
			Matcher    struct{ Options any }
			Properties []struct {
				ID    string
				Value any
			}
		}
	}
	Targets []struct {
		RefID        string
		Expr         string
		LegendFormat string
		Instant      bool
		Datasource   struct{ UID string }
	}
	Transformations []struct {
		Options struct {
			ExcludeByName map[string]bool
			RenameByName  map[string]string
		}
	}
}

// dashboard is a file under examples/grafana.
type dashboard struct {
	file          string
	UID, Title    string
	SchemaVersion int
	Panels        []panel
	Templating    struct {
		List []struct {
			Name, Type string
			Query      any
		}
	}
}

func dashboards(t *testing.T) []dashboard {
	t.Helper()
	files, err := filepath.Glob(examplesDir + "/grafana/*.json")
	require.NoError(t, err)
	require.Len(t, files, 6, "fleet, node, workload, scheduler-dra, power, budgets")
	var all []dashboard
	for _, file := range files {
		d := dashboard{file: filepath.Base(file)}
		require.NoError(t, json.Unmarshal(read(t, file), &d), file)
		all = append(all, d)
	}
	return all
}

// variables matches dashboard variables. The tests replace each variable with what Grafana
// substitutes for the value All, which is the initial value in every dashboard.
var variables = regexp.MustCompile(`\$[a-z]+\b`)

func substitute(expr string) string {
	return variables.ReplaceAllString(strings.NewReplacer("$__rate_interval", "1m", "$__range", "1m").Replace(expr), ".*")
}

// rule is an alerting rule in examples/prometheus, or a recording rule if Alert is empty.
type rule struct {
	Alert, Record, Expr, For string
	Labels, Annotations      map[string]string
}

// name returns a name that is unique among the rules in a file.
func (r rule) name() string {
	return strings.TrimSpace(r.Alert + r.Record + " " + r.Labels["cause"] + r.Labels["scope"])
}

// rules returns the alerting rules about GPUs.
func rules(t *testing.T) []rule {
	t.Helper()
	return slices.DeleteFunc(rulesOf(t, "alerts.yaml"), func(r rule) bool { return r.Alert == "" })
}

func rulesOf(t *testing.T, name string) []rule {
	t.Helper()
	var file struct{ Groups []struct{ Rules []rule } }
	require.NoError(t, yaml.Unmarshal(read(t, examplesDir+"/prometheus/"+name), &file))
	var all []rule
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	require.NotEmpty(t, all)
	return all
}

// labelValues matches the query of a dashboard variable.
var labelValues = regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)

// queries returns all PromQL expressions in the dashboards, the alerts, and the demand gate.
func queries(t *testing.T) []query {
	t.Helper()
	var all []query
	for _, d := range dashboards(t) {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				all = append(all, query{d.file + " " + p.Title, substitute(target.Expr)})
			}
		}
		for _, v := range d.Templating.List {
			if v.Type != "query" {
				continue
			}
			text, _ := v.Query.(map[string]any)["query"].(string)
			match := labelValues.FindStringSubmatch(text)
			require.NotNil(t, match, "%s $%s: %s", d.file, v.Name, text)
			all = append(all, query{d.file + " $" + v.Name, "count by (" + match[2] + ") (" + substitute(match[1]) + ")"})
		}
	}
	for _, r := range rulesOf(t, "alerts.yaml") {
		all = append(all, query{"alerts.yaml " + r.name(), r.Expr})
	}
	keda, rule := gateQueries(t)
	return append(all, query{"scaledobject.yaml", keda}, query{"gate-rules.yaml", rule})
}

// gateQueries returns the two expressions of the demand gate, which are KEDA's query and the
// recording rule.
func gateQueries(t *testing.T) (keda, rule string) {
	t.Helper()
	find := func(file, field string) string {
		var document any
		require.NoError(t, yaml.Unmarshal(read(t, examplesDir+"/keda/"+file), &document))
		var found string
		walk(document, func(key, value string) {
			if key == field {
				found = value
			}
		})
		require.NotEmpty(t, found, "%s has no %s", file, field)
		return found
	}
	return find("scaledobject.yaml", "query"), find("gate-rules.yaml", "expr")
}

// For each map entry in a document with a string value, walk calls the visit function with the
// entry's key and value.
func walk(node any, visit func(key, value string)) {
	switch node := node.(type) {
	case map[string]any:
		for key, value := range node {
			if text, ok := value.(string); ok {
				visit(key, text)
			}
			walk(value, visit)
		}
	case []any:
		for _, value := range node {
			walk(value, visit)
		}
	}
}

// known contains the metric and label names that queries may use.
type known struct {
	metrics, labels map[string]bool
}

// contract reads the Prometheus names of metrics and attributes from docs/signals.md, and the names
// of the watchdog's own metrics from the watchdog's documentation.
func contract(t *testing.T) known {
	t.Helper()
	k := known{metrics: map[string]bool{}, labels: map[string]bool{"job": true, "instance": true, "__name__": true}}
	attributes := regexp.MustCompile("`([a-z0-9_.]+)`")
	for line := range strings.Lines(string(read(t, root+"/docs/signals.md"))) {
		if strings.HasPrefix(line, "The device's identity is") || strings.HasPrefix(line, "Place and workload are") ||
			strings.HasPrefix(line, "A pod's Resource also names its owners") {
			for _, match := range attributes.FindAllStringSubmatch(line, -1) {
				k.labels[rendered(match[1])] = true
			}
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if !strings.HasPrefix(cells[0], " `") {
			continue
		}
		switch name := strings.Trim(cells[0], " `"); len(cells) {
		case 7:
			k.metrics[strings.Trim(cells[6], " `")] = true
		case 3:
			k.labels[rendered(name)] = true
		}
	}
	require.Greater(t, len(k.metrics), 60)
	require.Greater(t, len(k.labels), 40)
	for line := range strings.Lines(string(read(t, root+"/exporter/gpuwatchdogexporter/documentation.md"))) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "### "); ok {
			// In a scrape, the watchdog's metrics have plain names. If the metrics are sent over
			// OTLP, Prometheus adds suffixes for counters and units.
			for _, suffix := range []string{"", "_total", "_seconds"} {
				k.metrics[name+suffix] = true
			}
		}
	}
	return k
}

func rendered(attribute string) string { return strings.ReplaceAll(attribute, ".", "_") }

// TestQueriesUseOnlyNamesOfTheContract finds references to metrics and labels that no component
// emits, even in queries that would return data anyway.
func TestQueriesUseOnlyNamesOfTheContract(t *testing.T) {
	k := contract(t)
	all := queries(t)
	for _, r := range rulesOf(t, "alerts.yaml") {
		k.metrics[r.Record] = true
	}
	for _, r := range rulesOf(t, "workload-rules.yaml") {
		k.metrics[r.Record] = true
		all = append(all, query{"workload-rules.yaml " + r.name(), r.Expr})
	}
	promql := parser.NewParser(parser.Options{})
	for _, q := range all {
		t.Run(q.where, func(t *testing.T) {
			expr, err := promql.ParseExpr(q.expr)
			require.NoError(t, err, q.expr)
			parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
				switch node := node.(type) {
				case *parser.VectorSelector:
					for _, m := range node.LabelMatchers {
						assert.True(t, k.labels[m.Name], "no metric has the label %s", m.Name)
						if m.Name == labels.MetricName {
							assert.True(t, anyMatches(k.metrics, m), "no metric is named %s", m.Value)
						}
					}
				case *parser.AggregateExpr:
					for _, label := range node.Grouping {
						assert.True(t, k.labels[label], "no metric has the label %s", label)
					}
				case *parser.BinaryExpr:
					if node.VectorMatching != nil {
						for _, label := range node.VectorMatching.MatchingLabels {
							assert.True(t, k.labels[label], "no metric has the label %s", label)
						}
					}
				}
				return nil
			})
		})
	}
}

func anyMatches(names map[string]bool, m *labels.Matcher) bool {
	for name := range names {
		if m.Matches(name) {
			return true
		}
	}
	return false
}

func TestPanelsExplainWhatTheyShowAndHowToReadIt(t *testing.T) {
	uids := map[string]bool{}
	for _, d := range dashboards(t) {
		assert.False(t, uids[d.UID], "%s: a uid is used twice", d.file)
		uids[d.UID] = true
		ids := map[int]bool{}
		for _, p := range d.Panels {
			where := d.file + " " + p.Title
			assert.False(t, ids[p.ID], "%s: an id is used twice", where)
			ids[p.ID] = true
			if p.Type == "row" {
				continue
			}
			assert.Greater(t, len(p.Description), 30, "%s: how is it read?", where)
			assert.NotEmpty(t, p.FieldConfig.Defaults.Unit, where)
			assert.NotEmpty(t, p.FieldConfig.Defaults.NoValue, "%s: absent is not zero", where)
			assert.NotEmpty(t, p.FieldConfig.Defaults.Thresholds.Steps, where)
			assert.NotEmpty(t, p.Targets, where)
			for _, target := range p.Targets {
				assert.Equal(t, "${datasource}", target.Datasource.UID, where)
			}
		}
		assert.Equal(t, "datasource", d.Templating.List[0].Type, d.file)
	}
}

// The names of these alerts must not change, because users rely on them.
func TestEveryAlertExistsAndExplainsWhatToDo(t *testing.T) {
	found := map[string]bool{}
	for _, r := range rules(t) {
		found[r.Alert] = true
		assert.NotEmpty(t, r.Annotations["summary"], r.Alert)
		assert.Greater(t, len(r.Annotations["description"]), 100, "%s: the runbook", r.Alert)
		assert.Contains(t, []string{"info", "warning", "critical"}, r.Labels["severity"], r.Alert)
	}
	assert.Equal(t, alerts(), found)
}

func alerts() map[string]bool {
	names := map[string]bool{}
	for name := range strings.FieldsSeq(`
		GPUVRAMLow GPUVRAMTelemetryDown GPUVRAMWatchdogDown GPUPodPendingOnBudget GPUPodOverBudget GPUIdleHeld
		GPUThrottledByPower GPUThrottledThermally GPUMemoryPressure GPUFatalXID GPUUndecidedXID GPUSchedulerSaturated
		GPUSpinning GPUUtilizationLatched GPUSlowDevice GPUMemoryDegrading GPUTelemetryFrozen`) {
		names[name] = true
	}
	return names
}

// This project's self-metrics are documented in the components' metadata, and the Collector's own
// self-metrics in docs/troubleshooting.md. Prometheus adds the suffix _total to counters that are
// sent over OTLP.
func TestAlertsOnCollectorsReadMetricsThatTheDocumentationExplains(t *testing.T) {
	explained := string(read(t, root+"/docs/troubleshooting.md"))
	for _, m := range selfMetrics(t) {
		explained += "`" + m.name + "`"
	}
	for _, r := range rulesOf(t, "collector-alerts.yaml") {
		assert.Greater(t, len(r.Annotations["description"]), 100, "%s: the runbook", r.Alert)
		for _, selector := range selectorsOf(t, r) {
			if selector.Name == "up" || strings.HasPrefix(selector.Name, "prometheus_") { // not ours
				continue
			}
			for _, matcher := range selector.LabelMatchers {
				if matcher.Name != labels.MetricName {
					continue
				}
				names, err := labels.NewFastRegexMatcher(strings.ReplaceAll(matcher.Value, "(_total)?", ""))
				require.NoError(t, err)
				require.NotEmpty(t, names.SetMatches(), "%s: %s is not a list of names", r.Alert, matcher)
				for _, name := range names.SetMatches() {
					assert.Contains(t, explained, "`"+name+"`", r.Alert)
				}
			}
		}
	}
}

// selfMetric is one of this project's self-metrics, with the possible values of its labels.
type selfMetric struct {
	name   string
	labels map[string][]string
}

// selfMetrics reads the self-metrics from every metadata.yaml.
func selfMetrics(t *testing.T) []selfMetric {
	t.Helper()
	files, err := filepath.Glob(root + "/*/*/metadata.yaml")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 10)
	var all []selfMetric
	for _, file := range files {
		var component struct {
			Attributes map[string]struct {
				NameOverride string `yaml:"name_override"`
				Enum         []string
			}
			Telemetry struct {
				Metrics map[string]struct{ Attributes []string }
			}
		}
		require.NoError(t, yaml.Unmarshal(read(t, file), &component), file)
		for name, m := range component.Telemetry.Metrics {
			metric := selfMetric{"otelcol_" + name, map[string][]string{}}
			for _, key := range m.Attributes {
				attribute := component.Attributes[key]
				metric.labels[cmp.Or(attribute.NameOverride, key)] = attribute.Enum
			}
			all = append(all, metric)
		}
	}
	return all
}

func TestAlertsOnCollectorsCoverEveryComponent(t *testing.T) {
	named := func(suffix string) func(selfMetric) []labels.Labels {
		return func(m selfMetric) []labels.Labels {
			if strings.HasSuffix(m.name, suffix) {
				return []labels.Labels{labels.FromStrings(labels.MetricName, m.name)}
			}
			return nil
		}
	}
	labeled := func(label string, wanted ...string) func(selfMetric) []labels.Labels {
		return func(m selfMetric) (series []labels.Labels) {
			for _, value := range m.labels[label] {
				if slices.Contains(wanted, value) {
					series = append(series, labels.FromStrings(labels.MetricName, m.name, label, value))
				}
			}
			return series
		}
	}
	for _, tt := range []struct {
		what, alert string
		of          func(selfMetric) []labels.Labels
		least       int
	}{
		{"a counter of what a limit refused", "GPUCollectorLosesData limit", named("_refused"), 3},
		{"an outcome of what a limit refused", "GPUCollectorLosesData limit", labeled("outcome", "refused"), 3},
		// Do not include the reason "limit", which means that too many gpu_view pages are open, not
		// that data was lost.
		{"a reason that is a limit", "GPUCollectorLosesData limit", labeled("reason", "device_limit", "no_room"), 2},
		{"records that were not received", "GPUCollectorLosesData events", named("_events_dropped"), 1},
		{"errors of the storage", "GPUCollectorStorageErrors", named("_storage_errors"), 6},
		{"a source that cannot be read", "GPUCollectorBlind source", labeled("state", "forbidden", "stale"), 8},
	} {
		t.Run(tt.what, func(t *testing.T) {
			rules := rulesOf(t, "collector-alerts.yaml")
			i := slices.IndexFunc(rules, func(r rule) bool { return r.name() == tt.alert })
			require.GreaterOrEqual(t, i, 0, tt.alert)
			selectors := selectorsOf(t, rules[i])
			found := 0
			for _, m := range selfMetrics(t) {
				for _, series := range tt.of(m) {
					found++
					assert.True(t, slices.ContainsFunc(selectors, func(v *parser.VectorSelector) bool {
						return !slices.ContainsFunc(v.LabelMatchers, func(of *labels.Matcher) bool { return !of.Matches(series.Get(of.Name)) })
					}), "%s does not see %s", tt.alert, series)
				}
			}
			assert.GreaterOrEqual(t, found, tt.least)
		})
	}
}

func selectorsOf(t *testing.T, r rule) (all []*parser.VectorSelector) {
	t.Helper()
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr)
	require.NoError(t, err, r.Alert)
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			all = append(all, selector)
		}
		return nil
	})
	return all
}

func TestXIDAlertsUseTheCodesOfTheCatalog(t *testing.T) {
	for record, wanted := range map[string]func(dcgm.XID) bool{
		"device:gpu_fatal_xid:events":     func(x dcgm.XID) bool { return x.Fatal },
		"device:gpu_undecided_xid:events": func(x dcgm.XID) bool { return x.Undecided },
	} {
		var codes []string
		for _, x := range dcgm.XIDs() {
			if wanted(x) {
				codes = append(codes, strconv.Itoa(x.Code))
			}
		}
		want := `error_type=~"xid_(` + strings.Join(codes, "|") + `)"`
		matcher := regexp.MustCompile(`error_type=~"xid_[^"]*"`)
		found := false
		for _, r := range rulesOf(t, "alerts.yaml") {
			if r.Record == record {
				found = true
				assert.Equal(t, []string{want, want, want}, matcher.FindAllString(r.Expr, -1), record)
			}
		}
		assert.True(t, found, record)
	}
}

// In PromQL, `or` returns the series from both sides if their labels differ. To prefer one metric
// over another, a query must therefore match only on the common labels.
func TestSamplesAreUsedOnlyIfNoCounterMeasuresThrottling(t *testing.T) {
	const sampled, exact = "gpu_saturation_throttle_reason_ratio", "gpu_saturation_throttle_time_ratio"
	promql := parser.NewParser(parser.Options{})
	seen := 0
	for _, q := range queries(t) {
		if !strings.Contains(q.expr, sampled) {
			continue
		}
		seen++
		expr, err := promql.ParseExpr(q.expr)
		require.NoError(t, err, q.where)
		parser.Inspect(expr, func(node parser.Node, path []parser.Node) error {
			if v, ok := node.(*parser.VectorSelector); ok && v.Name == sampled {
				assert.True(t, slices.ContainsFunc(path, func(above parser.Node) bool {
					b, ok := above.(*parser.BinaryExpr)
					return ok && b.VectorMatching != nil && b.VectorMatching.On && strings.Contains(b.String(), exact) &&
						(b.Op == parser.LUNLESS || b.Op == parser.LOR) && slices.Contains(b.VectorMatching.MatchingLabels, "gpu_clock_event_reason")
				}), "%s: samples also where a counter tells", q.where)
			}
			return nil
		})
	}
	assert.Equal(t, 4, seen, "two alerts, two panels")
}

// The gate's query is in two files. One file contains the query itself, and the other contains a
// recording rule that returns 0 if the query has no result.
func TestBothFormsOfTheGateUseTheSameQuery(t *testing.T) {
	keda, rule := gateQueries(t)
	assert.Equal(t, strings.Fields("( "+keda+" ) or vector(0)"), strings.Fields(rule))
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	return content
}
