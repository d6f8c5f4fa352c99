package dcgmreceiver

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/confmaptest"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
)

// The load function reads a configuration the same way the Collector does.
func load(t *testing.T, yaml string) (*Config, error) {
	t.Helper()
	retrieved, err := confmap.NewRetrievedFromYAML([]byte(yaml))
	require.NoError(t, err)
	conf, err := retrieved.AsConf()
	require.NoError(t, err)
	cfg := createDefaultConfig().(*Config)
	if err := conf.Unmarshal(cfg); err != nil {
		return nil, err
	}
	return cfg, confmap.Validate(cfg)
}

func TestDefaults(t *testing.T) {
	cfg, err := load(t, "endpoints: [http://localhost:9400]")
	require.NoError(t, err)
	assert.Equal(t, 15*time.Second, cfg.CollectionInterval)
	assert.Equal(t, 10*time.Second, cfg.scrapeTimeout())
	assert.Equal(t, 15*time.Second, cfg.startJitter())
	assert.EqualValues(t, 32<<20, cfg.MaxBodySize)
}

func TestExporterOfTheNodeIsDiscoveredWithoutEndpoints(t *testing.T) {
	t.Setenv(componenthelper.NodeNameEnv, "gpu-node-7")
	want := DiscoveryConfig{
		Scope: "node", NodeName: "gpu-node-7",
		Selectors: []string{
			"app=nvidia-dcgm-exporter", "app.kubernetes.io/name=dcgm-exporter",
			"app=nvidia-dcgm-exporter-dra", "app.kubernetes.io/component=nvidia-dcgm-exporter",
			"app.kubernetes.io/name=gke-managed-dcgm-exporter",
		},
		PortName: "metrics", Port: 9400, Scheme: "http",
		Others: []OtherExporter{
			{Selector: "app.kubernetes.io/name=metrics-exporter", Port: 5000},
			{Selector: "k8s-app=tpu-device-plugin", Port: 2112},
			{Selector: "app=neuron-monitor", Port: 8000},
			{Selector: "app=npu-exporter", Port: 8082, HonorTimestamps: true},
			{Selector: "app.kubernetes.io/name=xpumd", Port: 8080},
			{Selector: "app.kubernetes.io/component=hami-device-plugin", Port: 9394},
		},
		Kubernetes: kube.Config{AuthType: kube.AuthServiceAccount},
	}
	for _, yaml := range []string{"{}", "discovery:", "discovery: {}"} {
		cfg, err := load(t, yaml)
		require.NoError(t, err)
		assert.Equal(t, want, cfg.discovery(), yaml)
	}
	cfg, err := load(t, "discovery: {scope: cluster, namespace: gpu-operator, selectors: [app=exporter], kubernetes: {auth_type: kubeConfig}}")
	require.NoError(t, err)
	want.Scope, want.Namespace, want.Selectors, want.Kubernetes.AuthType = "cluster", "gpu-operator", []string{"app=exporter"}, kube.AuthKubeConfig
	assert.Equal(t, want, cfg.discovery())
	_, err = load(t, "discovery: {scope: cluster, kubernetes: {auth_type: none}}")
	require.ErrorContains(t, err, "discovery: kubernetes::auth_type is none: must be serviceAccount or kubeConfig while scope is cluster")
	_, err = load(t, "discovery: {scope: cluster, kubernetes: {auth_type: none}, fallback: http://exporter:9400}")
	require.NoError(t, err)
}

// Regardless of the number of endpoints, each endpoint keeps its connection between scrapes.
func TestIdleConnectionsAreNotLimitedInTotal(t *testing.T) {
	for _, yaml := range []string{
		"endpoints: [http://localhost:9400]",
		"{endpoints: [http://localhost:9400], http: {headers: {X-Tenant: gpu}}}",
	} {
		cfg, err := load(t, yaml)
		require.NoError(t, err)
		_, transport, err := newClient(t.Context(), cfg.HTTP, componenttest.NewNopHost(), componenttest.NewNopTelemetrySettings())
		require.NoError(t, err)
		assert.Zero(t, transport.MaxIdleConns)
		assert.Equal(t, 90*time.Second, transport.IdleConnTimeout)
		assert.False(t, transport.DisableKeepAlives)
	}
}

