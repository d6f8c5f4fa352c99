package charts

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/controlplane"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/notruntest"
)

var update = flag.Bool("update", false, "rewrite the rendered manifests of the golden directories")

const (
	// Paths are relative to this package.
	root     = "../.."
	chartDir = root + "/charts/otelcol-gpu"

	release   = "otelcol-gpu"
	namespace = "otelcol-gpu"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(controlplane.Main(m)) }

// variants returns the golden directories.
func variants(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob("testdata/*/values.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, found)
	var dirs []string
	for _, file := range found {
		dirs = append(dirs, filepath.Dir(file))
	}
	return dirs
}

// helm runs the helm command and returns its output, or skips the test.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	path := os.Getenv("OTELCOL_GPU_HELM")
	if path == "" {
		notruntest.Skip(t, "the chart: OTELCOL_GPU_HELM is not set; `make check` builds helm and runs this test")
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	home := t.TempDir()
	cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
	var output, problems strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &problems
	if err := cmd.Run(); err != nil {
		return output.String() + problems.String(), err
	}
	// If there are no problems, helm only prints a warning about the chart's links to standard
	// error.
	return output.String(), nil
}

// render returns the manifests of the chart, with values from a file or single values.
func render(t *testing.T, values string, set ...string) string {
	t.Helper()
	output, err := helm(t, renderArgs(values, set)...)
	require.NoError(t, err, "%s", output)
	return output
}

func renderArgs(values string, set []string) []string {
	args := []string{"template", release, chartDir, "--namespace", namespace}
	if values != "" {
		args = append(args, "--values", values)
	}
	for _, s := range set {
		args = append(args, "--set-json", s)
	}
	return args
}

func renderVariant(t *testing.T, dir string) string {
	t.Helper()
	return render(t, filepath.Join(dir, "values.yaml"))
}

// decode returns the objects of rendered manifests.
func decode(t *testing.T, manifests string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := controlplane.Decode(manifests)
	require.NoError(t, err)
	require.NotEmpty(t, objects)
	return objects
}

// podTemplates returns the pod templates of manifests, by component.
func podTemplates(t *testing.T, objects []*unstructured.Unstructured) map[string]corev1.PodTemplateSpec {
	t.Helper()
	found := map[string]corev1.PodTemplateSpec{}
	for _, obj := range objects {
		content, ok, err := unstructured.NestedMap(obj.Object, "spec", "template")
		require.NoError(t, err)
		if !ok {
			continue
		}
		var template corev1.PodTemplateSpec
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(content, &template))
		found[template.Labels["app.kubernetes.io/component"]] = template
	}
	return found
}

// configMaps returns the collector configurations of manifests, by component. ConfigMaps with other
// content are skipped.
func configMaps(t *testing.T, objects []*unstructured.Unstructured) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, obj := range objects {
		if component := obj.GetLabels()["app.kubernetes.io/component"]; obj.GetKind() == "ConfigMap" && component != "dashboards" && component != "prices" {
			data, _, err := unstructured.NestedStringMap(obj.Object, "data")
			require.NoError(t, err)
			require.Len(t, data, 1)
			for key, text := range data {
				found[strings.TrimSuffix(key, ".yaml")] = text
			}
		}
	}
	return found
}

// at returns the value at a path of a YAML text, or nil if there is none.
func at(t *testing.T, text string, path ...string) any {
	t.Helper()
	var value any
	require.NoError(t, yaml.Unmarshal([]byte(text), &value))
	for _, key := range path {
		m, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = m[key]
	}
	return value
}

func TestTheChartRendersToTheseManifests(t *testing.T) {
	for _, dir := range variants(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			got := renderVariant(t, dir)
			file := filepath.Join(dir, "manifests.yaml")
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			assert.Equal(t, string(want), got, "go test ./test/charts -update rewrites it")
		})
	}
}

func TestTheChartIsInOrder(t *testing.T) {
	for _, dir := range variants(t) {
		output, err := helm(t, "lint", "--strict", chartDir, "--values", filepath.Join(dir, "values.yaml"))
		assert.NoError(t, err, "%s: %s", dir, output)
	}
}

