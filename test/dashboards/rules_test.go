package dashboards

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
)

// TestRulesFireWhenTheyShould runs the promtool unit tests that are stored next to the rules.
func TestRulesFireWhenTheyShould(t *testing.T) {
	promtool := processtest.Tool(t, "OTELCOL_GPU_PROMTOOL")
	for _, args := range [][]string{
		{"check", "rules", "--lint=all", "--lint-fatal", examplesDir + "/prometheus/alerts.yaml"},
		{"check", "rules", "--lint=all", "--lint-fatal", examplesDir + "/prometheus/collector-alerts.yaml"},
		{"check", "rules", "--lint=all", "--lint-fatal", examplesDir + "/keda/gate-rules.yaml"},
		{"check", "rules", "--lint=all", "--lint-fatal", examplesDir + "/inference/alerts.yaml"},
		{"check", "rules", "--lint=all", "--lint-fatal", examplesDir + "/prometheus/workload-rules.yaml"},
		{"test", "rules", examplesDir + "/prometheus/workload-rules_test.yaml"},
		{"test", "rules", examplesDir + "/prometheus/alerts_test.yaml"},
		{"test", "rules", examplesDir + "/prometheus/collector-alerts_test.yaml"},
		{"test", "rules", examplesDir + "/keda/gate-rules_test.yaml"},
		{"test", "rules", examplesDir + "/inference/alerts_test.yaml"},
	} {
		t.Run(args[0]+" "+filepath.Base(args[len(args)-1]), func(t *testing.T) {
			output, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput()
			require.NoError(t, err, "%s", output)
		})
	}
}