func TestTheExampleOfTheReadmeIsValid(t *testing.T) {
	conf, err := confmaptest.LoadConf("testdata/config.yaml")
	require.NoError(t, err)
	sub, err := conf.Sub("receivers::dcgm")
	require.NoError(t, err)
	cfg := createDefaultConfig().(*Config)
	require.NoError(t, sub.Unmarshal(cfg))
	require.NoError(t, confmap.Validate(cfg))
	assert.Equal(t, []URL{"https://gpu-node-1:9400/metrics", "https://gpu-node-2:9400/metrics"}, cfg.Endpoints)
	assert.Equal(t, 30*time.Second, cfg.CollectionInterval)
	assert.Equal(t, 5*time.Second, cfg.scrapeTimeout())
	assert.Zero(t, cfg.startJitter())
	assert.EqualValues(t, 8<<20, cfg.MaxBodySize)
	assert.Equal(t, "/etc/otelcol/ca.pem", cfg.HTTP.TLS.CAFile)
	assert.True(t, cfg.HTTP.Auth.HasValue())
}

func TestTimeoutIsAtMostTheInterval(t *testing.T) {
	cfg, err := load(t, "{endpoints: [http://localhost:9400], collection_interval: 1s}")
	require.NoError(t, err)
	assert.Equal(t, time.Second, cfg.scrapeTimeout())
	assert.Equal(t, time.Second, cfg.startJitter())
}

func TestStartJitterIsAtMostAnHour(t *testing.T) {
	cfg, err := load(t, "{endpoints: [http://localhost:9400], collection_interval: 3h}")
	require.NoError(t, err)
	assert.Equal(t, time.Hour, cfg.startJitter())
}

func TestTheDefaultPathIsMetrics(t *testing.T) {
	for text, want := range map[string]string{
		"http://host:9400":             "http://host:9400/metrics",
		"http://host:9400/":            "http://host:9400/",
		"https://host/node/1/metrics":  "https://host/node/1/metrics",
		"http://host:9400?a=b":         "http://host:9400/metrics?a=b",
		"http://user:secret@host:9400": "http://host:9400/metrics",
		"http://[fd00::1]:9400":        "http://[fd00::1]:9400/metrics",
	} {
		u, err := parseEndpoint(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, publicURL(u))
	}
}

