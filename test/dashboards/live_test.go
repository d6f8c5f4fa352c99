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

// story is the time limit for the queries and alerts in a test. The simulated GPUs repeat their
// scenario, which triggers every alert, once per minute. Any period of two minutes contains a
// complete scenario.
const story = 2 * time.Minute

// TestEveryQueryHasDataInARealPrometheus runs, for each example that writes to Prometheus, an agent
// with all components, including gpu_cluster and the watchdog. Each agent reads simulated GPUs and
// a real API server, and writes to a real Prometheus server of its own. On each server, the queries
// of all dashboard panels and variables must return data. Each alert must at least become pending.
// The test therefore checks the names that the pipeline actually writes.
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

	others := map[string]query{} // queries for the other backends
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
		// Some alerts cannot fire in this test and are covered only by the unit tests next to the
		// rules. Alerts for missing data or a missing watchdog could fire only if all other checks
		// failed. Alerts for containers could fire only if every simulated problem occurred on a
		// shared device. The alert for idle GPUs would take an hour to fire.
		if finding, ok := findingOf(r.Expr); ok {
			// The simulated GPUs do not have all the faults that findings report, so this test only
			// checks that the findings' series exist. The unit tests next to the rules check that
			// the alerts fire.
			waiting[r.Alert] = `gpu_finding{gpu_finding="` + finding + `"}`
			continue
		}
		if cause := r.Labels["cause"]; cause != "nothing" && cause != "no_leader" && r.Labels["scope"] == "" && r.Alert != "GPUIdleHeld" {
			waiting[r.Alert+" "+cause] = `max_over_time(ALERTS{alertname="` + r.Alert + `", cause="` + cause + `"}[10m])`
		}
	}
	waiting["an alert on a device that names its holder"] = `max_over_time(ALERTS{scope="", alertname=~"GPU(MemoryPressure|Throttled.+)", k8s_pod_name!=""}[10m])`
	waiting["an alert for each of those that share a device"] = `count by (alertname, hw_id) (max_over_time(ALERTS{scope="container", k8s_pod_name!=""}[10m])) > 1`
	rounds := 0 // number of rounds in which all queries had data; one is not enough, because the points in pictures are whole seconds apart
	until(t, agent, story, func() bool {
		for where, expr := range waiting {
			if len(server.query(t, expr)) > 0 {
				delete(waiting, where)
			}
		}
		for _, other := range all[1:] {
			other.dropAnswered(t, others)
		}
		// One alert fires if the watchdog does not complete an evaluation. To trigger this alert,
		// the test gives the watchdog its lease only after a device's attribution has become
		// implausible.
		if _, missing := waiting["GPUVRAMTelemetryDown attribution"]; !missing {
			watchdogBegins()
		}
		// A panel shows the time of the last completed evaluation. The panel has data only if the
		// exporter reports plausible values again.
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

	if *update { // wait, because the pictures should show all events of the simulation
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
	// Each device has a single alert, although the container's series has the same hw.id.
	assert.Len(t, server.query(t, `count by (hw_id) (ALERTS{alertname="GPUVRAMLow", scope="", hw_id="`+fullGPU+`"}) == 1`), 1)
}

// onlyTheEvaluation reports whether all expressions query the time of the watchdog's last completed
// evaluation.
func onlyTheEvaluation(exprs iter.Seq[string]) bool {
	for expr := range exprs {
		if !strings.Contains(expr, "last_success") {
			return false
		}
	}
	return true
}

// The needs function maps each dashboard's file name to what the dashboard needs in addition to the
// agent, according to the table in examples/grafana/README.md.
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

// If an agent runs with agent.yaml and a backend's file, all dashboards that do not need anything
// else must have data. The test shortens the examples' intervals and makes no other changes.
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

// findingOf returns the value of gpu.finding that an alert's expression selects, or false if the
// expression does not select a finding.
func findingOf(expr string) (string, bool) {
	_, after, ok := strings.Cut(expr, `device:gpu_finding:holder{gpu_finding="`)
	finding, _, _ := strings.Cut(after, `"`)
	return finding, ok
}

// The until function calls the done function once per second until done returns true or time runs
// out. If time runs out, the caller must report what is missing.
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
