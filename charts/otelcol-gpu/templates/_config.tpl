{{/* Collector configurations. Each is YAML text, over which the user's map is laid last. */}}

{{/*
Lays a map over another one, in place: a list of the lower and the upper map. Maps are merged,
null removes a key, anything else replaces. (mergeOverwrite knows no null.)
*/}}
{{- define "otelcol-gpu.overlay" -}}
{{- $lower := index . 0 }}
{{- range $key, $value := index . 1 }}
{{- if kindIs "invalid" $value }}
{{- $_ := unset $lower $key }}
{{- else if and (kindIs "map" $value) (kindIs "map" (get $lower $key)) }}
{{- include "otelcol-gpu.overlay" (list (get $lower $key) $value) }}
{{- else }}
{{- $_ := set $lower $key $value }}
{{- end }}
{{- end }}
{{- end }}

{{/* The same as YAML: a list of the lower map as YAML text, and the upper map. */}}
{{- define "otelcol-gpu.merged" -}}
{{- $lower := fromYaml (index . 0) }}
{{- if hasKey $lower "Error" }}
{{- fail $lower.Error }}
{{- end }}
{{- include "otelcol-gpu.overlay" (list $lower (index . 1)) }}
{{- toYaml $lower }}
{{- end }}

{{/* What does not fit together, said before anything is made of it. */}}
{{- define "otelcol-gpu.check" -}}
{{- $v := .Values }}
{{- if not (or $v.backend.endpoint $v.view.enabled) }}
{{- fail "backend.endpoint is empty and view.enabled is false: nothing would be seen; set backend.endpoint to an OTLP URL such as http://otel-gateway.monitoring:4318, or view.enabled to true" }}
{{- end }}
{{- if not (or $v.dcgm.enabled $v.nvml.enabled) }}
{{- fail "dcgm.enabled and nvml.enabled are false: nothing would be read; set one of them to true" }}
{{- end }}
{{- if and $v.watchdog.enabled (not $v.budget.enabled) }}
{{- fail "watchdog.enabled is true and budget.enabled is false: the watchdog acts on what the budget says; set budget.enabled to true" }}
{{- end }}
{{- if and $v.watchdog.enabled (not $v.watchdog.dryRun) (not $v.watchdog.namespaces) }}
{{- fail "watchdog.dryRun is false and watchdog.namespaces is empty: no pod could be evicted; list the namespaces whose pods may be" }}
{{- end }}
{{- if and $v.memoryResource.enabled (not $v.cluster.enabled) }}
{{- fail "memoryResource.enabled is true and cluster.enabled is false: the cluster collector advertises the resource; set cluster.enabled to true" }}
{{- end }}
{{- if and $v.memoryResource.enabled (not $v.memoryResource.settings.resource) }}
{{- fail "memoryResource.enabled is true and memoryResource.settings has no resource: set it to a name with a domain of your own, such as example.com/gpumem" }}
{{- end }}
{{- include "otelcol-gpu.checkTLS" . }}
{{- include "otelcol-gpu.checkMemory" . }}
{{- include "otelcol-gpu.checkGateway" . }}
{{- $account := include "otelcol-gpu.serviceAccount" (list . "agent") }}
{{- if and $v.cluster.enabled (eq $account (include "otelcol-gpu.serviceAccount" (list . "cluster"))) }}
{{- fail (printf "agent.serviceAccount and cluster.serviceAccount are both the account %q: each would have the permissions of the other; set agent.serviceAccount.name and cluster.serviceAccount.name to two names" $account) }}
{{- end }}
{{- if and $v.backend.endpoint (eq $v.backend.protocol "http") (not (regexMatch "^(https?://|\\$\\{)" $v.backend.endpoint)) }}
{{- fail (printf "backend.endpoint is %q and backend.protocol is http: it must be a URL such as http://otel-gateway.monitoring:4318; for host:port set backend.protocol to grpc" $v.backend.endpoint) }}
{{- end }}
{{- if and $v.agent.stateHostPath (not (has (toString (dig "rollingUpdate" "maxSurge" 0 $v.agent.updateStrategy)) (list "0" "0%"))) }}
{{- fail "agent.updateStrategy has a maxSurge and agent.stateHostPath is set: two agents of a node cannot open the same state, and the new one would never be ready; use maxUnavailable" }}
{{- end }}
{{- if and $v.attribution.claims (not $v.attribution.dra) }}
{{- fail "attribution.claims is true and attribution.dra is false: claims name devices of ResourceSlices; set attribution.dra to true" }}
{{- end }}
{{- end }}