func TestConfigurationErrorsHaveTheFieldItsValueAndTheAllowedValues(t *testing.T) {
	const form = "must be http://host[:port][/path] or https://host[:port][/path]"
	for _, tt := range []struct {
		name, yaml, want string
	}{
		{"endpoints and discovery", "{endpoints: ['http://user:secret@a'], discovery: {}}", `endpoints is ["http://a"] and discovery is also set: must be one of them`},
		{"another scheme", "endpoints: ['http://a', 'ftp://b:9400']", `endpoints[1] is "ftp://b:9400": not an http or https URL: ` + form},
		{"no scheme", "endpoints: ['localhost:9400']", `endpoints[0] is "localhost:9400": not an http or https URL: ` + form},
		{"no host", "endpoints: ['http:///metrics']", `endpoints[0] is "http:///metrics": no host: ` + form},
		{"a port without a host", "endpoints: ['http://:9400']", `endpoints[0] is "http://:9400": no host: ` + form},
		{"an empty endpoint", "endpoints: ['']", `endpoints[0] is "": not an http or https URL: ` + form},
		{"not a URL", "endpoints: ['http://a b/%zz']", `endpoints[0] is "http://a b/%zz": not a URL: ` + form},
		{"a fragment", "endpoints: ['http://a#b']", `endpoints[0] is "http://a#b": a fragment is never sent: ` + form},
		{"a password stays hidden", "endpoints: ['http://user:secret@ho st']", `endpoints[0] is "http://ho st": not a URL: ` + form},
		{"a password without a URL", "endpoints: ['user:secret@host']", `endpoints[0] is "host": not a`},
		{"a duplicate", "endpoints: ['http://a:9400', 'http://a:9400/metrics']", `endpoints[1] is "http://a:9400/metrics": the same as endpoints[0]: must be listed once`},
		{"no interval", "{endpoints: ['http://a'], collection_interval: 0s}", "collection_interval is 0s: must be at least 10ms"},
		{"a negative interval", "{endpoints: ['http://a'], collection_interval: -1s}", "collection_interval is -1s: must be at least 10ms"},
		{"an interval without its unit", "{endpoints: ['http://a'], collection_interval: 15}", "collection_interval is 15ns: must be at least 10ms; write the unit, as in 15s"},
		{"a timeout without its unit", "{endpoints: ['http://a'], timeout: 10}", "timeout is 10ns: must be at least 1ms"},
		{"a node of no such name", "discovery: {node_name: a b}", `node_name is "a b": must be empty or a DNS subdomain name`},
		{"a jitter of weeks", "{endpoints: ['http://a'], start_jitter: 1000h}", "start_jitter is 1000h0m0s: must be between 0s and 1h0m0s"},
		{"a port that is none", "{endpoints: ['http://a:99999']}", "endpoints[0] is \"http://a:99999\": not a port between 1 and 65535"},
		{"port zero", "{endpoints: ['http://a:0']}", "not a port between 1 and 65535"},
		{"one host in two spellings", "{endpoints: ['HTTP://A:9400', 'http://a:9400']}", "the same as endpoints[0]"},
		{"no timeout", "{endpoints: ['http://a'], timeout: 0}", "timeout is 0s: must be at least 1ms"},
		{"a negative jitter", "{endpoints: ['http://a'], start_jitter: -1s}", "start_jitter is -1s: must be between 0s and 1h0m0s"},
		{"no body size", "{endpoints: ['http://a'], max_body_size: 0}", "max_body_size is 0: must be between 1 and 1099511627776 bytes"},
		{"a body size beyond all", "{endpoints: ['http://a'], max_body_size: 9223372036854775807}", "max_body_size is 9223372036854775807: must be between 1 and 1099511627776 bytes"},
		{"the client's endpoint", "{endpoints: ['http://a'], http: {endpoint: 'http://u:p@b'}}", `http::endpoint is "http://b": must not be set, the URLs belong in endpoints`},
		{"the client's timeout", "{endpoints: ['http://a'], http: {timeout: 5s}}", "http::timeout is 5s: must not be set, timeout limits a scrape"},
		{"the client's compression", "{endpoints: ['http://a'], http: {compression: gzip}}", `http::compression is "gzip": must not be set, a scrape sends no body`},
		{"an unknown field", "{endpoints: ['http://a'], interval: 5s}", "interval"},
		{"a memory limit in MiB", "{endpoints: ['http://a'], memory_limit: 256}", "memory_limit is 256: must be 0, which follows GOMEMLIMIT, or between 16777216 and 1099511627776 bytes"},
		{"all errors at once", "{timeout: 0, max_body_size: 0}", "timeout is 0s"},
		{"all errors at once, the second", "{timeout: 0, max_body_size: 0}", "max_body_size is 0"},
		{"discovery in another scope", "discovery: {scope: rack}", `discovery: scope is "rack": must be one of node, cluster`},
		{"discovery of everything", "discovery: {selectors: ['']}", `selectors[0] is "": selects every pod: must be a label selector`},
		{"discovery by nothing", "discovery: {selectors: []}", `selectors is empty: at least one label selector is required`},
		{"a selector that is none", "discovery: {selectors: ['app in nvidia']}", `selectors[0] is "app in nvidia": `},
		{"a selector twice", "discovery: {selectors: ['a=b', 'a=b']}", `selectors[1] is "a=b": must be listed once`},
		{"a port of a pod that is none", "discovery: {port: 0}", `port is 0: must be between 1 and 65535`},
		{"another scheme of pods", "discovery: {scheme: ftp}", `scheme is "ftp": must be one of http, https`},
		{"a path, as earlier versions had one", "discovery: {path: /dcgm}", `unknown key "discovery::path"`},
		{"a namespace that is none", "discovery: {namespace: 'gpu_operator'}", `namespace is "gpu_operator": must be a namespace`},
		{"a fallback that is no URL", "discovery: {fallback: 'user:secret@host'}", `fallback is "host": not a`},
		{"an unknown way to the API server", "discovery: {kubernetes: {auth_type: tls}}", `discovery: kubernetes: auth_type is "tls": must be one of serviceAccount, kubeConfig, none`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := load(t, tt.yaml)
			require.ErrorContains(t, err, tt.want)
			assert.NotContains(t, err.Error(), "secret")
		})
	}
}
