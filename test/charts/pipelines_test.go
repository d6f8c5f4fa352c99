package charts

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/otelcol-gpu/otelcol-gpu/internal/pipelinelint"
	"github.com/otelcol-gpu/otelcol-gpu/internal/pipelinerules"
)

type section = map[string]any

// The chart's templates cannot call Go code, so they read the rules of gpudoctor lint from a file.
func TestTheChartHasTheRulesOfLint(t *testing.T) {
	want, err := pipelinerules.JSON()
	require.NoError(t, err)
	file := filepath.Join(chartDir, "files", "pipeline-rules.json")
	if *update {
		require.NoError(t, os.WriteFile(file, want, 0o600))
	}
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got), "go test ./test/charts -update rewrites it")
}

// lintErrors returns the errors that gpudoctor lint reports for a configuration. gpudoctor lint
// checks only configurations that use a component of this project.
func lintErrors(t *testing.T, config section) []string {
	t.Helper()
	found, err := pipelinelint.Lint(config)
	if err != nil {
		require.ErrorContains(t, err, "there is nothing to check")
	}
	var errs []string
	for _, f := range found {
		if !f.Note {
			errs = append(errs, f.Text)
		}
	}
	return errs
}

// assertLintClean checks that gpudoctor lint reports no errors for a rendered configuration.
// Configurations without pipelines are not checked.
func assertLintClean(t *testing.T, text string) {
	t.Helper()
	config := parsed(t, text)
	if service, _ := config["service"].(section); service["pipelines"] != nil {
		assert.Empty(t, lintErrors(t, config), "gpudoctor lint refuses what the chart renders")
	}
}

// installation is a set of values for the chart and a collector whose pipelines a user can change.
type installation struct {
	// set contains the chart's values.
	set []string
	// collector is the component whose config value is changed.
	collector string
	// exporter is the name of the exporter in the collector's metrics pipeline.
	exporter string
}

var installations = map[string]installation{
	"agents that compute windows": {
		[]string{"gpu_k8s.usage={}", "gpu_findings.enabled=true", "gpu_events.enabled=true", `backend.endpoint="http://backend"`}, "agent", "otlp_http",
	},
	"agents with the watchdog": {
		[]string{"gpu_k8s.budget={}", "gpu_watchdog.enabled=true", `backend.endpoint="http://backend"`}, "agent", "otlp_http",
	},
	"agents that send samples to gateways": {
		[]string{"gateway.enabled=true", "tls.insecure=true", `backend.endpoint="http://backend"`}, "agent", "load_balancing",
	},
	"gateways": {
		[]string{"gateway.enabled=true", "tls.insecure=true", `backend.endpoint="http://backend"`}, "gateway", "otlp_http",
	},
}

// config returns the collector configuration that the chart renders.
func (i installation) config(t *testing.T) string {
	t.Helper()
	return configMaps(t, decode(t, render(t, "", i.set...)))[i.collector]
}

func parsed(t *testing.T, config string) section {
	t.Helper()
	var content section
	require.NoError(t, yaml.Unmarshal([]byte(config), &content))
	return content
}

// assertAgreement changes a collector configuration through the chart's config value. The base
// parameter is the configuration before the change. The chart must refuse the change if and only if
// gpudoctor lint reports an error, and both must give the same reason.
func (i installation) assertAgreement(t *testing.T, base string, change section) (refused bool) {
	t.Helper()
	config := parsed(t, base)
	overlay(config, change)
	errs := lintErrors(t, config)

	value, err := json.Marshal(change)
	require.NoError(t, err)
	output, err := helm(t, renderArgs("", append(slices.Clone(i.set), i.collector+".config="+string(value)))...)
	if len(errs) == 0 {
		assert.NoError(t, err, "the chart refuses what lint accepts: %s", output)
		return false
	}
	if !assert.Error(t, err, "the chart accepts what lint refuses: %v", errs) {
		return true
	}
	assert.True(t, slices.ContainsFunc(errs, func(text string) bool {
		// Compare only the reasons, because the text before the reason differs between the two
		// messages.
		_, reason, found := strings.Cut(text, ": ")
		return strings.Contains(output, text) || found && strings.Contains(output, reason)
	}), "lint reports %v, the chart %s", errs, output)
	return true
}

