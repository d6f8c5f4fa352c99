package dashboards

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
)

// The story of the simulated GPUs takes a minute and triggers every alert. Two minutes are enough
// for any starting phase.
const story = 2 * time.Minute

// TestEveryQueryHasDataInARealPrometheus runs the agent with every component, the cluster receiver,
// and the watchdog. They read simulated GPUs and a real API server and send to a real Prometheus.
// Each panel and each variable of every dashboard must return data, and each alert must become at
// least pending, with the names that our pipeline actually writes.
func TestEveryQueryHasDataInARealPrometheus(t *testing.T) {
	begun := time.Now()
	server := startPrometheus(t)
	cluster := begin(t)
	watchdogBegins := cluster.hold("dashboards")
	exporter := processtest.FreeAddress(t)
	processtest.StartSimulator(t, exporter)
	training := cluster.training("http://" + exporter + "/metrics")
	agent := start(t, map[string]string{
		"DCGM_ENDPOINT": training.URL + "/metrics", "CARDS_ENDPOINT": cluster.URL + "/metrics", "DEAD_ENDPOINT": "http://" + processtest.FreeAddress(t) + "/metrics",
		"OTLP_ENDPOINT": server.URL + "/api/v1/otlp", "STORAGE_DIR": t.TempDir(), "HEALTH_ENDPOINT": processtest.FreeAddress(t),
		"NODE_NAME": agentNode, clientcmd.RecommendedConfigPathEnvVar: cluster.plane.KubeConfig(t),
	}, "otelcol-gpu", "--config", examplesDir+"/agent.yaml", "--config", examplesDir+"/backends/prometheus.yaml", "--config", "testdata/everything.yaml")

	waiting := map[string]string{}
	for _, q := range queries(t) {
		if !strings.HasPrefix(q.where, "alerts.yaml ") {
			waiting[q.where+": "+q.expr] = q.expr
		}
	}
	for _, r := range rules(t) {
		// Some alerts cannot fire here. Without data or without the watchdog, all other checks
		// would fail. The rules about containers need a shared device in every kind of trouble. An
		// idle GPU takes an hour. The unit tests next to the rules cover these alerts.
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
	until(t, agent, story, func() bool {
		for where, expr := range waiting {
			if len(server.query(t, expr)) > 0 {
				delete(waiting, where)
			}
		}
		// One alert fires if the watchdog completes no evaluation. To trigger it, the watchdog
		// starts only after a device's attribution has become implausible.
		if _, missing := waiting["GPUVRAMTelemetryDown attribution"]; !missing {
			watchdogBegins()
		}
		// A panel shows the time of the last completed evaluation.
		if !slices.ContainsFunc(slices.Collect(maps.Values(waiting)), func(expr string) bool { return !strings.Contains(expr, "last_success") }) {
			cluster.recover()
		}
		return len(waiting) == 0
	})
	for _, where := range slices.Sorted(maps.Keys(waiting)) {
		assert.Fail(t, "no data", where)
	}

	if *update { // a picture covers the whole story
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

// findingOf returns the value of gpu.finding in an alert's expression.
func findingOf(expr string) (string, bool) {
	_, after, ok := strings.Cut(expr, `device:gpu_finding:holder{gpu_finding="`)
	finding, _, _ := strings.Cut(after, `"`)
	return finding, ok
}

// until calls done every second until it returns true or the time is over. The caller reports what
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
