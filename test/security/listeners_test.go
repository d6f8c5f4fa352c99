package security

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// podIP is used as the pod's IP address. podIP differs from the usual loopback address and from the
// wildcard address, so the tests can distinguish the three addresses.
const podIP = "127.0.0.9"

// Each example runs unchanged, except that the log level is set to info. The test waits for an info
// message that the collector logs after everything has started.
func TestAnExampleListensOnTheseAddressesAndNoOther(t *testing.T) {
	requireNamespaces(t)
	const defaults = "testdata/defaults.yaml"
	agent := []string{"127.0.0.1:13133", "127.0.0.1:8888"}
	want := map[string][]string{
		"agent.yaml":                        agent,
		"quickstart.yaml":                   {"127.0.0.1:9411"},
		"backends/prometheus-scrape.yaml":   append([]string{"127.0.0.1:9464"}, agent...),
		"overlays/prometheus-receiver.yaml": {"127.0.0.1:9411"},
		"overlays/gateway.yaml":             append([]string{"127.0.0.1:4317"}, agent...),
		"overlays/gateway-agent.yaml":       agent,
		"overlays/usage.yaml":               agent,
		"overlays/events.yaml":              agent,
		"overlays/inference.yaml":           agent,
		"overlays/slurm.yaml":               agent,
		defaults: {
			"127.0.0.1:13133", "127.0.0.1:1777", "127.0.0.1:4317", "127.0.0.1:4318", "127.0.0.1:8888", "127.0.0.1:9411",
		},
	}
	examples := filepath.Join(root, "examples")
	var names []string
	for _, pattern := range []string{"*.yaml", "overlays/*.yaml", "backends/prometheus-scrape.yaml"} {
		files, err := filepath.Glob(filepath.Join(examples, pattern))
		require.NoError(t, err)
		for _, file := range files {
			name, err := filepath.Rel(examples, file)
			require.NoError(t, err)
			if name != "docker-compose.yaml" { // not a collector configuration
				names = append(names, name)
			}
		}
	}
	require.Len(t, names, len(want)-1, "a file under examples/ is not listed here")
	for _, name := range append(names, defaults) {
		args := []string{"--config", filepath.Join(examples, name)}
		switch {
		case name == defaults:
			args = []string{"--config", defaults}
		case name == "overlays/prometheus-receiver.yaml":
			args = append([]string{"--config", filepath.Join(examples, "quickstart.yaml")}, args...)
		case strings.Contains(name, "/"):
			args = append([]string{"--config", filepath.Join(examples, "agent.yaml")}, args...)
		}
		t.Run(name, func(t *testing.T) {
			require.Contains(t, want, name)
			assert.ElementsMatch(t, want[name], listening(t, args, nil))
		})
	}
}

// A collector in a pod must listen only on the pod's IP address, which the kubelet and Prometheus
// can reach.
func TestAPodListensOnItsOwnAddressAndNoOther(t *testing.T) {
	requireNamespaces(t)
	kubeconfig, err := filepath.Abs("testdata/kubeconfig.yaml")
	require.NoError(t, err)
	tls := newCertificate(t).mounted(t)
	agent := []string{podIP + ":13133", podIP + ":8888"}
	receiving := append([]string{podIP + ":4317"}, agent...)
	for _, tc := range []struct {
		file string
		path []string
		want []string
	}{
		{"examples/kubernetes/11-agent-config.yaml", []string{"data", "agent.yaml"}, agent},
		{"examples/kubernetes/21-cluster-config.yaml", []string{"data", "cluster.yaml"}, agent},
		{"examples/kubernetes/options/k8s-attributes.yaml", []string{"data", "agent.yaml"}, agent},
		{"examples/kubernetes/options/receiver-creator.yaml", []string{"data", "agent.yaml"}, agent},
		{"examples/operator/opentelemetrycollector.yaml", []string{"spec", "config"}, agent},
		{"examples/helm/opentelemetry-collector.yaml", []string{"alternateConfig"}, agent},
		{"test/charts/testdata/gateways_compute_windows_and_a_page_shows_them/manifests.yaml", []string{"data", "agent.yaml"}, agent},
		{"test/charts/testdata/gateways_compute_windows_and_a_page_shows_them/manifests.yaml", []string{"data", "cluster.yaml"}, agent},
		{"test/charts/testdata/gateways_compute_windows_and_a_page_shows_them/manifests.yaml", []string{"data", "gateway.yaml"}, receiving},
		{"test/charts/testdata/an_armed_watchdog_may_evict_in_its_namespaces/manifests.yaml", []string{"data", "agent.yaml"}, agent},
		{
			"test/charts/testdata/prometheus_scrapes_and_grafana_has_the_dashboards/manifests.yaml",
			[]string{"data", "cluster.yaml"},
			append([]string{podIP + ":9464"}, agent...),
		},
		// The page is the only component that listens on all addresses, because the chart's values
		// for this test case set view.expose.
		{
			"test/charts/testdata/gateways_compute_windows_and_a_page_shows_them/manifests.yaml",
			[]string{"data", "view.yaml"},
			append([]string{"[::]:9411"}, receiving...),
		},
	} {
		t.Run(filepath.Join(tc.file, tc.path[len(tc.path)-1]), func(t *testing.T) {
			content, text := configuration(t, filepath.Join(root, tc.file), tc.path)
			text = strings.ReplaceAll(text, "/etc/otelcol-gpu-tls", tls)
			config := filepath.Join(t.TempDir(), "config.yaml")
			require.NoError(t, os.WriteFile(config, []byte(text), 0o600))
			args := []string{"--config", config, "--set", "extensions.file_storage.directory=" + t.TempDir()}
			// Change settings that require a cluster or a mounted volume, because neither is
			// available.
			for _, component := range []struct{ kind, name, setting string }{
				{"extensions", "k8s_observer", "auth_type=none"},
				{"processors", "k8s_attributes", "auth_type=none"},
				{"receivers", "gpu_cluster", "kubernetes.auth_type=kubeConfig"},
				{"receivers", "gpu_cluster", "kubernetes.kubeconfig=" + kubeconfig},
				{"exporters", "gpu_watchdog", "kubernetes.auth_type=kubeConfig"},
				{"exporters", "gpu_watchdog", "kubernetes.kubeconfig=" + kubeconfig},
				{"exporters", "otlp_grpc", "tls.ca_file="}, // the file is in a volume that is not mounted
			} {
				if section, _ := content[component.kind].(map[string]any); section != nil {
					if _, used := section[component.name]; used {
						args = append(args, "--set", component.kind+"."+component.name+"."+component.setting)
					}
				}
			}
			assert.ElementsMatch(t, tc.want, listening(t, args, map[string]string{
				"POD_IP": podIP, "MY_POD_IP": podIP, "POD_NAMESPACE": "otelcol-gpu", "NODE_NAME": "gpu-node", "CLUSTER_NAME": "",
				"OTLP_ENDPOINT": "http://127.0.0.1:1", "PAGE_USERS": "reader:page-password",
				// Simulate a pod whose API server does not respond.
				"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "1",
			}))
		})
	}
}

