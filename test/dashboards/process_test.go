package dashboards

import (
	"net/url"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
)

// start runs one of our commands with only the given environment.
func start(t *testing.T, env map[string]string, name string, args ...string) *processtest.Process {
	t.Helper()
	cmd := exec.Command(processtest.Binary(t, name), args...)
	cmd.Env = processtest.Environment(env)
	return processtest.Start(t, cmd)
}

// prometheus is a running Prometheus with our alerting rules.
type prometheus struct{ *processtest.Prometheus }

func startPrometheus(t *testing.T) *prometheus {
	t.Helper()
	alerts, err := filepath.Abs(examplesDir + "/prometheus/alerts.yaml")
	require.NoError(t, err)
	gate, err := filepath.Abs(examplesDir + "/keda/gate-rules.yaml")
	require.NoError(t, err)
	return &prometheus{processtest.StartPrometheus(t,
		"global: {evaluation_interval: 1s}\n"+
			"rule_files: ['"+alerts+"', '"+gate+"']\n"+
			"storage: {tsdb: {out_of_order_time_window: 10m}}\n")}
}

// query returns the label sets of an expression's current result.
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
