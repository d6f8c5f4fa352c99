package dashboards

import (
	"iter"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
)

// The scenario of the simulated GPUs repeats every minute and triggers every alert. Two minutes contain
// a complete scenario, regardless of when the test starts.
const story = 2 * time.Minute

// TestEveryQueryHasDataInARealPrometheus runs an agent with every component, the cluster receiver and
// the watchdog for each example that writes to Prometheus. Each agent reads simulated GPUs and a real
// API server, and writes to its own real Prometheus. In all of them, each panel and each variable of
// every dashboard must return data. Each alert must become at least pending. This checks the names that
// our pipeline actually writes.
func TestEveryQueryHasDataInARealPrometheus(t *testing.T) {
	begun := time.Now()
	cluster := begin(t)
	watchdogBegins := cluster.hold("prometheus.yaml")
	exporter := processtest.FreeAddress(t)
	processtest.StartSimulator(t, exporter)
	training := cluster.training("http://" + exporter + "/metrics")
	env := map[string]string{
		"DCGM_ENDPOINT": training.URL + "/metrics", "CARDS_ENDPOINT": cluster.URL + "/metrics", "DEAD_ENDPOINT": "http://" + processtest.FreeAddress(t) + "/metrics",
		"NODE_NAME": agentNode, clientcmd.RecommendedConfigPathEnvVar: cluster.plane.KubeConfig(t),
	}
	var all []filled
	for _, w := range ways {
		env["LEASE"] = w.backend
		all = append(all, w.fill(t, env, append([]string{"testdata/everything.yaml"}, w.files...),
			append(w.set, "service.pipelines.metrics/cluster.exporters=["+w.exporter+"]")))
	}
	server, agent := all[0].server, all[0].agent

	others := map[string]query{} // in the other backends
	for _, q := range queries(t) {
		if !strings.HasPrefix(q.where, "alerts.yaml ") {
			for _, other := range all[1:] {
				others[other.way.backend+" "+q.where+": "+q.expr] = q
			}
		}
	}
	waiting := map[string]string{}
	for _, q := range queries(t) {
		if !strings.HasPrefix(q.where, "alerts.yaml ") {
			waiting[q.where+": "+q.expr] = q.expr
		}
	}
	for _, r := range rules(t) {
		// Some alerts cannot fire in this test. Without data or without the watchdog, all other
		// checks would fail. The rules about containers need shared devices with every simulated
		// problem. The alert for idle GPUs needs an hour. The unit tests next to the rules cover
		// these alerts.
		if finding, ok := findingOf(r.Expr); ok {
			// The simulated GPUs have none of these faults. The unit tests next to the rules let
			// the alerts fire. This test only checks that the rules are evaluated.
			waiting[r.Alert] = `gpu_finding{gpu_finding="` + finding + `"}`
			continue
		}
		if cause := r.Labels["cause"]; cause != "nothing" && cause != "no_leader" && r.Labels["scope"] == "" && r.Alert != "GPUIdleHeld" {
			waiting[r.Alert+" "+cause] = `max_over_time(ALERTS{alertname="` + r.Alert + `", cause="` + cause + `"}[10m])`
		}
	}
	waiting["an alert on a device that names its holder"] = `max_over_time(ALERTS{scope="", alertname=~"GPU(MemoryPressure|Throttled.+)", k8s_pod_name!=""}[10m])`
	waiting["an alert for each of those that share a device"] = `count by (alertname, hw_id) (max_over_time(ALERTS{scope="container", k8s_pod_name!=""}[10m])) > 1`
	rounds := 0 // with data; pictures have points of whole seconds
	until(t, agent, story, func() bool {
		for where, expr := range waiting {
			if len(server.query(t, expr)) > 0 {
				delete(waiting, where)
			}
		}
		for _, other := range all[1:] {
			other.dropAnswered(t, others)
		}
		// One alert fires if the watchdog completes no evaluation. To trigger it, the watchdog starts
		// only after a device's attribution has become implausible.
		if _, missing := waiting["GPUVRAMTelemetryDown attribution"]; !missing {
			watchdogBegins()
		}
		// A panel shows the time of the last completed evaluation.
		if onlyTheEvaluation(maps.Values(waiting)) && onlyTheEvaluation(func(yield func(string) bool) {
			for _, q := range others {
				if !yield(q.expr) {
					return
				}
			}
		}) {
			cluster.recover()
		}
		if len(waiting)+len(others) == 0 {
			rounds++
		}
		return rounds == 3
	})
	for _, where := range append(slices.Sorted(maps.Keys(waiting)), slices.Sorted(maps.Keys(others))...) {
		assert.Fail(t, "no data", where)
	}

	if *update { // the pictures show all events of the simulation
		until(t, agent, time.Until(begun.Add(story)), func() bool { return false })
	}
	draw(t, server, begun, time.Now())

	var groups struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	server.API(t, "rules", &groups)
	for _, group := range groups.Groups {
		for _, r := range group.Rules {
			assert.Equal(t, "ok", r.Health, "%s: %s", r.Name, r.LastError)
		}
	}
	// A device has one alert, although the series of a container has the same hw.id.
	assert.Len(t, server.query(t, `count by (hw_id) (ALERTS{alertname="GPUVRAMLow", scope="", hw_id="`+fullGPU+`"}) == 1`), 1)
}

