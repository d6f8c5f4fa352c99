package dashboards

import (
	"fmt"
	"maps"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
)

// start runs one of this project's commands with only the given environment variables.
func start(t *testing.T, env map[string]string, name string, args ...string) *processtest.Process {
	t.Helper()
	cmd := exec.Command(processtest.Binary(t, name), args...)
	cmd.Env = processtest.Environment(env)
	return processtest.Start(t, cmd)
}

// prometheus is a running Prometheus server that evaluates the rules in examples/.
type prometheus struct{ *processtest.Prometheus }

func startPrometheus(t *testing.T, scraped ...string) *prometheus {
	t.Helper()
	jobs := ""
	for i, target := range scraped {
		jobs += fmt.Sprintf("- {job_name: collector-%d, honor_labels: true, scrape_interval: 1s, scrape_timeout: 1s, static_configs: [{targets: [%q]}]}\n", i, target)
	}
	alerts, err := filepath.Abs(examplesDir + "/prometheus/alerts.yaml")
	require.NoError(t, err)
	gate, err := filepath.Abs(examplesDir + "/keda/gate-rules.yaml")
	require.NoError(t, err)
	return &prometheus{processtest.StartPrometheus(t,
		"global: {evaluation_interval: 1s}\n"+
			"rule_files: ['"+alerts+"', '"+gate+"']\n"+
			"storage: {tsdb: {out_of_order_time_window: 10m}}\n"+
			"scrape_configs:\n"+jobs)}
}

// query evaluates an expression and returns the label sets of the result.
func (p *prometheus) query(t *testing.T, expr string) []map[string]string {
	t.Helper()
	var data struct {
		Result []struct{ Metric map[string]string }
	}
	p.API(t, "query?"+url.Values{"query": {expr}}.Encode(), &data)
	var found []map[string]string
	for _, series := range data.Result {
		found = append(found, series.Metric)
	}
	return found
}

// way is one of the ways to send windows to Prometheus.
type way struct {
	backend  string // file name in examples/backends
	exporter string
	// If scraped is true, Prometheus scrapes the collector.
	scraped bool
	// set contains additional settings for gpu_cluster. The backend's file contains the same
	// settings for gpu_window.
	set   []string
	files []string
}

// ways lists the files in examples/backends that send data to Prometheus.
var ways = []way{
	{
		backend: "prometheus.yaml", exporter: "otlp_http",
		set: []string{"receivers.gpu_cluster.flat_attributes=true"}, files: []string{"testdata/self-metrics-by-otlp.yaml"},
	},
	{backend: "prometheus-remote-write.yaml", exporter: "prometheus_remote_write"},
	{backend: "prometheus-scrape.yaml", exporter: "prometheus", scraped: true},
}

// filled consists of a Prometheus server and an agent that sends data to the server.
type filled struct {
	way    way
	server *prometheus
	agent  *processtest.Process
}

// fill starts a Prometheus server and an agent that sends data to the server. The agent runs with
// agent.yaml, the backend's file, and the given additional files and settings.
func (w way) fill(t *testing.T, env map[string]string, files, set []string) filled {
	t.Helper()
	page, telemetry := processtest.FreeAddress(t), processtest.FreeAddress(t)
	scraped := []string{telemetry}
	if w.scraped {
		scraped = append(scraped, page)
	}
	if w.files != nil { // the collector sends its self-metrics over OTLP
		scraped = nil
	}
	server := startPrometheus(t, scraped...)
	all := map[string]string{
		"OTLP_ENDPOINT": server.URL + "/api/v1/otlp", "REMOTE_WRITE_ENDPOINT": server.URL + "/api/v1/write", "PROMETHEUS_LISTEN": page,
		"STORAGE_DIR": t.TempDir(), "HEALTH_ENDPOINT": processtest.FreeAddress(t), "TELEMETRY_PORT": processtest.Port(t, telemetry),
	}
	maps.Copy(all, env)
	args := []string{"--config", examplesDir + "/agent.yaml", "--config", examplesDir + "/backends/" + w.backend}
	for _, file := range files {
		args = append(args, "--config", file)
	}
	for _, setting := range set {
		args = append(args, "--set", setting)
	}
	return filled{w, server, start(t, all, "otelcol-gpu", args...)}
}

// dropAnswered deletes queries from the waiting map if they belong to this backend and return data.
// Each key in the map starts with the backend's file name.
func (f filled) dropAnswered(t *testing.T, waiting map[string]query) {
	t.Helper()
	maps.DeleteFunc(waiting, func(where string, q query) bool {
		return strings.HasPrefix(where, f.way.backend) && len(f.server.query(t, q.expr)) > 0
	})
}
