package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Writes text to a file and returns the file's path.
func written(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "collector.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func TestConfigurationIsCheckedInsteadOfAnExporter(t *testing.T) {
	sound := filepath.Join("..", "..", "examples", "agent.yaml")
	status, out, errs := gpudoctor(t, "", "lint", sound)
	assert.Equal(t, exitComplete, status)
	assert.Equal(t, "The pipelines are wired and timed as they should be; otelcol-gpu validate checks the settings.\n", out)
	assert.Empty(t, errs)

	wrong := written(t, `receivers: {dcgm: {collection_interval: "${env:INTERVAL_THAT_NOBODY_SET:-2m}"}}`)
	status, out, errs = gpudoctor(t, "", "lint", sound, wrong)
	assert.Equal(t, exitMissing, status)
	assert.Equal(t, `pipeline metrics: dcgm::stages::gpu_window: window is 1m0s and dcgm is read every 2m0s: windows without a sample are missing. Set it above two intervals, or read more often.
pipeline metrics: dcgm::stages::gpu_window: max_gap is 50s and dcgm is read every 2m0s: no time counts as observed, and gpu.window.coverage is 0. Set it above two intervals, or read more often.
`, out)
	assert.Empty(t, errs)

	status, out, _ = gpudoctor(t, "", "lint", "-json", sound, wrong)
	assert.Equal(t, exitMissing, status)
	var found []map[string]string
	require.NoError(t, json.Unmarshal([]byte(out), &found))
	require.Len(t, found, 2)
	assert.Equal(t, "dcgm::stages::gpu_window", found[0]["component"])
	_, out, _ = gpudoctor(t, "", "lint", "-json", sound)
	assert.Equal(t, "[]\n", out)

	// An unused receiver must not be reported as an error, because the gateway overlay cannot
	// remove a receiver from agent.yaml.
	status, out, _ = gpudoctor(t, "", "lint", sound, filepath.Join("..", "..", "examples", "overlays", "gateway.yaml"))
	assert.Equal(t, exitComplete, status)
	assert.Equal(t, `note: dcgm: the receiver is configured but in no pipeline: its settings and stages have no effect.
The pipelines are wired and timed as they should be; otelcol-gpu validate checks the settings.
`, out)
}

func TestAnUnconfiguredComponentIsReported(t *testing.T) {
	examples := filepath.Join("..", "..", "examples")
	status, out, _ := gpudoctor(t, "", "lint", filepath.Join(examples, "agent.yaml"), filepath.Join(examples, "overlays", "prometheus-receiver.yaml"))
	assert.Equal(t, exitMissing, status)
	assert.Contains(t, out, "pipeline metrics: gpu_synthesizer: it is in processors of the pipeline and is not configured, so the collector does not start.")
}

func TestUnreadableConfigurationIsReported(t *testing.T) {
	for text, want := range map[string]string{
		"kind: ConfigMap": "service::pipelines is missing: must be the configuration of a collector",
		"a: [":            "yaml",
	} {
		status, out, errs := gpudoctor(t, "", "lint", written(t, text))
		assert.Equal(t, exitUnread, status)
		assert.Empty(t, out)
		assert.Contains(t, errs, want)
	}
	status, _, errs := gpudoctor(t, "", "lint", filepath.Join(t.TempDir(), "none.yaml"))
	assert.Equal(t, exitUnread, status)
	assert.Contains(t, errs, "no such file")
	status, _, errs = gpudoctor(t, "", "lint", written(t, ""), "http://localhost:9400")
	assert.Equal(t, exitUnread, status)
	assert.Contains(t, errs, "open http://localhost:9400: no such file or directory")
}