{{/* No listener that the network reaches is open without being told so. */}}
{{- define "otelcol-gpu.checkTLS" -}}
{{- $v := .Values }}
{{- $secured := include "otelcol-gpu.tlsSecret" . }}
{{- if and $v.tls.certManager.enabled (not $v.tls.certManager.issuerRef.name) }}
{{- fail "tls.certManager.enabled is true and tls.certManager.issuerRef has no name: name the Issuer or ClusterIssuer" }}
{{- end }}
{{- if and $v.tls.insecure $secured }}
{{- fail "tls.insecure is true and a certificate is given: leave out one of them" }}
{{- end }}
{{- if not (or $secured $v.tls.insecure) }}
{{- if $v.gateway.enabled }}
{{- fail "gateway.enabled is true and nothing says how agents reach it: set tls.secretName or tls.certManager.enabled, or tls.insecure to true" }}
{{- end }}
{{- if $v.view.enabled }}
{{- fail "view.enabled is true and nothing says how collectors reach it: set tls.secretName or tls.certManager.enabled, or tls.insecure to true" }}
{{- end }}
{{- end }}
{{- range list "endpoint" "transport" "tls" }}
{{- if and $v.view.enabled (hasKey ($v.view.settings | default dict) .) }}
{{- fail (printf "view.settings.%s is %s: must not be set, the chart says where the page listens and with which certificate; use view.expose, tls.secretName or tls.certManager, and view.settings.auth" . (toJson (get $v.view.settings .))) }}
{{- end }}
{{- end }}
{{- if and $v.view.enabled $v.view.expose (not $v.view.settings.auth) (not $v.view.anonymous) }}
{{- fail "view.expose is true and view.settings has no auth: whoever reaches the Service would read everything; set view.settings.auth, or view.anonymous to true" }}
{{- end }}
{{- end }}

{{/* What GOMEMLIMIT follows has to be read here. */}}
{{- define "otelcol-gpu.checkMemory" -}}
{{- range list "agent" "cluster" "gateway" "view" }}
{{- $limit := dig "limits" "memory" nil ((index $.Values .).resources | default dict) }}
{{- if and (not (kindIs "invalid" $limit)) (not (regexMatch "^[1-9][0-9]*[MG]i$" (toString $limit))) }}
{{- fail (printf "%s.resources.limits.memory is %s: must be none, or a whole number of Mi or Gi such as 512Mi, which GOMEMLIMIT follows" . (toJson $limit)) }}
{{- end }}
{{- end }}
{{- end }}

{{/* What would leave agents without a gateway, or gateways without a configuration that starts. */}}
{{- define "otelcol-gpu.checkGateway" -}}
{{- $v := .Values }}
{{- if $v.gateway.enabled }}
{{- if not $v.gateway.replicas }}
{{- fail "gateway.replicas is null: must be a whole number, at least 1; agents know the gateways by their numbers" }}
{{- end }}
{{- $grace := include "otelcol-gpu.seconds" $v.gateway.grace }}
{{- if or (not $grace) (lt (float64 $grace) 45.0) }}
{{- fail (printf "gateway.grace is %s: must be at least 45s, for an agent looks a changed address up 30 s after it lost the old one" (toJson $v.gateway.grace)) }}
{{- end }}
{{- $window := include "otelcol-gpu.seconds" $v.window.settings.window }}
{{- if and $window (gt (float64 $grace) (mulf 10 $window)) }}
{{- fail (printf "gateway.grace is %q and window.settings.window is %q: must be at most ten times the window" $v.gateway.grace $v.window.settings.window) }}
{{- end }}
{{- end }}
{{- end }}

