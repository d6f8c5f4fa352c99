package charts

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
		"a file of TLS that is not there":   {[]string{backend, `backend.tls.ca_file="/etc/backend/ca.crt"`}, `backend.tls.ca_file is "/etc/backend/ca.crt" and no volume is mounted there`},
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
		"a token for all to read":           {[]string{backend, `backend.headers={"Authorization":"Bearer abc"}`}, "backend.headers.Authorization contains a plain value"},
		"a key for all to read":             {[]string{backend, `backend={"headers":{"dd-api-key":"abc"}}`}, "backend.headers.dd-api-key contains a plain value"},
		"an exporter's token for all":       {[]string{backend, `dcgm.http={"headers":{"Authorization":"Bearer abc"}}`}, "dcgm.http.headers.Authorization contains a plain value"},
		"an exporter's password for all":    {[]string{backend, `dcgm.endpoints=["http://localhost:9400","http://user:abc@gpu:9400"]`}, "dcgm.endpoints contains a user or password"},
		"a password for all to read":        {[]string{`backend.endpoint="https://user:abc@backend"`}, "contains a user or password"},
		"a certificate without its key":     {[]string{backend, `backend.tls.cert_file="/etc/ssl/a.crt"`}, "sets only cert_file"},
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
		"deltas that gateways cannot read": {
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
		"a window of no time":                {[]string{`gpu_window.window="0s"`}, `gpu_window.window is "0s": must be between 1s and 24h`},
		"a window of zero":                   {[]string{`gpu_window.window="0"`}, `gpu_window.window is "0": must be between 1s and 24h`},
		"a scrape of no time":                {[]string{`dcgm.timeout="0s"`}, `dcgm.timeout is "0s": must be at least 1ms`},
		"an interval of no time":             {[]string{`gpu_cluster.collection_interval="0s"`}, `gpu_cluster.collection_interval is "0s": must be at least 1s`},
		"an interval too short for NVML":     {[]string{"nvml.enabled=true", `nvml.collection_interval="100ms"`}, `nvml.collection_interval is "100ms": must be at least 1s`},
		"a page that forgets at once":        {[]string{`gpu_view.retention="10s"`}, `gpu_view.retention is "10s": must be between 1m and 168h`},
		"a threshold above one":              {[]string{"gpu_window.memory_pressure_threshold=1.5"}, "gpu_window.memory_pressure_threshold is 1.5: must be above 0 and at most 1"},
		"an exporter that is no URL":         {[]string{`dcgm.endpoints=["x"]`}, `dcgm.endpoints[0] is "x": must be a URL such as http://localhost:9400/metrics`},
		"a name in upper case":               {[]string{`nameOverride="UPPER_case"`}, "at '/nameOverride': 'UPPER_case' does not match pattern"},
		"an interval above the gap":          {[]string{`dcgm.collection_interval="60s"`}, `gpu_window.max_gap is "50s" and dcgm.collection_interval is "60s": no time counts as observed, and gpu.window.coverage is 0. Set it above two intervals, or read more often.`},
		"NVML's interval above the gap":      {[]string{"dcgm.enabled=false", "nvml.enabled=true", `nvml.collection_interval="50s"`}, `gpu_window.max_gap is "50s" and nvml.collection_interval is "50s": no time counts`},
		"a port that is taken":               {[]string{"prometheus.enabled=true", "prometheus.port=8888"}, "use another port, such as 9464"},
		"two monitors of one series":         {[]string{"prometheus.enabled=true", "monitoring.podMonitor.enabled=true", "monitoring.serviceMonitor.enabled=true"}, "set one of them to false"},
		"a page that monitors cannot read":   {[]string{"prometheus.enabled=true", `prometheus.tls={"cert_file":"/etc/ssl/a.crt"}`, "monitoring.podMonitor.enabled=true"}, "add your own monitor to extraObjects"},
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
		"a gateway that is open unasked":     {[]string{backend, "gateway.enabled=true"}, "gateway.enabled is true and TLS is not configured"},
		"a page that is open unasked":        {[]string{"networkPolicy.enabled=false"}, "TLS is not configured: anyone could send data to the page"},
		"a page that anyone can read":        {[]string{"view.enabled=true", "view.expose=true", `tls.secretName="gpu"`}, "set gpu_view.auth, or view.anonymous to true"},
		"a certificate that is not used":     {[]string{"view.enabled=true", `tls.secretName="gpu"`, "tls.insecure=true"}, "remove one of them"},
		"a certificate of nobody":            {[]string{"view.enabled=true", "tls.certManager.enabled=true"}, "tls.certManager.issuerRef has no name"},
		"a memory resource and no collector": {[]string{backend, "cluster.enabled=false", "gpu_memory_resource.enabled=true"}, "set cluster.enabled to true"},
		"a memory resource of no name":       {[]string{backend, "gpu_memory_resource.enabled=true"}, "set it to a name in your own domain"},
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
			`are both the account "gpu": each would have the other's permissions`,
		},
		"an agent with the cluster collector's account": {
			[]string{backend, `agent.serviceAccount.name="otelcol-gpu-cluster"`}, `are both the account "otelcol-gpu-cluster"`,
		},
		"webhooks without a certificate":   {[]string{backend, "admission.enabled=true"}, "the webhooks have no certificate: set admission.certManager.enabled, or admission.secretName and caBundle"},
		"a Secret without its authority":   {[]string{backend, "admission.enabled=true", `admission.secretName="webhook"`}, "the webhooks have no certificate"},
		"two certificates of the webhooks": {[]string{backend, "admission.enabled=true", "admission.certManager.enabled=true", `admission.secretName="webhook"`}, "remove one of them"},
		"webhooks that listen elsewhere":   {[]string{backend, "admission.enabled=true", "admission.certManager.enabled=true", `gpu_share_admission.endpoint=":443"`}, `gpu_share_admission.endpoint is ":443": must not be set`},
		"an authority that is no base64":   {[]string{backend, "admission.enabled=true", `admission.secretName="webhook"`, `admission.caBundle="-----BEGIN"`}, "does not match pattern"},
		"half a Gi for the admission":      {[]string{backend, `admission.resources.limits.memory="0.5Gi"`}, `admission.resources.limits.memory is "0.5Gi": must be`},
		"an armed watchdog that may evict nowhere": {
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

// Templates read switches in these sections. The other sections may be null.
func TestASectionThatIsNullIsRefused(t *testing.T) {
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

func TestValuesCloseToARefusalAreRendered(t *testing.T) {
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
		"a short window and no gateway": {backend, `gpu_window.window="1s"`, `dcgm.collection_interval="1s"`},
		"the shortest page":             {`gpu_view.retention="1m"`},
		"a threshold of one":            {"gpu_window.memory_pressure_threshold=1"},
		"no gap, which is 90s":          {"gpu_window.max_gap=null", `dcgm.collection_interval="60s"`},
		"an exporter by a variable":     {`dcgm.endpoints=["${env:EXPORTER}"]`},
		"sections of components alone":  {"gpu_synthesizer=null", "gpu_window=null", "gpu_cluster=null", "gpu_view=null", "gpu_share_admission=null"},
		"one account and one collector": {backend, `agent.serviceAccount.name="gpu"`, `cluster.serviceAccount.name="gpu"`, "cluster.enabled=false"},
		"a page's listener in no page":  {backend, "view.enabled=false", `gpu_view.endpoint="0.0.0.0:9411"`},
		"deltas of windows": {
			backend, `agent.config={"processors":{"cumulative_to_delta":{}},"service":{"pipelines":{"metrics":{"processors":["cumulative_to_delta"]}}}}`,
		},
		"deltas of windows, with the watchdog": {
			backend, "gpu_k8s.budget={}", "gpu_watchdog.enabled=true",
			`agent.config={"processors":{"cumulative_to_delta":{}},"service":{"pipelines":{"metrics":{"processors":["gpu_window","cumulative_to_delta"]}}}}`,
		},
		"deltas of windows in gateways": {
			backend, "gateway.enabled=true", "tls.insecure=true",
			`gateway.config={"processors":{"cumulative_to_delta":{}},"service":{"pipelines":{"metrics":{"processors":["memory_limiter","gpu_window","cumulative_to_delta"]}}}}`,
		},
		"a page of which only auth is said": {
			"view.enabled=true", "view.expose=true", `tls.secretName="gpu"`, `gpu_view.auth={"authenticator":"basicauth"}`,
		},
	} {
		t.Run(name, func(t *testing.T) { decode(t, render(t, "", set...)) })
	}
}
