package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.yaml.in/yaml/v3"
	"google.golang.org/grpc"

	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
)

func TestTheGatewayHasTheChartsConfigurationWithScaledTimes(t *testing.T) {
	manifest, err := os.ReadFile(filepath.Join("..", "charts", "testdata", "gateways_compute_windows_and_a_page_shows_them", "manifests.yaml"))
	require.NoError(t, err)
	text, err := gatewayConfig(manifest, tier{interval: time.Minute}, "/some/where", "http://backend")
	require.NoError(t, err)
	var config struct {
		Extensions struct {
			FileStorage map[string]any `yaml:"file_storage"`
		}
		Processors, Receivers map[string]map[string]any
		Exporters             map[string]map[string]any
		Service               struct{ Pipelines map[string]map[string]any }
	}
	require.NoError(t, yaml.Unmarshal(text, &config))
	assert.Equal(t, "/some/where", config.Extensions.FileStorage["directory"])
	assert.Equal(t, map[string]any{"check_interval": "1s", "limit_mib": 1536, "spike_limit_mib": 307}, config.Processors["memory_limiter"])
	window := config.Processors["gpu_window"]
	assert.Equal(t, []any{"4m0s", "4m0s", "3m20s"}, []any{window["window"], window["grace"], window["max_gap"]}, "scraped each minute instead of each 15s")
	assert.Equal(t, 1_000_000, window["max_series"], "the chart's")
	assert.NotContains(t, string(text), "tls")
	require.Len(t, config.Exporters, 1)
	assert.Equal(t, map[string]any{"num_consumers": 1, "queue_size": 4_000_000, "sizer": "items", "storage": "file_storage"}, config.Exporters["otlp_http"]["sending_queue"], "the chart's")
	assert.Equal(t, []any{"otlp_http"}, config.Service.Pipelines["metrics"]["exporters"])

	_, err = gatewayConfig([]byte("a: 1\n---\nb: 2\n"), tier{}, "", "")
	assert.ErrorContains(t, err, "gateway.yaml")
}

func TestASelfMetricIsTheSumOfItsSamplesWithALabel(t *testing.T) {
	const text = `# TYPE a_total counter
a_total{outcome="late",x="1"} 3
a_total{outcome="late",x="2"} 4
a_total{outcome="refused"} 1
a_size{} 100
`
	assert.InDelta(t, 7, selfMetric(text, "a", `outcome="late"`), 0)
	assert.InDelta(t, 8, selfMetric(text, "a", ""), 0)
	assert.Zero(t, selfMetric(text, "b", ""))
}

func TestImpossibleFleetSizesAreRejected(t *testing.T) {
	good := fleetFlags{sizes: "30,10000", run: 3, rate: 50}
	sizes, err := good.numbers()
	require.NoError(t, err)
	assert.Equal(t, []int{30, 10000}, sizes)
	for _, bad := range []fleetFlags{
		{sizes: "2", run: 3, rate: 50},
		{sizes: "100000", run: 3, rate: 50},
		{sizes: "x", run: 3, rate: 50},
		{sizes: "30", run: 4, rate: 50},
		{sizes: "30", run: 0, rate: 50},
		{sizes: "30", run: 1},
	} {
		_, err := bad.numbers()
		assert.Error(t, err, "%+v", bad)
	}
}

func TestTheTableOfFleetsHasCostsPerThousandDevices(t *testing.T) {
	o := &outcome{
		tier: tier{nodes: 3000, gateways: 3, run: 1}, recording: &recording{gpus: 8},
		cpu: 1.2, resident: 800, anonymous: 400, peak: 900, all: 200, failed: 5, series: 500_000, missing: 80,
	}
	figures := map[string]float64{}
	for _, c := range gatewayColumns {
		figures[c.key] = c.of(o)
	}
	r := results{}
	r.set("fleet-3000", "gateway", figures)
	r.set("fleet-300", "gateway", map[string]float64{"cpu": 2})
	r.set("10", "agent", map[string]float64{"cpu": 9})
	text := fleetTable(r)
	assert.True(t, strings.HasPrefix(text, "| nodes with 8 whole GPUs | 300 | 3000 |\n"), text)
	// The gateway serves 1,000 agents with 8 GPUs each. 1.2 s of CPU time every 15 s is 8% of a
	// core.
	assert.Contains(t, text, "| CPU per 1,000 devices, % of a core | 2 | 1 |\n")
	assert.Contains(t, text, "| resident MiB per 1,000 devices | 0 | 100 |\n")
	assert.Contains(t, text, "| refused requests, % | 0 | 2.5 |\n")
	assert.Contains(t, text, "| devices without a window, % | 0 | 1 |\n")
	assert.Empty(t, fleetTable(results{{"10", "agent", "cpu"}: 1}))
}

// intake is an OTLP receiver that records which nodes it received a scrape from.
type intake struct {
	pmetricotlp.UnimplementedGRPCServer
	mu    sync.Mutex
	nodes map[string]int
}

func (in *intake) Export(_ context.Context, request pmetricotlp.ExportRequest) (pmetricotlp.ExportResponse, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for p := range points.All(request.Metrics()) {
		in.nodes[label(p.Resource.Attributes(), "k8s.node.name")]++
	}
	return pmetricotlp.NewExportResponse(), nil
}

func TestEachAgentSendsItsOwnScrapesByGRPC(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	in := &intake{nodes: map[string]int{}}
	server := grpc.NewServer()
	pmetricotlp.RegisterGRPCServer(server, in)
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	r, err := newRecording(sent(t, recordedNode, time.Now(), "GPU-aaaaaaaa-0001"))
	require.NoError(t, err)

	var rp replay
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	tr := tier{nodes: 6, gateways: 3, run: 1, interval: 20 * time.Millisecond}
	go func() { done <- rp.run(ctx, tr, r, func(int) string { return listener.Addr().String() }) }()
	require.Eventually(t, func() bool {
		in.mu.Lock()
		defer in.mu.Unlock()
		return in.nodes["gpu-node-00000"] > 1 && in.nodes["gpu-node-00001"] > 1
	}, 30*time.Second, time.Millisecond)
	stop()
	require.NoError(t, <-done)
	assert.Len(t, in.nodes, 2, "a third of six")
	assert.Zero(t, rp.failed.Load())
}
