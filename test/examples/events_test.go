package examples

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
)

// runEvents checks that the file exporter and the OTLP exporter send the same log records for the
// simulator's errors.
func runEvents(t *testing.T, files, set []string) {
	t.Helper()
	backend := processtest.StartBackend(t, nil)
	path := filepath.Join(t.TempDir(), "events.json")
	c := startCollector(t, files, set, agentEnv(t, map[string]string{"OTLP_ENDPOINT": backend.URL, "EVENTS_FILE": path}))
	processtest.Until(t, "a record of an XID", func() bool {
		for _, r := range records(backend.Logs()) {
			if r["event"] == "gpu.xid" {
				return true
			}
		}
		return false
	}, c.Process)
	c.stop(t)
	got := records(backend.Logs())
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	var written []plog.Logs
	for line := range bytes.Lines(content) {
		ld, err := (&plog.JSONUnmarshaler{}).UnmarshalLogs(line)
		require.NoError(t, err)
		written = append(written, ld)
	}
	assert.ElementsMatch(t, got, records(written))
	for _, r := range got {
		assert.NotEmpty(t, r["body"])
		if r["event"] != "gpu.xid.incident" { // an incident belongs to a node and has no device
			assert.NotEmpty(t, r["hw.id"])
		}
		assert.NotEmpty(t, r["k8s.node.name"])
	}
}

func TestEventsWithoutALogsPipelineAreAClearErrorAtTheStart(t *testing.T) {
	config := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(config, []byte(`
receivers: {dcgm: {endpoints: ["http://localhost:9400/metrics"]}}
processors: {gpu_synthesizer: }
connectors: {gpu_events: }
exporters: {debug: }
service:
  pipelines:
    metrics: {receivers: [dcgm], processors: [gpu_synthesizer], exporters: [gpu_events, debug]}
`), 0o600))
	for _, command := range [][]string{{"validate"}, nil} {
		output, err := exec.CommandContext(t.Context(), processtest.Binary(t, "otelcol-gpu"), append(command, "--config", config)...).CombinedOutput()
		require.Error(t, err)
		assert.Contains(t, string(output), `connector "gpu_events" used as exporter in [metrics] pipeline but not used in any supported receiver pipeline`)
	}
}

// records returns the event name, the body, the attributes, and the Resource attributes of each log
// record.
func records(all []plog.Logs) (out []map[string]any) {
	for _, ld := range all {
		for _, rl := range ld.ResourceLogs().All() {
			for _, sl := range rl.ScopeLogs().All() {
				for _, r := range sl.LogRecords().All() {
					m := pcommon.NewMap()
					rl.Resource().Attributes().CopyTo(m)
					raw := m.AsRaw()
					for k, v := range r.Attributes().All() {
						raw[k] = v.AsRaw()
					}
					raw["event"], raw["body"], raw["time"] = r.EventName(), r.Body().AsString(), r.Timestamp()
					out = append(out, raw)
				}
			}
		}
	}
	return out
}
