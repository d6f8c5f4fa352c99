package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
)

// rendered is the path of a file with rendered manifests from the chart's test data.
const rendered = "../charts/testdata/gateways_compute_windows_and_a_page_shows_them/manifests.yaml"

// tree is a nested map in a configuration.
type tree = map[string]any

// The within function returns the map at the given path in a tree.
func within(t *testing.T, in tree, path ...string) tree {
	t.Helper()
	for _, key := range path {
		next, ok := in[key].(tree)
		require.True(t, ok, "%s of %v", key, path)
		in = next
	}
	return in
}

// chartConfig writes the configuration that the chart renders for a component to a file and returns
// the file's path. The change function can modify the configuration before it is written.
func chartConfig(t *testing.T, component string, change func(tree)) string {
	t.Helper()
	content, err := os.ReadFile(rendered)
	require.NoError(t, err)
	for document := range strings.SplitSeq(string(content), "\n---\n") {
		var object struct {
			Kind string
			Data map[string]string
		}
		require.NoError(t, yaml.Unmarshal([]byte(document), &object))
		text, ok := object.Data[component+".yaml"]
		if object.Kind != "ConfigMap" || !ok {
			continue
		}
		var config tree
		require.NoError(t, yaml.Unmarshal([]byte(text), &config))
		within(t, config, "extensions", "health_check")["endpoint"] = "127.0.0.1:0"
		reader := within(t, config, "service", "telemetry", "metrics")
		reader["readers"] = []any{tree{"pull": tree{"exporter": tree{"prometheus": tree{"host": "127.0.0.1", "port": "${env:TELEMETRY_PORT}"}}}}}
		change(config)
		changed, err := yaml.Marshal(config)
		require.NoError(t, err)
		file := filepath.Join(t.TempDir(), component+".yaml")
		require.NoError(t, os.WriteFile(file, changed, 0o600))
		return file
	}
	require.Fail(t, "the chart renders no configuration for "+component)
	return ""
}

// chartTier is a tier with the chart's configuration. Windows are 3 s long instead of 60 s, and the
// settings that depend on the window length are scaled accordingly. Settings that the chart does
// not contain have their default values.
type chartTier struct {
	tier
	files map[string]string // paths of the gateways' configuration files, keyed by address
}

// gateway starts or restarts the gateway with the given address. A restarted gateway uses its
// previous storage.
func (tr *chartTier) gateway(t *testing.T, address string) {
	t.Helper()
	if tr.files[address] == "" {
		b, dir := newBackend(t), t.TempDir()
		tr.gateways[address] = &gateway{backend: b}
		tr.files[address] = chartConfig(t, "gateway", func(config tree) {
			within(t, config, "extensions", "file_storage")["directory"] = dir
			grpc := within(t, config, "receivers", "otlp", "protocols", "grpc")
			grpc["endpoint"] = address
			delete(grpc, "tls")
			window := within(t, config, "processors", "gpu_window")
			for setting, value := range map[string]string{"window": "60s", "grace": "60s", "max_gap": "50s"} {
				require.Equal(t, value, window[setting], setting)
			}
			window["window"], window["grace"], window["max_gap"] = gatewayWindow.String(), gatewayWindow.String(), "2500ms"
			to := within(t, config, "exporters", "otlp_grpc")
			to["endpoint"] = b.url()
			delete(to, "tls")
			delete(to, "headers")
			config["exporters"] = tree{"otlp_http": to}
			within(t, config, "service", "pipelines", "metrics")["exporters"] = []any{"otlp_http"}
		})
	}
	tr.gateways[address].collector = startCollector(t, setting{file: tr.files[address]})
	processtest.Until(t, "a gateway", func() bool {
		return strings.Contains(tr.gateways[address].Output.String(), processtest.Ready)
	}, tr.gateways[address].Process)
}

// route restarts the agents with the given gateway addresses. The chart also restarts agents if
// their configuration changes.
func (tr *chartTier) route(t *testing.T, addresses ...string) {
	t.Helper()
	for _, a := range tr.agents {
		a.stop(t)
	}
	tr.agents = nil
	for group := range slices.Chunk(tr.exporters, nodesPerAgent) {
		tr.agents = append(tr.agents, startCollector(t, setting{file: chartConfig(t, "agent", func(config tree) {
			dir := filepath.Join(filepath.Dir(tr.hosts), group[0].node)
			require.NoError(t, os.MkdirAll(dir, 0o700))
			within(t, config, "extensions", "file_storage")["directory"] = dir
			dcgm := within(t, config, "receivers", "dcgm")
			var endpoints []any
			for _, e := range group {
				endpoints = append(endpoints, e.url())
			}
			dcgm["endpoints"], dcgm["start_jitter"] = endpoints, "0s"
			dcgm["collection_interval"], dcgm["timeout"] = gatewayInterval.String(), gatewayInterval.String()
			otlp := within(t, config, "exporters", "load_balancing", "protocol", "otlp")
			otlp["tls"] = tree{"insecure": true}
			otlp["retry_on_failure"] = tree{"initial_interval": "50ms", "max_interval": "50ms", "max_elapsed_time": gatewayWindow.String()}
			var hosts []any
			for _, address := range addresses {
				hosts = append(hosts, address)
			}
			within(t, config, "exporters", "load_balancing", "resolver", "static")["hostnames"] = hosts
			// Remove all other stages, because this test does not need holders.
			dcgm["stages"] = tree{"gpu_synthesizer": within(t, dcgm, "stages")["gpu_synthesizer"]}
		})}))
	}
}