func TestWhatCannotWorkIsRefused(t *testing.T) {
	const backend = `backend.endpoint="http://backend"`
	for name, tc := range map[string]struct {
		set  []string
		want string
	}{
		"nowhere to send":                   {[]string{"prometheus.enabled=false", "view.enabled=false"}, "set backend.endpoint to an OTLP URL"},
		"nothing to read":                   {[]string{backend, "dcgm.enabled=false"}, "dcgm.enabled and nvml.enabled are false"},
		"events that nobody gets":           {[]string{"view.enabled=true", "tls.insecure=true", "view.anonymous=true", "gpu_events.enabled=true"}, "set backend.logsEndpoint to an OTLP URL"},
		"Kubernetes Events without events":  {[]string{`backend.endpoint="http://b"`, `gpu_events.kubernetes_events={"auth_type":"serviceAccount"}`}, "set gpu_events.enabled to true"},
		"prices and no usage":               {[]string{backend, `agent.prices.configMap="prices"`}, "set gpu_k8s.usage to {}"},
		"a setting with a typo":             {[]string{backend, `gpu_window.windw="60s"`}, "gpu_window.windw is not a value of this chart: did you mean gpu_window.window?"},
		"a deep setting with a typo":        {[]string{backend, `gpu_k8s.sources={"pod_resources":{"enabld":true}}`}, "gpu_k8s.sources.pod_resources.enabld is not a value of this chart: did you mean gpu_k8s.sources.pod_resources.enabled?"},
		"an exporter's setting with a typo": {[]string{backend, `backend.tls.cafile="/ca.crt"`}, "backend.tls.cafile is not a value of this chart: did you mean backend.tls.ca_file?"},
		"a file of TLS that is not there":   {[]string{backend, `backend.tls.ca_file="/etc/backend/ca.crt"`}, `backend.tls.ca_file is "/etc/backend/ca.crt" and nothing is mounted there`},
		"a short digest":                    {[]string{backend, `image.digest="sha256:0a1b2"`}, "does not match pattern"},
		"a watchdog alone":                  {[]string{backend, "gpu_watchdog.enabled=true"}, "set gpu_k8s.budget to {}"},
		"claims without slices":             {[]string{backend, "gpu_k8s.sources.dra.enabled=false", "gpu_k8s.claims=true"}, "set gpu_k8s.sources.dra.enabled to true"},
		"a value with a typo":               {[]string{backend, "agent.nodeselector={}"}, "agent.nodeselector is not a value of this chart: did you mean agent.nodeSelector?"},
		"a part without a name":             {[]string{backend, `agent.config={"pipelines":{}}`}, "agent.config.pipelines is not a value of this chart: agent.config has connectors, exporters, extensions, processors, receivers, service"},
		"an address for a URL":              {[]string{`backend.endpoint="backend:4318"`}, "for host:port set backend.protocol to grpc"},
		"a URL of nothing":                  {[]string{`backend.endpoint="http://"`}, "it must be a URL such as"},
		"a URL with the exporter's path":    {[]string{`backend.endpoint="http://backend:4318/v1/metrics"`}, "leave out /v1/metrics"},
		"a host without a port for grpc":    {[]string{`backend={"endpoint":"backend","protocol":"grpc"}`}, "it must be host:port such as otel-gateway.monitoring:4317"},
		"an address for a log store's URL":  {[]string{backend, "gpu_events.enabled=true", `backend.logsEndpoint="loki:3100"`}, `backend.logsEndpoint is "loki:3100"`},
		"a token for all to read":           {[]string{backend, `backend.headers={"Authorization":"Bearer abc"}`}, "backend.headers.Authorization is written out"},
		"a key for all to read":             {[]string{backend, `backend={"headers":{"dd-api-key":"abc"}}`}, "backend.headers.dd-api-key is written out"},
		"an exporter's token for all":       {[]string{backend, `dcgm.http={"headers":{"Authorization":"Bearer abc"}}`}, "dcgm.http.headers.Authorization is written out"},
		"an exporter's password for all":    {[]string{backend, `dcgm.endpoints=["http://localhost:9400","http://user:abc@gpu:9400"]`}, "dcgm.endpoints has a user or password in it"},
		"a password for all to read":        {[]string{`backend.endpoint="https://user:abc@backend"`}, "has a user or password in it"},
		"a certificate without its key":     {[]string{backend, `backend.tls.cert_file="/etc/ssl/a.crt"`}, "has a cert_file alone"},
		"a processor that is not configured": {
			[]string{backend, `agent.config.service.pipelines.metrics.processors=["gpu_windw"]`},
			`agent.config: pipeline metrics has "gpu_windw" in its processors, which is not configured: must be one of (none). The agent's receiver runs gpu_synthesizer`,
		},
		"an exporter that is not configured": {
			[]string{backend, `cluster.config.service.pipelines.metrics.exporters=["otlp"]`},
			`cluster.config: pipeline metrics has "otlp" in its exporters, which is not configured: must be one of otlp_grpc/view, otlp_http, prometheus`,
		},
		"an extension that is not configured": {
			[]string{backend, `agent.config.service.extensions=["pprof"]`}, `agent.config: service.extensions has "pprof", which is not configured: must be one of `,
		},
		"a processor with state in two pipelines": {
			[]string{
				backend, "gpu_k8s.budget={}", "gpu_watchdog.enabled=true",
				`agent.config.service.pipelines={"metrics/more":{"receivers":["dcgm"],"processors":["gpu_window"],"exporters":["otlp_http"]}}`,
			},
			"agent.config: processor gpu_window keeps state and is in the pipelines metrics and metrics/more: only one of them could start; take it out of one",
		},
		"a port that is taken":               {[]string{"prometheus.enabled=true", "prometheus.port=8888"}, "take another one, such as 9464"},
		"two monitors of one series":         {[]string{"prometheus.enabled=true", "monitoring.podMonitor.enabled=true", "monitoring.serviceMonitor.enabled=true"}, "set one of them to false"},
		"a page that monitors cannot read":   {[]string{"prometheus.enabled=true", `prometheus.tls={"cert_file":"/etc/ssl/a.crt"}`, "monitoring.podMonitor.enabled=true"}, "put a monitor of your own into extraObjects"},
		"a number for a duration":            {[]string{backend, "gpu_window.window=60"}, "at '/gpu_window/window': got number, want"},
		"a duration of no known unit":        {[]string{backend, `gpu_window.window="1 minute"`}, "at '/gpu_window/window': '1 minute' does not match pattern"},
		"a word for a switch":                {[]string{backend, `gpu_k8s.jobs="yes"`}, "true or false, without quotes"},
		"a text for a list":                  {[]string{backend, `dcgm.endpoints="localhost:9400"`}, "at '/dcgm/endpoints': 'localhost:9400' does not match pattern"},
		"a typo in a list":                   {[]string{backend, `gpu_k8s.budget.sources.extended_resources=[{"nme":"example.com/gpumem"}]`}, "gpu_k8s.budget.sources.extended_resources[0].nme is not a value of this chart: did you mean gpu_k8s.budget.sources.extended_resources[0].name?"},
		"labels of any value and no values":  {[]string{backend, `agent.gpuNodeLabels=[{"key":"gpu","operator":"In"}]`}, "missing property 'values'"},
		"two agents of a node at a time":     {[]string{backend, `agent.updateStrategy={"rollingUpdate":{"maxSurge":"10%","maxUnavailable":0}}`}, "cannot open the same state"},
		"a number as a duration":             {[]string{backend, "gateway.grace=30"}, "got number, want string"},
		"a duration of no unit":              {[]string{backend, `gateway.grace="30"`}, "does not match pattern"},
		"no replica":                         {[]string{backend, "cluster.replicas=0"}, "minimum: got 0, want 1"},
		"a gateway that is open unasked":     {[]string{backend, "gateway.enabled=true"}, "gateway.enabled is true and nothing says how agents reach it"},
		"a page that is open unasked":        {[]string{"networkPolicy.enabled=false"}, "no TLS is set: anybody could send to the page"},
		"a page for whoever reaches it":      {[]string{"view.enabled=true", "view.expose=true", `tls.secretName="gpu"`}, "set gpu_view.auth, or view.anonymous to true"},
		"a certificate that is not used":     {[]string{"view.enabled=true", `tls.secretName="gpu"`, "tls.insecure=true"}, "leave out one of them"},
		"a certificate of nobody":            {[]string{"view.enabled=true", "tls.certManager.enabled=true"}, "tls.certManager.issuerRef has no name"},
		"a memory resource and no collector": {[]string{backend, "cluster.enabled=false", "gpu_memory_resource.enabled=true"}, "set cluster.enabled to true"},
		"a memory resource of no name":       {[]string{backend, "gpu_memory_resource.enabled=true"}, "set it to a name with a domain of your own"},
		"a page that listens elsewhere": {
			[]string{"view.enabled=true", `tls.secretName="gpu"`, `gpu_view.endpoint="0.0.0.0:9411"`},
			`gpu_view.endpoint is "0.0.0.0:9411": must not be set`,
		},
		"a page on a socket": {
			[]string{"view.enabled=true", `tls.secretName="gpu"`, `gpu_view.transport="unix"`},
			`gpu_view.transport is "unix": must not be set`,
		},
		"a page with the certificate taken away": {
			[]string{"view.enabled=true", "view.expose=true", "view.anonymous=true", `tls.secretName="gpu"`, "gpu_view={\"tls\":{\"cert_file\":\"\"}}"},
			`gpu_view.tls is {"cert_file":""}: must not be set`,
		},
		"half a Gi for the agent":          {[]string{backend, `agent.resources.limits.memory="0.5Gi"`}, `agent.resources.limits.memory is "0.5Gi": must be none, or a whole number of Mi or Gi`},
		"a decimal G for the cluster's":    {[]string{backend, `cluster.resources.limits.memory="1G"`}, `cluster.resources.limits.memory is "1G": must be`},
		"bytes for the gateway":            {[]string{backend, `gateway.resources.limits.memory="1073741824"`}, `gateway.resources.limits.memory is "1073741824": must be`},
		"a number of bytes for the page":   {[]string{backend, `view.resources.limits.memory=1073741824`}, "view.resources.limits.memory is 1073741824: must be"},
		"no number of gateways":            {[]string{backend, "gateway.enabled=true", "tls.insecure=true", "gateway.replicas=null"}, "gateway.replicas is null: must be a whole number, at least 1"},
		"no gateway that takes samples":    {[]string{backend, "gateway.enabled=true", "tls.insecure=true", "gateway.draining=3"}, "gateway.draining is 3: must be less than gateway.replicas, which is 3"},
		"no grace of gateways":             {[]string{backend, "gateway.enabled=true", "tls.insecure=true", "gateway.grace=null"}, "gateway.grace is null: must be at least 45s"},
		"a grace that ends before agents":  {[]string{backend, "gateway.enabled=true", "tls.insecure=true", `gateway.grace="44s"`}, `gateway.grace is "44s": must be at least 45s`},
		"a grace of more than ten windows": {[]string{backend, "gateway.enabled=true", "tls.insecure=true", `gateway.grace="11m"`}, `gateway.grace is "11m" and gpu_window.window is "60s": must be at most ten times the window`},
		"two collectors of one account": {
			[]string{backend, `agent.serviceAccount.name="gpu"`, `cluster.serviceAccount.name="gpu"`},
			`are both the account "gpu": each would have the permissions of the other`,
		},
		"an agent with the cluster collector's account": {
			[]string{backend, `agent.serviceAccount.name="otelcol-gpu-cluster"`}, `are both the account "otelcol-gpu-cluster"`,
		},
		"webhooks without a certificate":   {[]string{backend, "admission.enabled=true"}, "the webhooks have no certificate: set admission.certManager.enabled, or admission.secretName and caBundle"},
		"a Secret without its authority":   {[]string{backend, "admission.enabled=true", `admission.secretName="webhook"`}, "the webhooks have no certificate"},
		"two certificates of the webhooks": {[]string{backend, "admission.enabled=true", "admission.certManager.enabled=true", `admission.secretName="webhook"`}, "leave out one of the two ways"},
		"webhooks that listen elsewhere":   {[]string{backend, "admission.enabled=true", "admission.certManager.enabled=true", `gpu_share_admission.endpoint=":443"`}, `gpu_share_admission.endpoint is ":443": must not be set`},
		"an authority that is no base64":   {[]string{backend, "admission.enabled=true", `admission.secretName="webhook"`, `admission.caBundle="-----BEGIN"`}, "does not match pattern"},
		"half a Gi for the admission":      {[]string{backend, `admission.resources.limits.memory="0.5Gi"`}, `admission.resources.limits.memory is "0.5Gi": must be`},
		"an armed watchdog that may evict nowhere": {
			[]string{backend, "gpu_k8s.budget={}", "gpu_watchdog.enabled=true", "gpu_watchdog.dry_run=false"},
			"list the namespaces whose pods may be",
		},
	} {
		t.Run(name, func(t *testing.T) {
			output, err := helm(t, renderArgs("", tc.set)...)
			require.Error(t, err)
			assert.Contains(t, output, tc.want)
		})
	}
}

