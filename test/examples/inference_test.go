package examples

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
)

// inferenceServer contains the values that vLLM and dcgm-exporter report for a pod and the pod's
// GPU.
type inferenceServer struct {
	waiting     int
	cache       float64
	utilization int // in percent
}

// inferencePages serves the simulated metrics pages of vLLM and dcgm-exporter.
type inferencePages struct {
	mu  sync.Mutex
	now inferenceServer
}

func (p *inferencePages) show(s inferenceServer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = s
}

func (p *inferencePages) dcgm(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	const device = `gpu="0",UUID="GPU-1",device="nvidia0",Hostname="n1"`
	const holder = `,namespace="llm",pod="chat-0",container="vllm"`
	fmt.Fprintf(w, "DCGM_FI_DEV_GPU_UTIL{%s} %d\nDCGM_FI_DEV_GPU_UTIL{%s%s} %d\n", device, p.now.utilization, device, holder, p.now.utilization)
}

func (p *inferencePages) vllm(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	const labels = `{engine="0",model_name="example/model"}`
	for _, m := range []struct {
		name  string
		value any
	}{
		{"vllm:num_requests_running", 30}, {"vllm:num_requests_waiting", p.now.waiting}, {"vllm:kv_cache_usage_perc", p.now.cache},
	} {
		fmt.Fprintf(w, "# TYPE %s gauge\n%s%s %v\n", m.name, m.name, labels, m.value)
	}
}

// runInference runs the queries of the scaler and of the alert on a real Prometheus server, for
// each row of the decision table.
func runInference(t *testing.T, files, set []string) {
	t.Helper()
	server, pages := startPrometheus(t, ""), &inferencePages{}
	dcgm, vllm := httptest.NewServer(http.HandlerFunc(pages.dcgm)), httptest.NewServer(http.HandlerFunc(pages.vllm))
	t.Cleanup(dcgm.Close)
	t.Cleanup(vllm.Close)
	c := startCollector(t, files, set, agentEnv(t, map[string]string{
		"DCGM_ENDPOINT": dcgm.URL + "/metrics", "VLLM_TARGET": strings.TrimPrefix(vllm.URL, "http://"),
		"VLLM_NAMESPACE": "llm", "VLLM_POD": "chat-0", "OTLP_ENDPOINT": server.URL + "/api/v1/otlp",
	}))
	scaler, alert := inferenceQueries(t)
	for _, row := range []struct {
		name   string
		server inferenceServer
		demand float64
		alerts bool
	}{
		{"a long queue and a saturated GPU scale out", inferenceServer{40, 0.5, 95}, 70, false},
		{"a long queue and an idle GPU say to look at the server", inferenceServer{40, 0.5, 5}, 30, true},
		{"a long queue and a full cache scale out", inferenceServer{40, 0.95, 5}, 70, false},
		{"a short queue and a saturated GPU change nothing", inferenceServer{0, 0.5, 95}, 30, false},
		{"a short queue and an idle GPU change nothing that runs", inferenceServer{0, 0.5, 5}, 30, false},
	} {
		pages.show(row.server)
		shown := fmt.Sprintf(`vllm:num_requests_waiting{k8s_namespace_name="llm", k8s_pod_name="chat-0"} == %d
			and on (k8s_namespace_name, k8s_pod_name) vllm:kv_cache_usage_perc == %v
			and on (k8s_namespace_name, k8s_pod_name) (round(gpu_utilization_avg_ratio * 100) == %d)`,
			row.server.waiting, row.server.cache, row.server.utilization)
		processtest.Until(t, row.name, func() bool { return len(server.query(t, shown)) == 1 }, c.Process)
		demand := server.query(t, scaler)
		require.Len(t, demand, 1, row.name)
		assert.InDelta(t, row.demand, demand[0].last(t), 0, row.name)
		assert.Equal(t, row.alerts, len(server.query(t, alert)) == 1, row.name)
	}
	c.stop(t)
}

// inferenceQueries returns the query of the scaler and the query of the alert.
func inferenceQueries(t *testing.T) (scaler, alert string) {
	t.Helper()
	var object struct {
		Spec struct {
			Triggers []struct{ Metadata struct{ Query string } }
		}
	}
	var rules struct {
		Groups []struct{ Rules []struct{ Expr string } }
	}
	for name, into := range map[string]any{"scaledobject.yaml": &object, "alerts.yaml": &rules} {
		content, err := os.ReadFile(filepath.Join(examplesDir, "inference", name))
		require.NoError(t, err)
		require.NoError(t, yaml.Unmarshal(content, into))
	}
	return object.Spec.Triggers[0].Metadata.Query, rules.Groups[0].Rules[0].Expr
}