// counted contains the values that a gateway reports for one window of a device.
type counted struct {
	gateway                string
	end                    time.Time
	samples, coverage, xid float64
}

// windows returns all windows for a node's first device from all gateways, sorted by end time.
func (tr *chartTier) windows(e *exporter) []counted {
	var all []counted
	for address, g := range tr.gateways {
		found := map[time.Time]*counted{}
		for _, p := range g.backend.all() {
			if p.node != e.node || p.device != e.device(0) {
				continue
			}
			w := found[p.end]
			if w == nil {
				w = &counted{gateway: address, end: p.end}
				found[p.end] = w
			}
			switch p.metric {
			case signal.WindowSamples.Name:
				w.samples = p.value
			case signal.WindowCoverage.Name:
				w.coverage = p.value
			case signal.XIDErrors.Name:
				w.xid = p.value
			}
		}
		for _, w := range found {
			if w.samples > 0 {
				all = append(all, *w)
			}
		}
	}
	slices.SortFunc(all, func(a, b counted) int { return a.end.Compare(b.end) })
	return all
}

// Each exporter counts one XID error per response. If gateways are added, killed, or removed, no
// error may be counted twice. Each window must count exactly the errors between the samples that it
// contains.
func TestTheChartsGatewaysCountExactlyWhatTheyObserve(t *testing.T) {
	t.Parallel()
	processtest.Binary(t, "otelcol-gpu")
	tr := &chartTier{tier: tier{hosts: filepath.Join(t.TempDir(), "hosts"), gateways: map[string]*gateway{}}, files: map[string]string{}}
	// Use fixed addresses and node names, because nodes are assigned to gateways by a hash of both.
	all := []string{"127.78.0.2:19318", "127.78.0.3:19318", "127.78.0.4:19318"}
	for _, address := range all {
		tr.gateway(t, address)
	}
	for n := range agents * nodesPerAgent {
		tr.exporters = append(tr.exporters, newExporter(t, fmt.Sprintf("node-%d", n)))
	}
	let := func(windows int) {
		pass(t, tr.gateways[all[0]].collector, time.Now().Add(time.Duration(windows)*gatewayWindow))
	}
	tr.route(t, all[:2]...)
	let(4)
	// Some nodes move to another gateway and return after a few windows, long before idle_timeout
	// has elapsed.
	tr.route(t, all...)
	let(3)
	tr.route(t, all[:2]...)
	let(4)
	// One gateway is killed and then restarted within the grace period.
	tr.gateways[all[0]].kill(t)
	tr.gateway(t, all[0])
	let(4)
	// One gateway is removed. In Kubernetes, a gateway may stop before the agents are updated.
	tr.gateways[all[1]].stop(t)
	tr.route(t, all[0])
	let(4)
	for _, a := range tr.agents {
		a.stop(t)
	}
	for _, address := range []string{all[0], all[2]} {
		tr.gateways[address].stop(t)
	}

	compared, moved, peak := 0, 0, 0.0
	for _, e := range tr.exporters {
		owners := map[string]bool{}
		sum := 0.0
		for _, w := range tr.windows(e) {
			compared++
			owners[w.gateway] = true
			sum += w.xid
			// The number of XID errors is about the number of samples, because the exporter counts
			// one error per response. The two numbers can differ: a window also counts the errors
			// since the last sample of the previous window, and a response that is too late results
			// in no sample.
			assert.InDelta(t, w.samples, w.xid, 4, "%s: XID errors of %+v", e.node, w)
		}
		assert.LessOrEqual(t, sum, float64(len(e.served())-1), "%s: an XID error was counted twice: %+v", e.node, tr.windows(e))
		assert.Greater(t, sum, 0.4*float64(len(e.served())), "%s: too few errors are counted", e.node)
		if owners[all[2]] {
			moved++
		}
	}
	assert.Positive(t, moved, "no node moved")
	for _, g := range tr.gateways {
		peak = max(peak, g.peak)
	}
	report(t, result{
		group: "gateway", fault: "the chart's gateways: nodes move to another gateway and back, one gateway is killed and restarts within the grace period, and one is removed before the agents detect this",
		held:    "no XID error is counted twice; each window counts exactly the time that its coverage shows",
		windows: compared, peak: peak, recovery: -1,
	})
}