func TestWhatComesCloseToARefusalIsRendered(t *testing.T) {
	const backend = `backend.endpoint="http://backend"`
	for name, set := range map[string][]string{
		"a file of TLS that is mounted": {
			backend, `backend.tls.ca_file="/etc/backend/ca.crt"`,
			`extraVolumes=[{"name":"ca","configMap":{"name":"ca"}}]`, `extraVolumeMounts=[{"name":"ca","mountPath":"/etc/backend","readOnly":true}]`,
		},
		"a file of TLS in the image":    {backend, `backend.tls.ca_file="/etc/ssl/certs/ca-certificates.crt"`},
		"a file of TLS by a variable":   {backend, `backend.tls.ca_file="${env:CA_FILE}"`},
		"a header that is no secret":    {backend, `backend.headers={"X-Scope-OrgID":"team"}`},
		"a URL by a variable":           {`backend.endpoint="${env:ENDPOINT}"`},
		"a URL with a port and a path":  {`backend.endpoint="https://gateway.example.com:443/otlp/"`},
		"gRPC with a scheme":            {`backend={"endpoint":"https://backend:4317","protocol":"grpc"}`},
		"settings by variables":         {backend, `gpu_window={"window":"${env:WINDOW}","start_timestamp":"${env:START}","max_series":"${env:MAX}"}`},
		"no memory limit":               {backend, "agent.resources.limits.memory=null"},
		"a page without settings":       {"view.enabled=true", "tls.insecure=true", "gpu_view=null"},
		"no resources":                  {backend, "agent.resources=null"},
		"the shortest grace":            {backend, "gateway.enabled=true", "tls.insecure=true", `gateway.grace="45s"`},
		"a grace of ten windows":        {backend, "gateway.enabled=true", "tls.insecure=true", `gateway.grace="15m"`, `gpu_window.window="1m30s"`},
		"a window from the environment": {backend, "gateway.enabled=true", "tls.insecure=true", `gpu_window.window="${env:WINDOW}"`},
		"a short window and no gateway": {backend, `gpu_window.window="1s"`},
		"one account and one collector": {backend, `agent.serviceAccount.name="gpu"`, `cluster.serviceAccount.name="gpu"`, "cluster.enabled=false"},
		"a page's listener in no page":  {backend, "view.enabled=false", `gpu_view.endpoint="0.0.0.0:9411"`},
		"a page of which only auth is said": {
			"view.enabled=true", "view.expose=true", `tls.secretName="gpu"`, `gpu_view.auth={"authenticator":"basicauth"}`,
		},
	} {
		t.Run(name, func(t *testing.T) { decode(t, render(t, "", set...)) })
	}
}

