package examples

import (
	"testing"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
)

// runGateway runs an agent and a gateway, and checks the windows that the gateway sends. Because
// the two examples work only together, runGateway ignores its arguments and uses the files and
// settings of both.
func runGateway(t *testing.T, _, _ []string) {
	t.Helper()
	backend, listen := processtest.StartBackend(t, nil), processtest.FreeAddress(t)
	gateway := startCollector(t, paths("agent.yaml", "overlays/gateway.yaml"), fastWindow,
		agentEnv(t, map[string]string{"OTLP_ENDPOINT": backend.URL, "GATEWAY_LISTEN": listen}), listen)
	agent := startCollector(t, paths("agent.yaml", "overlays/gateway-agent.yaml"),
		[]string{"receivers.dcgm/samples.collection_interval=1s", "receivers.dcgm/samples.timeout=1s"},
		agentEnv(t, map[string]string{"GATEWAY": listen}))
	backend.Until(t, gateway.Process, "two windows", twoWindows)
	agent.stop(t)
	gateway.stop(t)
	checkWindows(t, backend.All(), windowLength)
}