{{/* A duration in seconds; empty where it is none that can be read here, such as ${env:WINDOW}. */}}
{{- define "otelcol-gpu.seconds" -}}
{{- if regexMatch "^([0-9]+(\\.[0-9]+)?(ms|s|m|h))+$" (toString .) }}
{{- $units := dict "ms" 0.001 "s" 1 "m" 60 "h" 3600 }}
{{- $sum := 0 }}
{{- range regexFindAll "[0-9.]+[a-z]+" . -1 }}
{{- $unit := regexFind "[a-z]+" . }}
{{- $sum = addf $sum (mulf (trimSuffix $unit .) (get $units $unit)) }}
{{- end }}
{{- $sum }}
{{- end }}
{{- end }}

{{/* The Secret with the certificate of this chart's collectors; empty: they have none. */}}
{{- define "otelcol-gpu.tlsSecret" -}}
{{- if .Values.tls.secretName }}
{{- .Values.tls.secretName }}
{{- else if .Values.tls.certManager.enabled }}
{{- include "otelcol-gpu.fullname" . }}-tls
{{- end }}
{{- end }}

{{/* Whether a collector listens to another one of this chart or sends to it: a list of root and
component. */}}
{{- define "otelcol-gpu.usesTLS" -}}
{{- $v := (index . 0).Values }}
{{- $uses := dict "agent" (or $v.gateway.enabled $v.view.enabled) "cluster" $v.view.enabled "gateway" true "view" true }}
{{- if and (include "otelcol-gpu.tlsSecret" (index . 0)) (index $uses (index . 1)) }}true{{ end }}
{{- end }}

{{/* The certificate, read anew once it is renewed. */}}
{{- define "otelcol-gpu.config.certificate" -}}
cert_file: /etc/otelcol-gpu-tls/tls.crt
key_file: /etc/otelcol-gpu-tls/tls.key
reload_interval: 1h
{{- end }}

{{/* Of who sends to a collector of this chart. */}}
{{- define "otelcol-gpu.config.clientTLS" -}}
{{- if include "otelcol-gpu.tlsSecret" . -}}
tls:
  ca_file: /etc/otelcol-gpu-tls/ca.crt
  {{- include "otelcol-gpu.config.certificate" . | nindent 2 }}
{{- else -}}
tls: {insecure: true}
{{- end }}
{{- end }}

{{- define "otelcol-gpu.config.fileStorage" -}}
file_storage:
  directory: /var/lib/otelcol-gpu
  # A file that a power cut left in pieces keeps the collector from starting.
  fsync: true
  # Where that is noticed in time the file is put aside and a new one begun.
  recreate: true
{{- end }}

{{- define "otelcol-gpu.config.extensions" -}}
health_check:
  # The kubelet probes the pod's address. The brackets are for IPv6 and harmless otherwise.
  endpoint: "[${env:POD_IP}]:13133"
{{- end }}

{{/* First in every pipeline: refuses data before the kernel ends the process. */}}
{{- define "otelcol-gpu.config.memoryLimiter" -}}
memory_limiter:
  check_interval: 1s
  limit_percentage: 75
  spike_limit_percentage: 15
{{- end }}

{{- define "otelcol-gpu.config.telemetry" -}}
logs: {level: {{ .Values.logLevel }}, encoding: json}
metrics:
  level: normal
  readers:
    - pull: {exporter: {prometheus: {host: "${env:POD_IP}", port: 8888}}}
{{- end }}

{{- define "otelcol-gpu.config.otlpReceiver" -}}
otlp:
  protocols:
    grpc:
      endpoint: "[${env:POD_IP}]:4317"
      # A scrape of a partitioned node is 1 to 3 MiB, near gRPC's default limit of 4.
      max_recv_msg_size_mib: 16
      {{- if include "otelcol-gpu.tlsSecret" . }}
      # Who sends shows a certificate of the same authority.
      tls:
        client_ca_file: /etc/otelcol-gpu-tls/ca.crt
        client_ca_file_reload: true
        {{- include "otelcol-gpu.config.certificate" . | nindent 8 }}
      {{- end }}
{{- end }}

{{- define "otelcol-gpu.backendType" -}}
{{- ternary "otlp_grpc" "otlp_http" (eq .Values.backend.protocol "grpc") }}
{{- end }}

