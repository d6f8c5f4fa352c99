package charts

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/dcgmsim"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
)

func TestTheSimulatorHasEveryScenario(t *testing.T) {
	for _, scenario := range dcgmsim.Scenarios() {
		rendered := decode(t, render(t, "", "simulator.enabled=true", `simulator.scenario="`+scenario+`"`))
		assert.Contains(t, podTemplates(t, rendered)["simulator"].Spec.Containers[1].Args, "-scenario="+scenario)
	}
}

func TestTheSimulatorsLimitsFitItsNodes(t *testing.T) {
	const nodes = 300
	for _, scenario := range dcgmsim.Scenarios() {
		t.Run(scenario, func(t *testing.T) {
			config := dcgmsim.NewDefaultConfig()
			config.Scenario, config.Nodes = scenario, nodes
			simulation, err := dcgmsim.New(config)
			require.NoError(t, err)
			devices, jobs := 0, map[string]bool{}
			for n := range nodes {
				gpus := map[int]bool{} // An instance's GPU is also a device.
				for _, d := range simulation.Devices(n) {
					gpus[d.GPU] = true
					if d.GPUInstance != 0 {
						devices++
					}
					for _, job := range d.Jobs {
						jobs[job] = true
					}
				}
				devices += len(gpus)
			}
			rendered := decode(t, render(t, "", "simulator.enabled=true", "simulator.nodes=300", `simulator.scenario="`+scenario+`"`,
				`simulator.resources.limits.memory="16Gi"`))
			text := configMaps(t, rendered)["simulator"]
			limit := func(path ...string) int {
				return at(t, text, append([]string{"receivers", "dcgm", "stages"}, path...)...).(int)
			}
			assert.GreaterOrEqual(t, limit("gpu_synthesizer", "max_devices"), devices)
			assert.GreaterOrEqual(t, limit("gpu_k8s", "max_jobs"), len(jobs))
		})
	}
}

func TestLimitsInTheValuesApplyToTheSimulator(t *testing.T) {
	rendered := decode(t, render(t, "", "simulator.enabled=true", "gpu_synthesizer.max_devices=50", "gpu_k8s.max_jobs=60", "gpu_window.max_series=70"))
	stages := at(t, configMaps(t, rendered)["simulator"], "receivers", "dcgm", "stages").(map[string]any)
	assert.Equal(t, 50, stages["gpu_synthesizer"].(map[string]any)["max_devices"])
	assert.Equal(t, 60, stages["gpu_k8s"].(map[string]any)["max_jobs"])
	assert.Equal(t, 70, stages["gpu_window"].(map[string]any)["max_series"])
}

// The simulator's pod runs a collector and dcgmsim in two containers. The collector must send
// windows for each simulated node's devices and for the devices' holders.
func TestTheSimulatorShowsItsNodes(t *testing.T) {
	page, exporter := processtest.FreeAddress(t), processtest.FreeAddress(t)
	_, port, err := net.SplitHostPort(page)
	require.NoError(t, err)
	rendered := decode(t, render(t, "", "simulator.enabled=true", "simulator.nodes=2", "view.enabled=false", "prometheus.port="+port,
		`gpu_window={"window":"2s","grace":"1s"}`, `dcgm.collection_interval="500ms"`, `dcgm.timeout="500ms"`))
	containers := podTemplates(t, rendered)["simulator"].Spec.Containers
	require.Len(t, containers, 2)
	assert.Equal(t, []string{"/dcgmsim"}, containers[1].Command)
	assert.Equal(t, []string{"-listen=127.0.0.1:9400", "-nodes=2", "-scenario=mixed"}, containers[1].Args)
	processtest.StartSimulator(t, exporter, containers[1].Args[1:]...)

	config := configMaps(t, rendered)["simulator"]
	config = strings.NewReplacer("/var/lib/otelcol-gpu", t.TempDir(), "127.0.0.1:9400", exporter,
		"13133", processtest.Port(t, processtest.FreeAddress(t)), "8888", processtest.Port(t, processtest.FreeAddress(t))).Replace(config)
	file := filepath.Join(t.TempDir(), "simulator.yaml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	cmd := exec.Command(processtest.Binary(t, "otelcol-gpu"), "--config", file)
	cmd.Env = []string{"HOME=" + t.TempDir(), "POD_IP=127.0.0.1"}
	collector := processtest.Start(t, cmd)
	processtest.Until(t, "windows of both nodes", func() bool {
		nodes := map[string]bool{}
		held := false
		for line := range strings.Lines(processtest.Get(t, "http://"+page+"/metrics")) {
			if strings.HasPrefix(line, "gpu_utilization_avg_ratio{") {
				_, node, _ := strings.Cut(line, `k8s_node_name="`)
				node, _, _ = strings.Cut(node, `"`)
				nodes[node] = true
				held = held || strings.Contains(line, `k8s_pod_name="`)
			}
		}
		return len(nodes) == 2 && held
	}, collector)
	collector.Stop(t)
}