func TestTheUsersConfigurationIsMergedLast(t *testing.T) {
	for name, tc := range map[string]struct {
		config string // agent.config
		path   []string
		want   any
	}{
		"maps are merged":   {`{"receivers":{"dcgm":{"stages":{"gpu_k8s":{}}}}}`, []string{"receivers", "dcgm", "stages", "gpu_window", "window"}, "60s"},
		"a value replaces":  {`{"receivers":{"dcgm":{"stages":{"gpu_window":{"window":"10s"}}}}}`, []string{"receivers", "dcgm", "stages", "gpu_window", "window"}, "10s"},
		"false replaces":    {`{"receivers":{"dcgm":{"stages":{"gpu_k8s":{"sources":{"dra":{"enabled":false}}}}}}}`, []string{"receivers", "dcgm", "stages", "gpu_k8s", "sources", "dra", "enabled"}, false},
		"zero replaces":     {`{"receivers":{"dcgm":{"stages":{"gpu_synthesizer":{"max_devices":0}}}}}`, []string{"receivers", "dcgm", "stages", "gpu_synthesizer", "max_devices"}, 0},
		"empty replaces":    {`{"exporters":{"otlp_http":{"endpoint":""}}}`, []string{"exporters", "otlp_http", "endpoint"}, ""},
		"null removes":      {`{"exporters":{"otlp_http":{"retry_on_failure":null}}}`, []string{"exporters", "otlp_http", "retry_on_failure"}, nil},
		"a list replaces":   {`{"service":{"pipelines":{"metrics":{"exporters":[]}}}}`, []string{"service", "pipelines", "metrics", "exporters"}, []any{}},
		"what is new stays": {`{"exporters":{"debug":{"verbosity":"basic"}}}`, []string{"exporters", "debug", "verbosity"}, "basic"},
	} {
		t.Run(name, func(t *testing.T) {
			text := configMaps(t, decode(t, render(t, "", `backend.endpoint="http://backend"`, "agent.config="+tc.config)))["agent"]
			assert.Equal(t, tc.want, at(t, text, tc.path...))
		})
	}
}

