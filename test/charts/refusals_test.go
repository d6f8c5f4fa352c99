package charts

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestInvalidValuesAreRejected(t *testing.T) {
	const backend = `backend.endpoint="http://backend"`
	for name, tc := range map[string]struct {
		set  []string
		want string
	}{
		"no destination for the metrics":               {[]string{"prometheus.enabled=false", "view.enabled=false"}, "set backend.endpoint to an OTLP URL"},
		"no receiver":                                  {[]string{backend, "dcgm.enabled=false"}, "dcgm.enabled and nvml.enabled are false"},
		"events without a destination":                 {[]string{"view.enabled=true", "tls.insecure=true", "view.anonymous=true", "gpu_events.enabled=true"}, "set backend.logsEndpoint to an OTLP URL"},
		"Kubernetes Events without events":             {[]string{`backend.endpoint="http://b"`, `gpu_events.kubernetes_events={"auth_type":"serviceAccount"}`}, "set gpu_events.enabled to true"},
		"prices without the section usage":             {[]string{backend, `agent.prices.configMap="prices"`}, "set gpu_k8s.usage to {}"},
		"a setting with a typo":                        {[]string{backend, `gpu_window.windw="60s"`}, "gpu_window.windw is not a value of this chart: did you mean gpu_window.window?"},
		"a nested setting with a typo":                 {[]string{backend, `gpu_k8s.sources={"pod_resources":{"enabld":true}}`}, "gpu_k8s.sources.pod_resources.enabld is not a value of this chart: did you mean gpu_k8s.sources.pod_resources.enabled?"},
		"a backend setting with a typo":                {[]string{backend, `backend.tls.cafile="/ca.crt"`}, "backend.tls.cafile is not a value of this chart: did you mean backend.tls.ca_file?"},
		"a TLS file without a mount":                   {[]string{backend, `backend.tls.ca_file="/etc/backend/ca.crt"`}, `backend.tls.ca_file is "/etc/backend/ca.crt" and no volume is mounted there`},
		"a short digest":                               {[]string{backend, `image.digest="sha256:0a1b2"`}, "does not match pattern"},
		"a watchdog without budgets":                   {[]string{backend, "gpu_watchdog.enabled=true"}, "set gpu_k8s.budget to {}"},
		"claims without slices":                        {[]string{backend, "gpu_k8s.sources.dra.enabled=false", "gpu_k8s.claims=true"}, "set gpu_k8s.sources.dra.enabled to true"},
		"a value with a typo":                          {[]string{backend, "agent.nodeselector={}"}, "agent.nodeselector is not a value of this chart: did you mean agent.nodeSelector?"},
		"a configuration section that does not exist":  {[]string{backend, `agent.config={"pipelines":{}}`}, "agent.config.pipelines is not a value of this chart: agent.config has connectors, exporters, extensions, processors, receivers, service"},
		"an address instead of a URL":                  {[]string{`backend.endpoint="backend:4318"`}, "for host:port set backend.protocol to grpc"},
		"a URL without a host":                         {[]string{`backend.endpoint="http://"`}, "it must be a URL such as"},
		"a URL with the exporter's path":               {[]string{`backend.endpoint="http://backend:4318/v1/metrics"`}, "leave out /v1/metrics"},
		"a host without a port for grpc":               {[]string{`backend={"endpoint":"backend","protocol":"grpc"}`}, "it must be host:port such as otel-gateway.monitoring:4317"},
		"an address instead of the URL of a log store": {[]string{backend, "gpu_events.enabled=true", `backend.logsEndpoint="loki:3100"`}, `backend.logsEndpoint is "loki:3100"`},
		"a token as a plain value":                     {[]string{backend, `backend.headers={"Authorization":"Bearer abc"}`}, "backend.headers.Authorization contains a plain value"},
		"an API key as a plain value":                  {[]string{backend, `backend={"headers":{"dd-api-key":"abc"}}`}, "backend.headers.dd-api-key contains a plain value"},
		"a token of an exporter as a plain value":      {[]string{backend, `dcgm.http={"headers":{"Authorization":"Bearer abc"}}`}, "dcgm.http.headers.Authorization contains a plain value"},
		"a password in the URL of an exporter":         {[]string{backend, `dcgm.endpoints=["http://localhost:9400","http://user:abc@gpu:9400"]`}, "dcgm.endpoints contains a user or password"},
		"a password in the URL of the backend":         {[]string{`backend.endpoint="https://user:abc@backend"`}, "contains a user or password"},
		"a certificate without its key":                {[]string{backend, `backend.tls.cert_file="/etc/ssl/a.crt"`}, "sets only cert_file"},
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
		"a stateful processor in two pipelines": {
			[]string{
				backend, "gpu_k8s.budget={}", "gpu_watchdog.enabled=true",
				`agent.config.service.pipelines={"metrics/more":{"receivers":["dcgm"],"processors":["gpu_window"],"exporters":["otlp_http"]}}`,
			},
			"agent.config: processor gpu_window keeps state and is in the pipelines metrics and metrics/more: only one of them could start; take it out of one",
		},
		"delta temporality before gateways": {
			[]string{
				backend, "gateway.enabled=true", "tls.insecure=true", `agent.config.processors={"cumulative_to_delta":{}}`,
				`agent.config.service.pipelines.metrics.processors=["cumulative_to_delta"]`,
			},
			`agent.config: pipeline metrics: gpu_window is missing before cumulative_to_delta: gpu_window reads cumulative counters. ` +
				`Put gpu_window before cumulative_to_delta, or move cumulative_to_delta to the collector that computes the windows.`,
		},
		"a list of processors without the windows": {
			[]string{backend, "gateway.enabled=true", "tls.insecure=true", `gateway.config.service.pipelines.metrics.processors=["memory_limiter"]`},
			"gateway.config: processor gpu_window is in no pipeline and would do nothing: add it to the list of processors, which replaces the chart's, or set gateway.config.processors.gpu_window to null",
		},
		"a window of 0 seconds":                         {[]string{`gpu_window.window="0s"`}, `gpu_window.window is "0s": must be between 1s and 24h`},
		"a window of zero without a unit":               {[]string{`gpu_window.window="0"`}, `gpu_window.window is "0": must be between 1s and 24h`},
		"series that end before the next sample":        {[]string{`gpu_window.idle_timeout="30s"`}, `gpu_window.idle_timeout is "30s": must be at least max_gap, 50s, because a series that ends restarts its counters`},
		"usage that ends before the next sample":        {[]string{`gpu_k8s.usage.idle_timeout="1m"`}, `gpu_k8s.usage.idle_timeout is "1m": must be at least max_gap, 90s, because a series that ends restarts its counters`},
		"a scrape timeout of zero":                      {[]string{`dcgm.timeout="0s"`}, `dcgm.timeout is "0s": must be at least 1ms`},
		"an interval of zero":                           {[]string{`gpu_cluster.collection_interval="0s"`}, `gpu_cluster.collection_interval is "0s": must be at least 1s`},
		"an interval too short for NVML":                {[]string{"nvml.enabled=true", `nvml.collection_interval="100ms"`}, `nvml.collection_interval is "100ms": must be at least 1s`},
		"a retention below the minimum":                 {[]string{`gpu_view.retention="10s"`}, `gpu_view.retention is "10s": must be between 1m and 168h`},
		"a threshold above one":                         {[]string{"gpu_window.memory_pressure_threshold=1.5"}, "gpu_window.memory_pressure_threshold is 1.5: must be above 0 and at most 1"},
		"an exporter endpoint that is not a URL":        {[]string{`dcgm.endpoints=["x"]`}, `dcgm.endpoints[0] is "x": must be a URL such as http://localhost:9400/metrics`},
		"a name in upper case":                          {[]string{`nameOverride="UPPER_case"`}, "at '/nameOverride': 'UPPER_case' does not match pattern"},
		"an interval above max_gap":                     {[]string{`dcgm.collection_interval="60s"`}, `gpu_window.max_gap is "50s" and dcgm.collection_interval is "60s": no time counts as observed, and gpu.window.coverage is 0. Set it above two intervals, or read more often.`},
		"an NVML interval above max_gap":                {[]string{"dcgm.enabled=false", "nvml.enabled=true", `nvml.collection_interval="50s"`}, `gpu_window.max_gap is "50s" and nvml.collection_interval is "50s": no time counts`},
		"a port that is in use":                         {[]string{"prometheus.enabled=true", "prometheus.port=8888"}, "use another port, such as 9464"},
		"two monitors for the same series":              {[]string{"prometheus.enabled=true", "monitoring.podMonitor.enabled=true", "monitoring.serviceMonitor.enabled=true"}, "set one of them to false"},
		"a page that monitors cannot read":              {[]string{"prometheus.enabled=true", `prometheus.tls={"cert_file":"/etc/ssl/a.crt"}`, "monitoring.podMonitor.enabled=true"}, "add your own monitor to extraObjects"},
		"a number instead of a duration":                {[]string{backend, "gpu_window.window=60"}, "at '/gpu_window/window': got number, want"},
		"a duration with an unknown unit":               {[]string{backend, `gpu_window.window="1 minute"`}, "at '/gpu_window/window': '1 minute' does not match pattern"},
		"a word instead of a boolean":                   {[]string{backend, `gpu_k8s.jobs="yes"`}, "true or false, without quotes"},
		"a string instead of a list":                    {[]string{backend, `dcgm.endpoints="localhost:9400"`}, "at '/dcgm/endpoints': 'localhost:9400' does not match pattern"},
		"a typo in a list":                              {[]string{backend, `gpu_k8s.budget.sources.extended_resources=[{"nme":"example.com/gpumem"}]`}, "gpu_k8s.budget.sources.extended_resources[0].nme is not a value of this chart: did you mean gpu_k8s.budget.sources.extended_resources[0].name?"},
		"a node label without values":                   {[]string{backend, `agent.gpuNodeLabels=[{"key":"gpu","operator":"In"}]`}, "missing property 'values'"},
		"two agents on a node during an update":         {[]string{backend, `agent.updateStrategy={"rollingUpdate":{"maxSurge":"10%","maxUnavailable":0}}`}, "cannot open the same state"},
		"a number instead of a grace period":            {[]string{backend, "gateway.grace=30"}, "got number, want string"},
		"a duration without a unit":                     {[]string{backend, `gateway.grace="30"`}, "does not match pattern"},
		"zero replicas":                                 {[]string{backend, "cluster.replicas=0"}, "minimum: got 0, want 1"},
		"a gateway without TLS":                         {[]string{backend, "gateway.enabled=true"}, "gateway.enabled is true and TLS is not configured"},
		"a page without TLS and network policy":         {[]string{"networkPolicy.enabled=false"}, "TLS is not configured: anyone could send data to the page"},
		"a page without authentication":                 {[]string{"view.enabled=true", "view.expose=true", `tls.secretName="gpu"`}, "set gpu_view.auth, or view.anonymous to true"},
		"a certificate that is not used":                {[]string{"view.enabled=true", `tls.secretName="gpu"`, "tls.insecure=true"}, "remove one of them"},
		"a certificate without an issuer":               {[]string{"view.enabled=true", "tls.certManager.enabled=true"}, "tls.certManager.issuerRef has no name"},
		"a memory resource without a cluster collector": {[]string{backend, "cluster.enabled=false", "gpu_memory_resource.enabled=true"}, "set cluster.enabled to true"},
		"a memory resource without a name":              {[]string{backend, "gpu_memory_resource.enabled=true"}, "set it to a name in your own domain"},
		"an endpoint of the page": {
			[]string{"view.enabled=true", `tls.secretName="gpu"`, `gpu_view.endpoint="0.0.0.0:9411"`},
			`gpu_view.endpoint is "0.0.0.0:9411": must not be set`,
		},
		"a transport of the page": {
			[]string{"view.enabled=true", `tls.secretName="gpu"`, `gpu_view.transport="unix"`},
			`gpu_view.transport is "unix": must not be set`,
		},
		"a page without its certificate": {
			[]string{"view.enabled=true", "view.expose=true", "view.anonymous=true", `tls.secretName="gpu"`, "gpu_view={\"tls\":{\"cert_file\":\"\"}}"},
			`gpu_view.tls is {"cert_file":""}: must not be set`,
		},
		"a memory limit of half a Gi for the agent":                    {[]string{backend, `agent.resources.limits.memory="0.5Gi"`}, `agent.resources.limits.memory is "0.5Gi": must be none, or a whole number of Mi or Gi`},
		"a memory limit with a decimal unit for the cluster collector": {[]string{backend, `cluster.resources.limits.memory="1G"`}, `cluster.resources.limits.memory is "1G": must be`},
		"a memory limit in bytes for the gateway":                      {[]string{backend, `gateway.resources.limits.memory="1073741824"`}, `gateway.resources.limits.memory is "1073741824": must be`},
		"a memory limit as a number for the page":                      {[]string{backend, `view.resources.limits.memory=1073741824`}, "view.resources.limits.memory is 1073741824: must be"},
		"more simulated nodes than fit into the memory limit": {
			[]string{"simulator.enabled=true", "simulator.nodes=300"},
			"simulator.nodes is 300 and simulator.resources.limits.memory is 400Mi: scrapes would be skipped; with this scenario, set simulator.resources.limits.memory to at least 3664Mi",
		},
		"simulated nodes with many MIG instances": {
			[]string{"simulator.enabled=true", "simulator.nodes=28", `simulator.scenario="mig-7x1g"`}, "at least 1016Mi",
		},
		"gateways without a number of replicas":           {[]string{backend, "gateway.enabled=true", "tls.insecure=true", "gateway.replicas=null"}, "gateway.replicas is null: must be a whole number, at least 1"},
		"only draining gateways":                          {[]string{backend, "gateway.enabled=true", "tls.insecure=true", "gateway.draining=3"}, "gateway.draining is 3: must be less than gateway.replicas, which is 3"},
		"gateways without a grace period":                 {[]string{backend, "gateway.enabled=true", "tls.insecure=true", "gateway.grace=null"}, "gateway.grace is null: must be at least 45s"},
		"a grace period that is too short for the agents": {[]string{backend, "gateway.enabled=true", "tls.insecure=true", `gateway.grace="44s"`}, `gateway.grace is "44s": must be at least 45s`},
		"a grace period of more than ten windows":         {[]string{backend, "gateway.enabled=true", "tls.insecure=true", `gateway.grace="11m"`}, `gateway.grace is "11m" and gpu_window.window is "60s": must be at most ten times the window`},
		"two collectors with the same service account": {
			[]string{backend, `agent.serviceAccount.name="gpu"`, `cluster.serviceAccount.name="gpu"`},
			`are both the account "gpu": each would have the other's permissions`,
		},
		"an agent with the service account of the cluster collector": {
			[]string{backend, `agent.serviceAccount.name="otelcol-gpu-cluster"`}, `are both the account "otelcol-gpu-cluster"`,
		},
		"webhooks without a certificate":                          {[]string{backend, "admission.enabled=true"}, "the webhooks have no certificate: set admission.certManager.enabled, or admission.secretName and caBundle"},
		"a Secret without a CA bundle":                            {[]string{backend, "admission.enabled=true", `admission.secretName="webhook"`}, "the webhooks have no certificate"},
		"two certificates for the webhooks":                       {[]string{backend, "admission.enabled=true", "admission.certManager.enabled=true", `admission.secretName="webhook"`}, "remove one of them"},
		"an endpoint of the webhooks":                             {[]string{backend, "admission.enabled=true", "admission.certManager.enabled=true", `gpu_share_admission.endpoint=":443"`}, `gpu_share_admission.endpoint is ":443": must not be set`},
		"a CA bundle that is not base64":                          {[]string{backend, "admission.enabled=true", `admission.secretName="webhook"`, `admission.caBundle="-----BEGIN"`}, "does not match pattern"},
		"a memory limit of half a Gi for the admission collector": {[]string{backend, `admission.resources.limits.memory="0.5Gi"`}, `admission.resources.limits.memory is "0.5Gi": must be`},
		"an armed watchdog without namespaces": {
			[]string{backend, "gpu_k8s.budget={}", "gpu_watchdog.enabled=true", "gpu_watchdog.dry_run=false"},
			"list the namespaces whose pods it may evict",
		},
	} {
		t.Run(name, func(t *testing.T) {
			output, err := helm(t, renderArgs("", tc.set)...)
			require.Error(t, err)
			assert.Contains(t, output, tc.want)
		})
	}
}