// onlyTheEvaluation reports whether all expressions are about the watchdog's last completed evaluation.
func onlyTheEvaluation(exprs iter.Seq[string]) bool {
	for expr := range exprs {
		if !strings.Contains(expr, "last_success") {
			return false
		}
	}
	return true
}

// needs returns what each dashboard needs besides the agent, by file, from the table in
// examples/grafana/README.md.
func needs(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, match := range regexp.MustCompile(`(?m)^\| \[[\w-]+\]\((\w[\w-]*\.json)\) \|[^|]*\| *([^|]*?) *\|`).
		FindAllStringSubmatch(string(read(t, examplesDir+"/grafana/README.md")), -1) {
		found[match[1]] = match[2]
	}
	require.Len(t, found, len(dashboards(t)))
	return found
}

// With agent.yaml and a backend's file, the dashboards that need nothing else have data. The test
// shortens the examples' intervals and changes nothing else.
func TestTheExamplesFillTheDashboardsThatNeedNothingElse(t *testing.T) {
	exporter := processtest.FreeAddress(t)
	processtest.StartSimulator(t, exporter)
	var all []filled
	for _, w := range ways {
		all = append(all, w.fill(t, map[string]string{"DCGM_ENDPOINT": "http://" + exporter + "/metrics"}, nil, []string{
			"receivers.dcgm.collection_interval=1s", "receivers.dcgm.timeout=1s", "receivers.dcgm.stages.gpu_window.window=2s",
			"receivers.dcgm.stages.gpu_window.grace=1s", "receivers.dcgm.stages.gpu_window.max_gap=10s",
		}))
	}
	needed := needs(t)
	waiting := map[string]query{}
	for _, q := range queries(t) {
		file, _, _ := strings.Cut(q.where, " ")
		if need, ok := needed[file]; ok && need == "" {
			for _, f := range all {
				waiting[f.way.backend+" "+q.where+": "+q.expr] = q
			}
		}
	}
	require.Greater(t, len(waiting), 100, "the panels of two dashboards at least")
	until(t, all[0].agent, story, func() bool {
		for _, f := range all {
			f.dropAnswered(t, waiting)
		}
		return len(waiting) == 0
	})
	for _, where := range slices.Sorted(maps.Keys(waiting)) {
		assert.Fail(t, "no data", where)
	}
}

// findingOf returns the value of gpu.finding that an alert's expression selects, or false if it
// selects none.
func findingOf(expr string) (string, bool) {
	_, after, ok := strings.Cut(expr, `device:gpu_finding:holder{gpu_finding="`)
	finding, _, _ := strings.Cut(after, `"`)
	return finding, ok
}

// until calls done every second until done returns true or time runs out. The caller reports what
// is missing.
func until(t *testing.T, p *processtest.Process, within time.Duration, done func() bool) {
	t.Helper()
	tick, end := time.NewTicker(time.Second), time.After(within)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if done() {
				return
			}
		case <-end:
			return
		case <-p.Ended:
			assert.Fail(t, "the collector stopped")
			return
		}
	}
}