// A digest identifies a single image, so its name gets no suffix such as -nvml.
func TestTheImageIsNamedByRegistryRepositoryTagAndDigest(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0a", 32)
	for set, want := range map[string]string{
		`{}`:                          "otelcol-gpu:0.1.0-nvml",
		`{"tag":"1.2"}`:               "otelcol-gpu:1.2-nvml",
		`{"tag":"1.2@sha256:0a1b2"}`:  "otelcol-gpu:1.2@sha256:0a1b2",
		`{"registry":"ghcr.io"}`:      "ghcr.io/otelcol-gpu:0.1.0-nvml",
		`{"digest":"` + digest + `"}`: "otelcol-gpu@" + digest,
		`{"registry":"ghcr.io","repository":"gpu/otelcol-gpu","tag":"1.2","digest":"` + digest + `"}`: "ghcr.io/gpu/otelcol-gpu@" + digest,
	} {
		objects := decode(t, render(t, "", `backend.endpoint="http://backend"`, "nvml.enabled=true", "image="+set))
		assert.Equal(t, want, podTemplates(t, objects)["agent"].Spec.Containers[0].Image)
	}
}

// A gateway with 2,000 GPUs of seven instances each has about 280,000 series. At 300 bytes per
// series they fit its memory limit, but they exceed gpu_window's default for max_series.
func TestAGatewayTakesTheSeriesOfManyNodes(t *testing.T) {
	for settings, want := range map[string]int{`{}`: 1_000_000, `{"max_series":50}`: 50} {
		text := configMaps(t, decode(t, render(t, "", `backend.endpoint="http://backend"`, "gateway.enabled=true", "tls.insecure=true",
			"gpu_window="+settings)))["gateway"]
		assert.Equal(t, want, at(t, text, "processors", "gpu_window", "max_series"))
	}
}