{{/* The exporters of a collector: a list of root, for how many points there is room on disk (0: the
queue is in memory), and for how long a batch is worth sending. */}}
{{- define "otelcol-gpu.config.exporters" -}}
{{- $root := index . 0 }}
{{- $room := index . 1 }}
{{- with $root.Values.backend }}
{{- if .endpoint }}
{{- $base := dict "endpoint" .endpoint "compression" "gzip" "retry_on_failure" (dict "max_elapsed_time" (index $ 2)) }}
{{- if .headers }}
{{- $_ := set $base "headers" .headers }}
{{- end }}
{{- /* Batches are made where what waits is not lost, so no batch processor is needed. A point has
some 320 bytes, with a claim and long names twice that: 4096 of them stay below the 4 MiB that a
gRPC server takes. */}}
{{- $queue := dict "batch" (dict "flush_timeout" "1s" "min_size" 2000 "max_size" 4096) }}
{{- if $room }}
{{- $queue = merge $queue (dict "storage" "file_storage" "sizer" "items" "queue_size" $room) }}
{{- end }}
{{- $_ := set $base "sending_queue" $queue }}
{{ include "otelcol-gpu.backendType" $root }}:
  {{- include "otelcol-gpu.merged" (list (toYaml $base) .settings) | nindent 2 }}
{{- end }}
{{- end }}
{{- if $root.Values.view.enabled }}
otlp_grpc/view:
  endpoint: {{ include "otelcol-gpu.fullname" $root }}-view.{{ $root.Release.Namespace }}.svc:4317
  {{- include "otelcol-gpu.config.clientTLS" $root | nindent 2 }}
  compression: gzip
  # The page shows the last hours; what it missed meanwhile is not worth keeping for long.
  retry_on_failure: {max_elapsed_time: 1m}
{{- end }}
{{- end }}

{{- define "otelcol-gpu.exporterNames" -}}
{{- $names := list }}
{{- if .Values.backend.endpoint }}
{{- $names = append $names (include "otelcol-gpu.backendType" .) }}
{{- end }}
{{- if .Values.view.enabled }}
{{- $names = append $names "otlp_grpc/view" }}
{{- end }}
{{- join ", " $names }}
{{- end }}

{{/* The exporter on this node in; windows, or samples for the gateway, out. */}}
{{- define "otelcol-gpu.config.agent" -}}
{{- $v := .Values }}
{{- $storage := "storage: file_storage" }}
{{- $receivers := list }}
{{- $processors := list "memory_limiter" }}
{{- $exporters := ternary "load_balancing" (include "otelcol-gpu.exporterNames" .) $v.gateway.enabled }}
extensions:
  {{- include "otelcol-gpu.config.extensions" . | nindent 2 }}
  # Open windows and the sending queue survive a restart.
  {{- include "otelcol-gpu.config.fileStorage" . | nindent 2 }}
receivers:
  {{- if $v.dcgm.enabled }}
  {{- $receivers = append $receivers "dcgm" }}
  dcgm:
    {{- toYaml $v.dcgm.settings | nindent 4 }}
  {{- end }}
  {{- if $v.nvml.enabled }}
  {{- $receivers = append $receivers "nvml" }}
  nvml:
    {{- /* Beside dcgm-exporter only processes, so that no series has two sources. */}}
    {{- $base := dict "processes_only" $v.dcgm.enabled "cluster_name" $v.clusterName }}
    {{- include "otelcol-gpu.merged" (list (toYaml $base) $v.nvml.settings) | nindent 4 }}
  {{- end }}
