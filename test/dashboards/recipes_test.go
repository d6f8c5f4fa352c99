package dashboards

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
)

// blocks returns the fenced code blocks in the recipes that have the given language.
func blocks(t *testing.T, language string) []string {
	t.Helper()
	var found []string
	page := string(read(t, "../../docs/recipes.md"))
	for _, match := range regexp.MustCompile("(?sm)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(page, -1) {
		found = append(found, match[1])
	}
	require.NotEmpty(t, found, language)
	return found
}

// routed returns a selector for the alerts that the Alertmanager configuration in the recipes sends
// to a team. The selector matches any namespace instead of the recipe's namespaces.
func routed(t *testing.T) string {
	t.Helper()
	var config struct {
		Route struct {
			Routes []struct{ Matchers []string }
		}
	}
	for _, block := range blocks(t, "yaml") {
		if strings.HasPrefix(block, "# alertmanager.yaml") {
			require.NoError(t, yaml.Unmarshal([]byte(block), &config))
		}
	}
	require.Len(t, config.Route.Routes, 1)
	matchers := strings.Join(config.Route.Routes[0].Matchers, ", ")
	require.Contains(t, matchers, `"research|training"`)
	return "max_over_time(ALERTS{" + strings.ReplaceAll(matchers, `"research|training"`, `".+"`) + "}[10m])"
}

// The agent scrapes simulated GPUs, which include unpartitioned boards, MIG instances, and claimed
// devices. The agent sends data to a real Prometheus server with the alerting rules from examples/.
func TestTheQueriesOfTheRecipesHaveDataInARealPrometheus(t *testing.T) {
	server := startPrometheus(t)
	mixed, mig, dra := processtest.FreeAddress(t), processtest.FreeAddress(t), processtest.FreeAddress(t)
	processtest.StartSimulator(t, mixed)
	start(t, nil, "dcgmsim", "--listen", mig, "--scenario", "mig-7x1g", "--gpus", "1")
	start(t, nil, "dcgmsim", "--listen", dra, "--scenario", "dra", "--gpus", "2", "--nodes", "2")
	agent := start(t, map[string]string{
		"DCGM_ENDPOINT": "http://" + mixed + "/metrics", "MIG_ENDPOINT": "http://" + mig + "/metrics",
		"DRA_ENDPOINT":  "http://" + dra + "/node/1/metrics", // GPUs that the other endpoints do not have
		"OTLP_ENDPOINT": server.URL + "/api/v1/otlp", "STORAGE_DIR": t.TempDir(), "HEALTH_ENDPOINT": processtest.FreeAddress(t),
	}, "otelcol-gpu", "--config", examplesDir+"/agent.yaml", "--config", examplesDir+"/backends/prometheus.yaml", "--config", "testdata/recipes.yaml")

	waiting := map[string]bool{routed(t): true}
	for _, expr := range blocks(t, "promql") {
		waiting[expr] = true
	}
	until(t, agent, story, func() bool {
		maps.DeleteFunc(waiting, func(expr string, _ bool) bool { return len(server.query(t, expr)) > 0 })
		return len(waiting) == 0
	})
	assert.Empty(t, slices.Sorted(maps.Keys(waiting)), "queries without data")
}