// overlay merges the upper map into the lower map the same way the chart does. A nil value deletes
// a key.
func overlay(lower, upper section) {
	for key, value := range upper {
		below, nested := lower[key].(section)
		above, isMap := value.(section)
		switch {
		case value == nil:
			delete(lower, key)
		case nested && isMap:
			overlay(below, above)
		default:
			lower[key] = value
		}
	}
}

// place adds a component of the given kind to the metrics pipeline in the change parameter.
func place(change section, kind string) {
	of, settings := "processors", section{}
	switch kind {
	case "gpu_view":
		of, settings = "exporters", section{"endpoint": "localhost:9411"}
	case "gpu_watchdog":
		of = "exporters"
	case "gpu_events":
		of = "connectors"
		change["service"].(section)["pipelines"].(section)["logs/rule"] = section{"receivers": []any{"gpu_events/rule"}, "exporters": []any{"debug/rule"}}
		change["exporters"].(section)["debug/rule"] = section{}
	case "memory_limiter":
		settings = section{"check_interval": "1s", "limit_mib": 64}
	}
	name, inside, isSection := strings.Cut(kind, "::")
	if isSection {
		settings = section{inside: section{}}
	}
	id := name + "/rule"
	change[of].(section)[id] = settings
	list := "exporters"
	if of == "processors" {
		list = of
	}
	pipeline := change["service"].(section)["pipelines"].(section)["metrics"].(section)
	pipeline[list] = append(pipeline[list].([]any), id)
}

// orderCases returns lists of components to test. For each ordering rule, orderCases returns the
// rule's two components in both orders and each of them alone.
func orderCases() (lists [][]string) {
	for _, o := range pipelinerules.Orders {
		for _, kinds := range [][]string{{o.First, o.Second}, {o.Second, o.First}, {o.First}, {o.Second}} {
			if !slices.ContainsFunc(lists, func(known []string) bool { return slices.Equal(known, kinds) }) {
				lists = append(lists, kinds)
			}
		}
	}
	return lists
}

func TestTheChartRefusesTheOrdersThatLintRefuses(t *testing.T) {
	for _, name := range []string{"agents that compute windows", "agents that send samples to gateways", "gateways"} {
		t.Run(name, func(t *testing.T) {
			i := installations[name]
			base := i.config(t)
			refused, accepted := 0, 0
			for _, kinds := range orderCases() {
				t.Run(strings.Join(kinds, " before "), func(t *testing.T) {
					change := section{
						"processors": section{}, "connectors": section{}, "exporters": section{},
						"service": section{"pipelines": section{"metrics": section{"processors": []any{}, "exporters": []any{i.exporter}}}},
					}
					processors, _ := parsed(t, base)["processors"].(section)
					for id := range processors { // remove the chart's processors
						change["processors"].(section)[id] = nil
					}
					for _, kind := range kinds {
						place(change, kind)
					}
					if i.assertAgreement(t, base, change) {
						refused++
					} else {
						accepted++
					}
				})
			}
			assert.Positive(t, refused)
			assert.Positive(t, accepted)
		})
	}
}

// Each interval rule is tested with values below, equal to, and above the interval.
func TestTheChartRefusesTheIntervalsThatLintRefuses(t *testing.T) {
	const interval = 15 * time.Second
	bases := map[string]string{}
	for name, i := range installations {
		bases[name] = i.config(t)
	}
	for _, r := range pipelinerules.Intervals {
		t.Run(r.Component+" "+r.Setting, func(t *testing.T) {
			found := 0
			for name, i := range installations {
				change := settingIn(parsed(t, bases[name]), r)
				if change == nil {
					continue
				}
				found++
				for _, value := range []time.Duration{interval - time.Second, interval, interval + time.Second} {
					t.Run(fmt.Sprint(name, " ", value), func(t *testing.T) {
						refused := i.assertAgreement(t, bases[name], change(value))
						assert.Equal(t, !r.Allows(value, interval), refused)
					})
				}
			}
			assert.Positive(t, found, "no installation has the setting")
		})
	}
}