// configuration returns the collector configuration at the given path in one of a file's YAML
// documents, both parsed and as text.
func configuration(t *testing.T, file string, path []string) (map[string]any, string) {
	t.Helper()
	content, err := os.Open(file)
	require.NoError(t, err)
	defer content.Close()
	documents := yaml.NewDecoder(content)
	for {
		var value any
		require.NoError(t, documents.Decode(&value), "%s has no %s", file, path)
		for _, key := range path {
			m, _ := value.(map[string]any)
			value = m[key]
		}
		if text, ok := value.(string); ok {
			var parsed map[string]any
			require.NoError(t, yaml.Unmarshal([]byte(text), &parsed))
			return parsed, text
		}
		if parsed, ok := value.(map[string]any); ok {
			text, err := yaml.Marshal(parsed)
			require.NoError(t, err)
			return parsed, string(text)
		}
	}
}

// listening runs a collector in a separate network namespace and returns the addresses that the
// collector listens on.
func listening(t *testing.T, args []string, env map[string]string) []string {
	t.Helper()
	all := map[string]string{"STORAGE_DIR": t.TempDir(), "PRICES_FILE": filepath.Join(root, "examples", "usage", "prices.yaml")}
	maps.Copy(all, env)
	cmd := command(t, all, append(args, "--set", "service.telemetry.logs.level=info")...)
	isolated(t, cmd)
	c := start(t, cmd)
	addresses := sockets(t, c.Cmd.Process.Pid)
	c.Kill() // kill, because a collector that has just started does not yet handle SIGTERM
	return addresses
}

// sockets returns the addresses of all listening TCP sockets in the network namespace of a process.
func sockets(t *testing.T, pid int) []string {
	t.Helper()
	var addresses []string
	for _, table := range []string{"tcp", "tcp6"} {
		content, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		require.NoError(t, err)
		for line := range strings.Lines(string(content)) {
			fields := strings.Fields(line)
			const local, state, listen = 1, 3, "0A"
			if fields[state] != listen {
				continue
			}
			ip, port, _ := strings.Cut(fields[local], ":")
			number, err := strconv.ParseUint(port, 16, 16)
			require.NoError(t, err)
			addresses = append(addresses, netip.AddrPortFrom(address(t, ip), uint16(number)).String())
		}
	}
	slices.Sort(addresses)
	return addresses
}

// address parses an IP address in the kernel's format, which prints four-byte words in the
// machine's byte order.
func address(t *testing.T, text string) netip.Addr {
	t.Helper()
	raw, err := hex.DecodeString(text)
	require.NoError(t, err)
	for i := 0; i < len(raw); i += 4 {
		binary.NativeEndian.PutUint32(raw[i:], binary.BigEndian.Uint32(raw[i:]))
	}
	ip, ok := netip.AddrFromSlice(raw)
	require.True(t, ok, text)
	return ip.Unmap()
}