// The user's settings are used, including false; null removes a setting.
func TestSettingsOfWindowsHoldForGatewaysToo(t *testing.T) {
	text := configMaps(t, decode(t, render(t, "", `backend.endpoint="http://prometheus:9090/api/v1/otlp"`, "gateway.enabled=true", "tls.insecure=true",
		`gpu_window={"flat_attributes":true,"storage":null,"max_series":null,"tier":false,"grace":"9s"}`)))["gateway"]
	window, ok := at(t, text, "processors", "gpu_window").(map[string]any)
	require.True(t, ok)
	assert.Equal(t, map[string]any{
		"window": "60s", "max_gap": "50s", "grace": "60s", "tier": false,
		"start_timestamp": false, "flat_attributes": true,
	}, window, "the grace is gateway.grace")
}

// Replicas to be removed keep running but receive no samples.
func TestDrainingGatewaysGetNoSamples(t *testing.T) {
	objects := decode(t, render(t, "", `backend.endpoint="http://backend"`, "gateway.enabled=true", "tls.insecure=true", "gateway.replicas=3", "gateway.draining=2"))
	assert.Equal(t, []any{"otelcol-gpu-gateway-0.otelcol-gpu-gateway.otelcol-gpu.svc:4317"},
		at(t, configMaps(t, objects)["agent"], "exporters", "load_balancing", "resolver", "static", "hostnames"))
	for _, o := range objects {
		if o.GetKind() == "StatefulSet" {
			assert.EqualValues(t, 3, o.Object["spec"].(map[string]any)["replicas"])
		}
	}
}