processors:
  {{- include "otelcol-gpu.config.memoryLimiter" . | nindent 2 }}
  {{- if $v.dcgm.enabled }}
  {{- $processors = append $processors "gpu_synthesizer" }}
  gpu_synthesizer:
    cluster_name: {{ $v.clusterName | quote }}
    storage: file_storage
    max_devices: 2000
  {{- end }}
  {{- if $v.attribution.enabled }}
  {{- $processors = append $processors "gpu_k8s" }}
  gpu_k8s:
    {{- $base := dict "claims" $v.attribution.claims "sources" (dict
      "pod_resources" (dict "enabled" $v.attribution.podResources)
      "dra" (dict "enabled" $v.attribution.dra)) }}
    {{- include "otelcol-gpu.merged" (list (toYaml $base) $v.attribution.settings) | nindent 4 }}
  {{- end }}
  {{- if $v.power.enabled }}
  {{- $processors = append $processors "gpu_power" }}
  gpu_power:
    {{- include "otelcol-gpu.merged" (list $storage $v.power.settings) | nindent 4 }}
  {{- end }}
  {{- if $v.budget.enabled }}
  {{- $processors = append $processors "gpu_budget" }}
  gpu_budget:
    {{- $base := dict "storage" "file_storage" "sources" (dict "dra" (dict "enabled" $v.attribution.claims)) }}
    {{- include "otelcol-gpu.merged" (list (toYaml $base) $v.budget.settings) | nindent 4 }}
  {{- end }}
  {{- if not $v.gateway.enabled }}
  gpu_window:
    {{- include "otelcol-gpu.merged" (list $storage $v.window.settings) | nindent 4 }}
  {{- end }}
exporters:
  {{- if $v.gateway.enabled }}
  # By node, so that all samples of a device come to the same window. Names and not addresses:
  # a gateway that restarts keeps its nodes.
  load_balancing:
    routing_key: attributes
    routing_attributes: [k8s.node.name]
    resolver:
      static:
        hostnames:
          {{- range $i := until (int $v.gateway.replicas) }}
          {{- $name := printf "%s-gateway" (include "otelcol-gpu.fullname" $) }}
          - {{ $name }}-{{ $i }}.{{ $name }}.{{ $.Release.Namespace }}.svc:4317
          {{- end }}
    protocol:
      otlp:
        {{- include "otelcol-gpu.config.clientTLS" . | nindent 8 }}
        compression: gzip
        # What comes after the window's grace is late and counted there.
        retry_on_failure: {initial_interval: 1s, max_interval: 1s, max_elapsed_time: {{ $v.gateway.grace }}}
  {{- else }}
  {{- include "otelcol-gpu.config.exporters" (list . 500000 "1h") | nindent 2 }}
  {{- end }}
  {{- if $v.watchdog.enabled }}
  gpu_watchdog:
    {{- /* A lease for each node, as each agent watches the devices of its own. */}}
    {{- $lease := printf "%s-watchdog-${env:NODE_NAME}" (include "otelcol-gpu.fullname" .) }}
    {{- $base := dict "dry_run" $v.watchdog.dryRun "namespaces" $v.watchdog.namespaces "storage" "file_storage"
      "leader_election" (dict "name" $lease) }}
    {{- include "otelcol-gpu.merged" (list (toYaml $base) $v.watchdog.settings) | nindent 4 }}
  {{- end }}
{{- if $v.watchdog.enabled }}
connectors:
  # The watchdog acts on samples, backends get windows.
  forward: {}
{{- end }}
service:
  extensions: [health_check, file_storage]
  pipelines:
    {{- $tail := ternary (list) (list "gpu_window") $v.gateway.enabled }}
    {{- if $v.watchdog.enabled }}
    metrics/samples:
      receivers: [{{ join ", " $receivers }}]
      processors: [{{ join ", " $processors }}]
      exporters: [gpu_watchdog, forward]
    metrics:
      receivers: [forward]
      processors: [{{ join ", " $tail }}]
      exporters: [{{ $exporters }}]
    {{- else }}
    metrics:
      receivers: [{{ join ", " $receivers }}]
      processors: [{{ join ", " (concat $processors $tail) }}]
      exporters: [{{ $exporters }}]
    {{- end }}
  telemetry:
    {{- include "otelcol-gpu.config.telemetry" . | nindent 4 }}
{{- end }}

{{/* What waits at the scheduler's door, and what nodes and DRA drivers offer. */}}
{{- define "otelcol-gpu.config.cluster" -}}
extensions:
  {{- include "otelcol-gpu.config.extensions" . | nindent 2 }}
  {{- if .Values.memoryResource.enabled }}
  # Each replica does it; all of them want the same.
  gpu_memory_resource:
    {{- toYaml .Values.memoryResource.settings | nindent 4 }}
  {{- end }}