// The chart's templates read settings in the listed sections, so the listed sections must not be
// null. All other sections may be null.
func TestARequiredSectionMustNotBeNull(t *testing.T) {
	for _, section := range []string{
		"additionalLabels", "additionalAnnotations", "image", "backend", "prometheus", "tls", "extraVolumeMounts", "dcgm", "nvml",
		"gpu_k8s", "gpu_findings", "gpu_events", "gpu_watchdog", "gpu_memory_resource", "view", "simulator", "agent", "cluster",
		"gateway", "admission", "networkPolicy", "openshift", "rbac", "monitoring",
	} {
		output, err := helm(t, renderArgs("", []string{section + "=null"})...)
		require.Error(t, err, section)
		assert.Contains(t, output, "at '': missing property '"+section+"'")
	}
}

func TestSimilarValidValuesAreRendered(t *testing.T) {
	const backend = `backend.endpoint="http://backend"`
	for name, set := range map[string][]string{
		"a mounted TLS file": {
			backend, `backend.tls.ca_file="/etc/backend/ca.crt"`,
			`extraVolumes=[{"name":"ca","configMap":{"name":"ca"}}]`, `extraVolumeMounts=[{"name":"ca","mountPath":"/etc/backend","readOnly":true}]`,
		},
		"a TLS file in the image":                        {backend, `backend.tls.ca_file="/etc/ssl/certs/ca-certificates.crt"`},
		"a TLS file from an environment variable":        {backend, `backend.tls.ca_file="${env:CA_FILE}"`},
		"a header that is not secret":                    {backend, `backend.headers={"X-Scope-OrgID":"team"}`},
		"a URL from an environment variable":             {`backend.endpoint="${env:ENDPOINT}"`},
		"a URL with a port and a path":                   {`backend.endpoint="https://gateway.example.com:443/otlp/"`},
		"gRPC with a scheme":                             {`backend={"endpoint":"https://backend:4317","protocol":"grpc"}`},
		"settings from environment variables":            {backend, `gpu_window={"window":"${env:WINDOW}","start_timestamp":"${env:START}","max_series":"${env:MAX}"}`},
		"no memory limit":                                {backend, "agent.resources.limits.memory=null"},
		"a page without settings":                        {"view.enabled=true", "tls.insecure=true", "gpu_view=null"},
		"no resources":                                   {backend, "agent.resources=null"},
		"the shortest grace period":                      {backend, "gateway.enabled=true", "tls.insecure=true", `gateway.grace="45s"`},
		"a grace period of ten windows":                  {backend, "gateway.enabled=true", "tls.insecure=true", `gateway.grace="15m"`, `gpu_window.window="1m30s"`},
		"a window from the environment":                  {backend, "gateway.enabled=true", "tls.insecure=true", `gpu_window.window="${env:WINDOW}"`},
		"a short window without gateways":                {backend, `gpu_window.window="1s"`, `dcgm.collection_interval="1s"`},
		"the shortest retention of the page":             {`gpu_view.retention="1m"`},
		"a threshold of one":                             {"gpu_window.memory_pressure_threshold=1"},
		"no max_gap, so that the default of 90s applies": {"gpu_window.max_gap=null", `dcgm.collection_interval="60s"`},
		"an exporter from an environment variable":       {`dcgm.endpoints=["${env:EXPORTER}"]`},
		"components without settings":                    {"gpu_synthesizer=null", "gpu_window=null", "gpu_cluster=null", "gpu_view=null", "gpu_share_admission=null"},
		"a custom service account of the only collector": {backend, `agent.serviceAccount.name="gpu"`, `cluster.serviceAccount.name="gpu"`, "cluster.enabled=false"},
		"an endpoint of a disabled page":                 {backend, "view.enabled=false", `gpu_view.endpoint="0.0.0.0:9411"`},
		"delta temporality for windows": {
			backend, `agent.config={"processors":{"cumulative_to_delta":{}},"service":{"pipelines":{"metrics":{"processors":["cumulative_to_delta"]}}}}`,
		},
		"delta temporality for windows with the watchdog": {
			backend, "gpu_k8s.budget={}", "gpu_watchdog.enabled=true",
			`agent.config={"processors":{"cumulative_to_delta":{}},"service":{"pipelines":{"metrics":{"processors":["gpu_window","cumulative_to_delta"]}}}}`,
		},
		"delta temporality for the windows of gateways": {
			backend, "gateway.enabled=true", "tls.insecure=true",
			`gateway.config={"processors":{"cumulative_to_delta":{}},"service":{"pipelines":{"metrics":{"processors":["memory_limiter","gpu_window","cumulative_to_delta"]}}}}`,
		},
		"a page with only the setting auth": {
			"view.enabled=true", "view.expose=true", `tls.secretName="gpu"`, `gpu_view.auth={"authenticator":"basicauth"}`,
		},
	} {
		t.Run(name, func(t *testing.T) { decode(t, render(t, "", set...)) })
	}
}
