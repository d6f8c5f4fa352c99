package dashboardtest

import (
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// The simulated GPUs' story takes a minute and has everything in it that alerts
// are for. Twice that is enough for whatever phase it begins in.
const story = 2 * time.Minute

// TestEveryQueryHasDataInARealPrometheus runs the agent, with every component
// that attributes, over simulated GPUs into a real Prometheus. Each panel and
// each variable of each dashboard has to show something there, and each alert to
// become at least pending, under the names that our pipeline really writes.
func TestEveryQueryHasDataInARealPrometheus(t *testing.T) {
	server := startPrometheus(t)
	feed := startPipeline(t, server)

	waiting := map[string]string{}
	for _, q := range queries(t) {
		if !strings.HasPrefix(q.where, "alerts.yaml ") {
			waiting[q.where+": "+q.expr] = q.expr
		}
	}
	for name := range alerts() {
		waiting[name] = `max_over_time(ALERTS{alertname="` + name + `"}[10m])`
	}
	feed.until(story, func() bool {
		for where, expr := range waiting {
			if len(server.query(t, expr)) > 0 {
				delete(waiting, where)
			}
		}
		return len(waiting) == 0
	})
	for _, where := range slices.Sorted(maps.Keys(waiting)) {
		assert.Fail(t, "no data", where)
	}

	var groups struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	server.api(t, "rules", &groups)
	for _, group := range groups.Groups {
		for _, r := range group.Rules {
			assert.Equal(t, "ok", r.Health, "%s: %s", r.Name, r.LastError)
		}
	}
	// One alert a device: a container's series has the same hw.id.
	assert.Len(t, server.query(t, `count by (hw_id) (ALERTS{alertname="GPUVRAMLow", hw_id="`+budgeted+`"}) == 1`), 1)
	// The gate is shut to 6 GiB on a GPU that has 1, and open on the idle one.
	assert.Len(t, server.query(t, `gpu_memory_gate == 1`), 1)
}

// pipeline is the running collector and what is sent into it.
type pipeline struct {
	*process
	t    *testing.T
	feed string
}

func startPipeline(t *testing.T, server *prometheus) *pipeline {
	t.Helper()
	binary, simulator := tool(t, "OTELCOL_GPU_BIN", "otelcol-gpu"), tool(t, "OTELCOL_GPU_BIN", "dcgmsim")
	exporter, telemetry := freeAddress(t), freeAddress(t)
	start(t, nil, simulator, "--listen", exporter, "--scenario", "mixed", "--gpus", "8")
	_, port, err := net.SplitHostPort(telemetry)
	assert.NoError(t, err)
	p := &pipeline{t: t, feed: freeAddress(t)}
	p.process = start(t, map[string]string{
		"DCGM_ENDPOINT": "http://" + exporter + "/metrics", "OTLP_ENDPOINT": server.url + "/api/v1/otlp", "FEED_ENDPOINT": p.feed,
		"STORAGE_DIR": t.TempDir(), "HEALTH_ENDPOINT": freeAddress(t), "TELEMETRY_PORT": port, "NODE_NAME": "",
	}, binary, "--config", examplesDir+"/agent.yaml", "--config", examplesDir+"/backends/prometheus.yaml", "--config", "testdata/everything.yaml")
	return p
}

// until feeds every second and asks after that, for as long as it may take; what
// is missing then, the caller says by name.
func (p *pipeline) until(within time.Duration, done func() bool) {
	p.t.Helper()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for end := time.Now().Add(within); time.Now().Before(end); {
		select {
		case now := <-tick.C:
			if send(p.t, p.feed, clusterAndBudgets(now)) && done() {
				return
			}
		case <-p.ended:
			assert.Fail(p.t, "the collector ended")
			return
		}
	}
}