// settingIn returns a function that creates a configuration change for the setting that a rule
// checks. settingIn returns nil if the configuration lacks the dcgm receiver or the rule's
// component.
func settingIn(config section, r pipelinerules.Interval) func(time.Duration) section {
	component, inner, isSection := strings.Cut(r.Component, "::")
	for _, path := range [][]string{
		{"receivers", "dcgm", "stages", component}, {"processors", component}, {"exporters", component},
	} {
		if isSection {
			path = append(path, inner)
		}
		var value any = config
		for _, key := range path {
			below, _ := value.(section)
			value = below[key]
		}
		receivers, _ := config["receivers"].(section)
		if _, exists := value.(section); !exists || receivers["dcgm"] == nil {
			continue
		}
		return func(d time.Duration) section {
			change := section{r.Setting: d.String()}
			for _, key := range slices.Backward(path) {
				change = section{key: change}
			}
			return change
		}
	}
	return nil
}

// gpudoctor lint checks only one collector at a time. The chart also checks the gateways' windows
// against the agents' scrape interval.
func TestTheWindowsOfGatewaysFitTheIntervalOfTheAgents(t *testing.T) {
	gateways := installations["gateways"].set
	output, err := helm(t, renderArgs("", append(slices.Clone(gateways), `dcgm.collection_interval="50s"`))...)
	require.Error(t, err)
	assert.Contains(t, output, `gpu_window.max_gap is "50s" and dcgm.collection_interval is "50s": no time counts as observed`)
	render(t, "", append(slices.Clone(gateways), `dcgm.collection_interval="49s"`)...)
}

// The chart and gpudoctor lint must also agree on which pipeline structures are valid.
func TestTheChartRefusesThePipelinesThatLintRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		of      string
		change  string
		refused bool
	}{
		"a processor that is not configured": {"agents that compute windows", `{"service":{"pipelines":{"metrics":{"processors":["batch"]}}}}`, true},
		"an exporter that is not configured": {"gateways", `{"service":{"pipelines":{"metrics":{"exporters":["debug"]}}}}`, true},
		"a processor in no pipeline":         {"gateways", `{"service":{"pipelines":{"metrics":{"processors":["gpu_window"]}}}}`, true},
		"a processor that was removed":       {"gateways", `{"processors":{"memory_limiter":null},"service":{"pipelines":{"metrics":{"processors":["gpu_window"]}}}}`, false},
		"a storage in two pipelines":         {"gateways", `{"service":{"pipelines":{"metrics/2":{"receivers":["otlp"],"processors":["gpu_window"],"exporters":["otlp_http"]}}}}`, true},
		"a page that receives samples": {
			"agents that send samples to gateways",
			`{"exporters":{"gpu_view":{}},"service":{"pipelines":{"metrics":{"exporters":["load_balancing","gpu_view"]}}}}`, true,
		},
		"deltas behind a connector, before the windows": {
			"gateways", `{"processors":{"cumulative_to_delta":{}},"connectors":{"forward":{}},"service":{"pipelines":{
				"metrics":{"processors":["memory_limiter","cumulative_to_delta"],"exporters":["forward"]},
				"metrics/2":{"receivers":["forward"],"processors":["gpu_window"],"exporters":["otlp_http"]}}}}`, true,
		},
		"deltas behind a connector, after the windows": {
			"gateways", `{"processors":{"cumulativetodelta":{}},"connectors":{"forward":{}},"service":{"pipelines":{
				"metrics":{"exporters":["forward"]},
				"metrics/2":{"receivers":["forward"],"processors":["cumulativetodelta"],"exporters":["otlp_http"]}}}}`, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var change section
			require.NoError(t, json.Unmarshal([]byte(tt.change), &change))
			i := installations[tt.of]
			config := parsed(t, i.config(t))
			overlay(config, change)
			assert.Equal(t, tt.refused, len(lintErrors(t, config)) > 0, "lint")
			output, err := helm(t, renderArgs("", append(slices.Clone(i.set), i.collector+".config="+tt.change))...)
			assert.Equal(t, tt.refused, err != nil, "the chart: %s", output)
		})
	}
}
