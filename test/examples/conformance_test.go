package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/scripttest"
)

// conformance runs the conformance script and returns the script's report, standard error, and exit
// status.
func conformance(t *testing.T, env []string, args ...string) (report, complaint string, status int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(examplesDir, "conformance.sh"), args...)
	cmd.Env = append(os.Environ(), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	if err != nil {
		require.ErrorAs(t, err, new(*exec.ExitError))
	}
	return string(stdout), stderr.String(), cmd.ProcessState.ExitCode()
}

// exposed writes an endpoint's response to a temporary file and returns the file's path.
func exposed(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "metrics")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// For simulated GPUs, the collector must expose the metrics that the Kubernetes AI conformance
// program requires.
func TestTheCollectorExposesTheMetricsThatConformanceRequires(t *testing.T) {
	processtest.Binary(t, "otelcol-gpu")
	address := processtest.FreeAddress(t)
	c := startCollector(t, files("backends/prometheus-scrape.yaml"),
		join(fastDCGM, fastStage, []string{"exporters.prometheus.endpoint=" + address}), agentEnv(t, nil))
	var page string
	processtest.Until(t, "all series of eight devices", func() bool {
		page = processtest.Get(t, "http://"+address+"/metrics")
		// Wait for each of these metrics, because window metrics and other metrics arrive in
		// separate batches.
		return !slices.ContainsFunc([]string{"gpu_utilization_avg_ratio", "hw_power_watts", "hw_temperature_celsius"}, func(series string) bool {
			return strings.Count(page, "\n"+series+"{") < 8
		})
	}, c.Process)
	c.Stop(t)

	report, complaint, status := conformance(t, nil, "-f", exposed(t, page))
	assert.Zero(t, status, "%s%s", report, complaint)
	for _, what := range []string{"utilization | MUST", "memory usage | MUST", "temperature | SHOULD", "power draw | SHOULD", "interconnect bandwidth | SHOULD"} {
		assert.Regexp(t, `(?m)^\| `+strings.ReplaceAll(what, "|", `\|`)+` .* 8 of 8 \| met \|$`, report)
	}
	assert.Contains(t, report, "\naccelerator_metrics: Implemented\n")
}

func TestConformanceIsReportedForEachAccelerator(t *testing.T) {
	const memory = `hw_gpu_memory_usage_bytes{hw_id="GPU-1"} 1` + "\n" + `hw_gpu_memory_usage_bytes{hw_id="GPU-2"} 1` + "\n"
	for name, tc := range map[string]struct {
		text, want string
		status     int
	}{
		"one of two has no utilization": {memory + `hw_gpu_utilization_ratio{hw_id="GPU-1"} 1` + "\n", "1 of 2 | NOT MET", 1},
		"a board's instance has it": {
			memory + `hw_gpu_utilization_ratio{hw_id="GPU-1"} 1` + "\n" + `gpu_utilization_avg_ratio{hw_id="GPU-2/gi1",hw_parent="GPU-2"} 1` + "\n",
			"2 of 2 | met", 0,
		},
		"no accelerator": {"up 1\n", "", 2},
	} {
		t.Run(name, func(t *testing.T) {
			report, complaint, status := conformance(t, nil, "-f", exposed(t, tc.text))
			assert.Equal(t, tc.status, status, "%s%s", report, complaint)
			assert.Contains(t, report, tc.want)
		})
	}
}

// Through the API server, the script must request only the metrics page of each running agent.
func TestConformanceReadsTheAgentsOfACluster(t *testing.T) {
	bin := t.TempDir()
	scripttest.Write(t, filepath.Join(bin, "kubectl"), `#!/bin/sh
case "$*" in
"get pods -n gpus -l app=agent --field-selector=status.phase=Running -o name") printf 'pod/a\npod/b\n' ;;
"get --raw /version") echo '{"gitVersion": "v1.36.3"}' ;;
"get --raw /api/v1/namespaces/gpus/pods/"?":9464/proxy/metrics")
	pod=${3#*pods/} pod=${pod%%:*}
	printf 'hw_gpu_memory_usage_bytes{hw_id="GPU-%s"} 1\nhw_gpu_utilization_ratio{hw_id="GPU-%s"} 1' "$pod" "$pod" ;;
*) echo "unexpected: $*" >&2; exit 1 ;;
esac
`)
	env := []string{"PATH=" + bin + ":" + os.Getenv("PATH")}
	report, complaint, status := conformance(t, env, "-n", "gpus", "-l", "app=agent")
	assert.Zero(t, status, complaint)
	assert.Contains(t, report, "From 2 pods of namespace gpus, Kubernetes v1.36.3: 2 accelerators")

	_, complaint, status = conformance(t, env, "-n", "gpus", "-l", "app=agent", "-p", "1")
	assert.Equal(t, 2, status)
	assert.Contains(t, complaint, "pod/a does not answer on port 1: is prometheus.enabled set?")
}

func TestConformancePrintsItsOptions(t *testing.T) {
	usage, complaint, status := conformance(t, nil, "-h")
	assert.Zero(t, status, complaint)
	for _, option := range []string{"-n NAMESPACE", "-l LABELS", "-p PORT", "-f FILE", "Exit status"} {
		assert.Contains(t, usage, option)
	}
	assert.NotContains(t, usage, "set -")
	_, complaint, status = conformance(t, nil, "-x")
	assert.Equal(t, 2, status)
	assert.Contains(t, complaint, "-h prints the options")
}