receivers:
  gpu_cluster:
    {{- $base := dict "cluster_name" .Values.clusterName
      "leader_election" (dict "name" (printf "%s-cluster" (include "otelcol-gpu.fullname" .))) }}
    {{- include "otelcol-gpu.merged" (list (toYaml $base) .Values.cluster.settings) | nindent 4 }}
processors:
  {{- include "otelcol-gpu.config.memoryLimiter" . | nindent 2 }}
exporters:
  # These are the states of a moment: what is minutes old is not sent any more.
  {{- include "otelcol-gpu.config.exporters" (list . 0 "5m") | nindent 2 }}
service:
  extensions: [health_check{{ if .Values.memoryResource.enabled }}, gpu_memory_resource{{ end }}]
  pipelines:
    metrics:
      receivers: [gpu_cluster]
      processors: [memory_limiter]
      exporters: [{{ include "otelcol-gpu.exporterNames" . }}]
  telemetry:
    {{- include "otelcol-gpu.config.telemetry" . | nindent 4 }}
{{- end }}

{{/* Samples of the nodes that are routed to it in, windows out. */}}
{{- define "otelcol-gpu.config.gateway" -}}
extensions:
  {{- include "otelcol-gpu.config.extensions" . | nindent 2 }}
  {{- include "otelcol-gpu.config.fileStorage" . | nindent 2 }}
receivers:
  {{- include "otelcol-gpu.config.otlpReceiver" . | nindent 2 }}
processors:
  {{- include "otelcol-gpu.config.memoryLimiter" . | nindent 2 }}
  gpu_window:
    {{- /* A node that moves to another gateway goes on there: nothing has ended. */}}
    {{- $base := merge (dict "storage" "file_storage" "grace" .Values.gateway.grace "mark_end" false) .Values.window.settings
      (dict "max_series" 1000000) }}
    {{- toYaml $base | nindent 4 }}
exporters:
  # Half an hour of 80 nodes with whole GPUs, in 1.2 GB of the volume.
  {{- include "otelcol-gpu.config.exporters" (list . 4000000 "1h") | nindent 2 }}
service:
  extensions: [health_check, file_storage]
  pipelines:
    metrics:
      receivers: [otlp]
      processors: [memory_limiter, gpu_window]
      exporters: [{{ include "otelcol-gpu.exporterNames" . }}]
  telemetry:
    {{- include "otelcol-gpu.config.telemetry" . | nindent 4 }}
{{- end }}

{{/* Windows of all nodes in, a page out. */}}
{{- define "otelcol-gpu.config.view" -}}
extensions:
  {{- include "otelcol-gpu.config.extensions" . | nindent 2 }}
receivers:
  {{- include "otelcol-gpu.config.otlpReceiver" . | nindent 2 }}
processors:
  {{- include "otelcol-gpu.config.memoryLimiter" . | nindent 2 }}
exporters:
  gpu_view:
    {{- $base := dict "endpoint" (ternary ":9411" "localhost:9411" .Values.view.expose) }}
    {{- if and .Values.view.expose (include "otelcol-gpu.tlsSecret" .) }}
    {{- $_ := set $base "tls" (fromYaml (include "otelcol-gpu.config.certificate" .)) }}
    {{- end }}
    {{- include "otelcol-gpu.merged" (list (toYaml $base) .Values.view.settings) | nindent 4 }}
service:
  extensions: [health_check]
  pipelines:
    metrics:
      receivers: [otlp]
      processors: [memory_limiter]
      exporters: [gpu_view]
  telemetry:
    {{- include "otelcol-gpu.config.telemetry" . | nindent 4 }}
{{- end }}

{{/* The configuration of a component, with the user's map merged last. */}}
{{- define "otelcol-gpu.config" -}}
{{- $root := index . 0 }}
{{- $name := index . 1 }}
{{- include "otelcol-gpu.check" $root }}
{{- include "otelcol-gpu.merged" (list (include (printf "otelcol-gpu.config.%s" $name) $root) (index $root.Values $name).config) }}
{{- end }}

{{- define "otelcol-gpu.configMap" -}}
apiVersion: v1
kind: ConfigMap
metadata:
  {{- include "otelcol-gpu.metadata" . | nindent 2 }}
data:
  {{ index . 1 }}.yaml: |
    {{- include "otelcol-gpu.config" . | nindent 4 }}
{{- end }}