// With more than one consumer, the oldest batch could be sent last after an outage.
func TestEverySenderKeepsTheOrder(t *testing.T) {
	for _, dir := range variants(t) {
		for name, text := range configMaps(t, decode(t, render(t, filepath.Join(dir, "values.yaml")))) {
			exporters, _ := at(t, text, "exporters").(map[string]any)
			for id, exporter := range exporters {
				of := exporter
				switch typ, _, _ := strings.Cut(id, "/"); typ {
				case "load_balancing":
					of = exporter.(map[string]any)["protocol"].(map[string]any)["otlp"]
				case "otlp_http", "otlp_grpc":
				default:
					continue
				}
				queue, _ := of.(map[string]any)["sending_queue"].(map[string]any)
				assert.EqualValues(t, 1, queue["num_consumers"], "%s: %s of %s", dir, id, name)
			}
		}
	}
}

// The API server does not reject a reference to a volume, an account or a variable that does not
// exist.
func TestWhatAPodRefersToExists(t *testing.T) {
	for _, dir := range variants(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			objects := decode(t, renderVariant(t, dir))
			exists := func(kind, name string) bool {
				return slices.ContainsFunc(objects, func(obj *unstructured.Unstructured) bool {
					return obj.GetKind() == kind && obj.GetName() == name
				})
			}
			configs := configMaps(t, objects)
			for component, template := range podTemplates(t, objects) {
				spec := template.Spec
				container := spec.Containers[0]
				if spec.ServiceAccountName != "" {
					assert.True(t, exists("ServiceAccount", spec.ServiceAccountName), "%s: account %s", component, spec.ServiceAccountName)
				}
				assert.Equal(t, []string{"--config=/etc/otelcol-gpu/" + component + ".yaml"}, container.Args)
				assert.True(t, slices.ContainsFunc(spec.Volumes, func(volume corev1.Volume) bool {
					return volume.ConfigMap != nil && exists("ConfigMap", volume.ConfigMap.Name)
				}), component)
				if len(container.EnvFrom) == 0 {
					for _, name := range variables(configs[component]) {
						assert.True(t, slices.ContainsFunc(container.Env, func(env corev1.EnvVar) bool { return env.Name == name }),
							"%s uses %s", component, name)
					}
				}
			}
		})
	}
}

func TestEveryValueIsDescribed(t *testing.T) {
	var values map[string]any
	content, err := os.ReadFile(filepath.Join(chartDir, "values.yaml"))
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(content, &values))
	readme, err := os.ReadFile(filepath.Join(chartDir, "README.md"))
	require.NoError(t, err)

	for section, value := range values {
		keys, ok := value.(map[string]any)
		if !ok {
			assert.Contains(t, string(readme), "`"+section+"`")
			continue
		}
		for key := range keys {
			name := section + "." + key
			names := []string{name, name + ".*", "<collector>." + key}
			if strings.HasPrefix(section, "gpu_") || section == "dcgm" || section == "nvml" {
				names = append(names, section) // the component's README describes the options of this section
			}
			described := slices.ContainsFunc(names, func(name string) bool {
				return strings.Contains(string(readme), "`"+name+"`")
			})
			assert.True(t, described, "README.md does not describe %s", name)
		}
	}
}
