{{/* Collector configurations. Each is YAML text, into which the user's map is merged last. */}}

{{/* Merges the second map of a list into the first one, in place. Nested maps are merged, null removes a key,
and other values are replaced. (mergeOverwrite does not support null.) */}}
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

{{/* Merges like overlay, but the first map is YAML text, and the result is returned as YAML. */}}
{{- define "otelcol-gpu.merged" -}}
{{- $lower := fromYaml (index . 0) }}
{{- if hasKey $lower "Error" }}
{{- fail $lower.Error }}
{{- end }}
{{- include "otelcol-gpu.overlay" (list $lower (index . 1)) }}
{{- toYaml $lower }}
{{- end }}

{{/* A duration in seconds, or empty if it cannot be parsed here, such as ${env:WINDOW}. */}}
{{- define "otelcol-gpu.seconds" -}}
{{- if regexMatch "^(([0-9]+(\\.[0-9]+)?(ms|s|m|h))+|0)$" (toString .) }}
{{- $units := dict "ms" 0.001 "s" 1 "m" 60 "h" 3600 }}
{{- $sum := 0 }}
{{- range regexFindAll "[0-9.]+[a-z]+" . -1 }}
{{- $unit := regexFind "[a-z]+" . }}
{{- $sum = addf $sum (mulf (trimSuffix $unit .) (get $units $unit)) }}
{{- end }}
{{- $sum }}
{{- end }}
{{- end }}

{{/* The Secret with the certificate of this chart's collectors, or empty if there is none. */}}
{{- define "otelcol-gpu.tlsSecret" -}}
{{- if .Values.tls.secretName }}
{{- .Values.tls.secretName }}
{{- else if .Values.tls.certManager.enabled }}
{{- include "otelcol-gpu.fullname" . }}-tls
{{- end }}
{{- end }}

{{/* Whether a collector exchanges data with another collector of this chart. The argument is a list of root and component. */}}
{{- define "otelcol-gpu.usesTLS" -}}
{{- $v := (index . 0).Values }}
{{- $uses := dict "agent" (or $v.gateway.enabled $v.view.enabled) "cluster" $v.view.enabled "gateway" true "view" true "simulator" $v.view.enabled }}
{{- if and (include "otelcol-gpu.tlsSecret" (index . 0)) (index $uses (index . 1)) }}true{{ end }}
{{- end }}

{{/* The certificate of this chart's collectors. It is reloaded after it is renewed. */}}
{{- define "otelcol-gpu.config.certificate" -}}
cert_file: /etc/otelcol-gpu-tls/tls.crt
key_file: /etc/otelcol-gpu-tls/tls.key
reload_interval: 1h
{{- end }}

{{/* TLS settings for clients of this chart's collectors. */}}
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
  # Flush each write to disk, so that a power failure does not damage the file.
  fsync: true
  # Rename a damaged file and start a new one.
  recreate: true
{{- end }}

{{- define "otelcol-gpu.config.extensions" -}}
health_check:
  # The kubelet probes the pod's address. The brackets are for IPv6 and harmless otherwise.
  endpoint: "[${env:POD_IP}]:13133"
{{- end }}

{{/* First in every pipeline, to refuse data before the kernel kills the process. */}}
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
      # Clients need a certificate from the same authority.
      tls:
        client_ca_file: /etc/otelcol-gpu-tls/ca.crt
        client_ca_file_reload: true
        {{- include "otelcol-gpu.config.certificate" . | nindent 8 }}
      {{- end }}
{{- end }}

{{- define "otelcol-gpu.backendType" -}}
{{- ternary "otlp_grpc" "otlp_http" (eq .Values.backend.protocol "grpc") }}
{{- end }}

{{/* Whether identifying attributes are copied to each point. The option of gpu_window applies to all data that
is sent to the backend. */}}
{{- define "otelcol-gpu.flatAttributes" -}}
{{- if eq (toString (.Values.gpu_window).flat_attributes) "true" }}true{{ end }}
{{- end }}

{{/* Whether ResourceSlices are read, which needs a permission. */}}
{{- define "otelcol-gpu.readsSlices" -}}
{{- if and .Values.gpu_k8s.enabled (ne (((.Values.gpu_k8s.sources).dra).enabled | toString) "false") }}true{{ end }}
{{- end }}

{{/* Whether ResourceClaims are read, which needs a permission. */}}
{{- define "otelcol-gpu.readsClaims" -}}
{{- $k := .Values.gpu_k8s }}
{{- if or $k.claims (eq "true" (toString ((($k.budget).sources).dra).enabled)) }}true{{ end }}
{{- end }}

{{/* Whether the agent writes Kubernetes Events. */}}
{{- define "otelcol-gpu.writesEvents" -}}
{{- $how := toString (.Values.gpu_events.kubernetes_events).auth_type }}
{{- if and .Values.gpu_events.enabled (not (has $how (list "<nil>" "" "none"))) }}true{{ end }}
{{- end }}

{{/* Whether the watchdog evicts pods instead of only reporting. */}}
{{- define "otelcol-gpu.watchdogActs" -}}
{{- if and .Values.gpu_watchdog.enabled (eq (toString .Values.gpu_watchdog.dry_run) "false") }}true{{ end }}
{{- end }}

{{/* Settings of gpu_window that depend on the backend. */}}
{{- define "otelcol-gpu.config.windowForBackend" -}}
{{- if include "otelcol-gpu.flatAttributes" . }}
# Prometheus may turn a start time into a sample of 0 at that time.
start_timestamp: false
{{- end }}
{{- end }}

{{/* The exporters of a collector. The argument is a list of root, component, the queue's size on disk in points
(0 means that the queue is in memory), and how long a batch is retried. */}}
{{- define "otelcol-gpu.config.exporters" -}}
{{- $root := index . 0 }}
{{- $component := index . 1 }}
{{- $room := index . 2 }}
{{- with $root.Values.backend }}
{{- if .endpoint }}
{{- $base := dict "endpoint" .endpoint "compression" "gzip" "retry_on_failure" (dict "max_elapsed_time" (index $ 3)) }}
{{- if .headers }}
{{- $_ := set $base "headers" .headers }}
{{- end }}
{{- /* Use one sender. After an outage, several senders could send newer batches first. Backends that only
accept the samples of a series in order would then reject the older batches. */}}
{{- $queue := dict "num_consumers" 1 }}
{{- if eq $component "cluster" }}
{{- /* The emissions of gpu_cluster have no maximum size. Other collectors send the output of gpu_window, which
is already in batches. */}}
{{- $_ := set $queue "batch" (dict "flush_timeout" "1s" "min_size" 2000 "max_size" 4096) }}
{{- end }}
{{- if $room }}
{{- $queue = merge $queue (dict "storage" "file_storage" "sizer" "items" "queue_size" $room) }}
{{- end }}
{{- $_ := set $base "sending_queue" $queue }}
{{ include "otelcol-gpu.backendType" $root }}:
  {{- include "otelcol-gpu.merged" (list (toYaml $base) (omit . "endpoint" "headers" "protocol" "logsEndpoint")) | nindent 2 }}
{{- end }}
{{- end }}
{{- if $root.Values.prometheus.enabled }}
prometheus:
  {{- include "otelcol-gpu.config.prometheus" (list $root $component) | nindent 2 }}
{{- end }}
{{- if $root.Values.view.enabled }}
otlp_grpc/view:
  endpoint: {{ include "otelcol-gpu.fullname" $root }}-view.{{ $root.Release.Namespace }}.svc:4317
  {{- include "otelcol-gpu.config.clientTLS" $root | nindent 2 }}
  compression: gzip
  sending_queue: {num_consumers: 1}
  # The page shows the last hours, so data for it does not have to be kept for long.
  retry_on_failure: {max_elapsed_time: 1m}
{{- end }}
{{- end }}

{{/* The page that Prometheus scrapes. The argument is a list of root and component. */}}
{{- define "otelcol-gpu.config.prometheus" -}}
{{- $v := (index . 0).Values }}
{{- $interval := ternary ($v.gpu_cluster).collection_interval ($v.gpu_window).window (eq (index . 1) "cluster") }}
{{- $seconds := include "otelcol-gpu.seconds" $interval | default 60 }}
{{- /* The node and workload attributes become labels. Without them, a device and its containers would have the
same series. The series expire after two and a half windows. A removed device then disappears from the page, but
a device whose window is late does not. */}}
{{- $base := dict "endpoint" (printf "[${env:POD_IP}]:%d" (int $v.prometheus.port))
  "resource_constant_labels" (dict "included" (list "k8s.*" "host.*" "container.*" "hpc.*"))
  "metric_expiration" (printf "%.0fs" (mulf 2.5 $seconds)) }}
{{- include "otelcol-gpu.merged" (list (toYaml $base) (omit $v.prometheus "enabled" "port")) }}
{{- end }}

{{- define "otelcol-gpu.exporterNames" -}}
{{- $names := list }}
{{- if .Values.backend.endpoint }}
{{- $names = append $names (include "otelcol-gpu.backendType" .) }}
{{- end }}
{{- if .Values.prometheus.enabled }}
{{- $names = append $names "prometheus" }}
{{- end }}
{{- if .Values.view.enabled }}
{{- $names = append $names "otlp_grpc/view" }}
{{- end }}
{{- join ", " $names }}
{{- end }}

{{/* The URL for log records, or empty for the collector's own log. */}}
{{- define "otelcol-gpu.eventsEndpoint" -}}
{{- if ne .Values.backend.logsEndpoint "none" }}
{{- .Values.backend.logsEndpoint | default .Values.backend.endpoint }}
{{- end }}
{{- end }}

{{/* The exporter of log records. */}}
{{- define "otelcol-gpu.config.eventsExporter" -}}
{{- $endpoint := include "otelcol-gpu.eventsEndpoint" . }}
{{- if not $endpoint }}
debug/events: {verbosity: normal}
{{- else }}
{{- $base := dict "endpoint" $endpoint "compression" "gzip" "sending_queue" (dict "storage" "file_storage" "num_consumers" 1) }}
{{- with .Values.backend.headers }}
{{- $_ := set $base "headers" . }}
{{- end }}
{{ include "otelcol-gpu.backendType" . }}/events:
  {{- include "otelcol-gpu.merged" (list (toYaml $base) (omit .Values.backend "endpoint" "headers" "protocol" "logsEndpoint")) | nindent 2 }}
{{- end }}
{{- end }}

{{/* gpu_k8s with the sections that exist in the values. */}}
{{- define "otelcol-gpu.config.gpuK8s" -}}
{{- $v := .Values }}
{{- $base := dict }}
{{- if kindIs "map" $v.gpu_k8s.budget }}
{{- $_ := set $base "budget" (dict "sources" (dict "dra" (dict "enabled" ($v.gpu_k8s.claims | default false)))) }}
{{- end }}
{{- if and $v.agent.prices.configMap (kindIs "map" $v.gpu_k8s.usage) }}
{{- $_ := set $base "usage" (dict "prices" (dict "file" (printf "/etc/otelcol-gpu-prices/%s" $v.agent.prices.key))) }}
{{- end }}
{{- if or (kindIs "map" $v.gpu_k8s.power) (kindIs "map" $v.gpu_k8s.usage) }}
{{- $_ := set $base "storage" "file_storage" }}
{{- end }}
{{- include "otelcol-gpu.merged" (list (toYaml $base) (omit $v.gpu_k8s "enabled")) }}
{{- end }}

{{/* The stages that run inside the agent's receiver. */}}
{{- define "otelcol-gpu.config.agentStages" -}}
{{- $v := .Values }}
gpu_synthesizer:
  {{- $base := dict "cluster_name" $v.clusterName "storage" "file_storage" "max_devices" 2000 }}
  {{- include "otelcol-gpu.merged" (list (toYaml $base) $v.gpu_synthesizer) | nindent 2 }}
{{- if $v.gpu_k8s.enabled }}
gpu_k8s:
  {{- include "otelcol-gpu.config.gpuK8s" . | nindent 2 }}
{{- end }}
{{- if $v.gpu_findings.enabled }}
gpu_findings:
  {{- include "otelcol-gpu.merged" (list "" (omit $v.gpu_findings "enabled")) | nindent 2 }}
{{- end }}
{{- if $v.gpu_events.enabled }}
gpu_events:
  {{- include "otelcol-gpu.merged" (list "storage: file_storage" (omit $v.gpu_events "enabled")) | nindent 2 }}
{{- end }}
{{- if eq (include "otelcol-gpu.windowsIn" .) "receiver" }}
{{ include "otelcol-gpu.config.agentWindow" . }}
{{- end }}
{{- end }}

{{/* Where the agent computes windows: in its receiver, or in a processor if the watchdog needs the samples, or
nowhere if gateways compute them. */}}
{{- define "otelcol-gpu.windowsIn" -}}
{{- if .Values.gateway.enabled -}}
nowhere
{{- else if .Values.gpu_watchdog.enabled -}}
processor
{{- else -}}
receiver
{{- end }}
{{- end }}

{{- define "otelcol-gpu.config.agentWindow" -}}
gpu_window:
  {{- $base := merge (dict "storage" "file_storage") (fromYaml (include "otelcol-gpu.config.windowForBackend" .)) }}
  {{- include "otelcol-gpu.merged" (list (toYaml $base) .Values.gpu_window) | nindent 2 }}
{{- end }}

{{/* Reads the exporter on the node, and sends windows, or samples for the gateway. */}}
{{- define "otelcol-gpu.config.agent" -}}
{{- $v := .Values }}
{{- $receiver := ternary "dcgm" "nvml" $v.dcgm.enabled }}
{{- $exporters := ternary "load_balancing" (include "otelcol-gpu.exporterNames" .) $v.gateway.enabled }}
{{- $stages := fromYaml (include "otelcol-gpu.config.agentStages" .) }}
extensions:
  {{- include "otelcol-gpu.config.extensions" . | nindent 2 }}
  # Open windows and the sending queue survive a restart.
  {{- include "otelcol-gpu.config.fileStorage" . | nindent 2 }}
receivers:
  {{ $receiver }}:
    {{- /* The processors run inside the receiver, without converting to pdata in between. */}}
    {{- $base := dict "stages" $stages }}
    {{- if and $v.dcgm.enabled $v.nvml.enabled }}
    {{- $_ := set $base "nvml" (fromYaml (include "otelcol-gpu.config.nvml" .)) }}
    {{- end }}
    {{- if $v.dcgm.enabled }}
    {{- include "otelcol-gpu.merged" (list (toYaml $base) (omit $v.dcgm "enabled")) | nindent 4 }}
    {{- else }}
    {{- include "otelcol-gpu.overlay" (list $base (fromYaml (include "otelcol-gpu.config.nvml" .))) }}
    {{- toYaml $base | nindent 4 }}
    {{- end }}
{{- $window := eq (include "otelcol-gpu.windowsIn" .) "processor" }}
{{- if $window }}
processors:
  {{- include "otelcol-gpu.config.agentWindow" . | nindent 2 }}
{{- end }}
exporters:
  {{- if $v.gateway.enabled }}
  # Route by node, so that all samples of a device are in the same window. Use names instead of
  # addresses, so that a restarted gateway keeps its nodes.
  load_balancing:
    routing_key: attributes
    routing_attributes: [k8s.node.name]
    resolver:
      static:
        hostnames:
          {{- range $i := until (sub (int $v.gateway.replicas) (int $v.gateway.draining) | int) }}
          {{- $name := printf "%s-gateway" (include "otelcol-gpu.fullname" $) }}
          - {{ $name }}-{{ $i }}.{{ $name }}.{{ $.Release.Namespace }}.svc:4317
          {{- end }}
    protocol:
      otlp:
        {{- include "otelcol-gpu.config.clientTLS" . | nindent 8 }}
        compression: gzip
        # One sender per gateway, because a node's samples must stay in order.
        sending_queue: {num_consumers: 1}
        # Samples that arrive after the grace period are late; the gateway counts them.
        retry_on_failure: {initial_interval: 1s, max_interval: 1s, max_elapsed_time: {{ $v.gateway.grace }}}
  {{- else }}
  {{- include "otelcol-gpu.config.exporters" (list . "agent" 500000 "1h") | nindent 2 }}
  {{- end }}
  {{- if $v.gpu_events.enabled }}
  {{- include "otelcol-gpu.config.eventsExporter" . | nindent 2 }}
  {{- end }}
  {{- if $v.gpu_watchdog.enabled }}
  gpu_watchdog:
    {{- /* Each agent watches the devices on its own node, so no election is needed. All agents use the same record. */}}
    {{- $record := dict "enabled" true "name" (printf "%s-watchdog" (include "otelcol-gpu.fullname" .)) }}
    {{- $election := dict "enabled" false }}
    {{- if eq (toString ($v.gpu_watchdog.leader_election).enabled) "true" }}
    {{- $_ := set $election "name" (printf "%s-watchdog-election" (include "otelcol-gpu.fullname" .)) }}
    {{- end }}
    {{- $base := dict "storage" "file_storage" "leader_election" $election "shared_record" $record }}
    {{- with ((($v.gpu_k8s.budget).sources).annotation).key }}
    {{- $_ := set $base "budgets" (dict "annotation" .) }}
    {{- end }}
    {{- include "otelcol-gpu.merged" (list (toYaml $base) (omit $v.gpu_watchdog "enabled")) | nindent 4 }}
  {{- end }}
service:
  extensions: [health_check, file_storage]
  pipelines:
    metrics:
      receivers: [{{ $receiver }}]
      {{- if $window }}
      processors: [gpu_window]
      {{- end }}
      exporters: [{{ $exporters }}]
    {{- if $v.gpu_watchdog.enabled }}
    # The watchdog uses samples, and backends get windows.
    metrics/watchdog:
      receivers: [{{ $receiver }}]
      exporters: [gpu_watchdog]
    {{- end }}
    {{- if $v.gpu_events.enabled }}
    logs:
      receivers: [{{ $receiver }}]
      exporters: [{{ ternary "debug" (include "otelcol-gpu.backendType" .) (empty (include "otelcol-gpu.eventsEndpoint" .)) }}/events]
    {{- end }}
  telemetry:
    {{- include "otelcol-gpu.config.telemetry" . | nindent 4 }}
{{- end }}

{{/* The settings of NVML. With an exporter on the node, it is a section of dcgm and only reads processes. */}}
{{- define "otelcol-gpu.config.nvml" -}}
{{- include "otelcol-gpu.merged" (list (toYaml (dict "cluster_name" .Values.clusterName)) (omit .Values.nvml "enabled" "runtimeClassName")) }}
{{- end }}

{{/* The agent's configuration for simulated nodes. The exporters are in the same pod, and their labels name the holders. */}}
{{- define "otelcol-gpu.config.simulator" -}}
{{- $endpoints := list }}
{{- range $i := until (int .Values.simulator.nodes) }}
{{- $endpoints = append $endpoints (printf "http://127.0.0.1:9400/node/%d/metrics" $i) }}
{{- end }}
{{- /* A simulated node has at most 64 devices, 8 jobs and 5000 series. The other limits fit 1000 nodes. */}}
{{- $nodes := int .Values.simulator.nodes }}
{{- $values := dict
  "gpu_synthesizer" (dict "max_devices" (max 2000 (mul 64 $nodes)))
  "gpu_k8s" (dict "max_jobs" (max 1000 (mul 8 $nodes)))
  "gpu_window" (dict "max_series" (max 2000000 (mul 5000 $nodes))) }}
{{- include "otelcol-gpu.overlay" (list $values (deepCopy .Values)) }}
{{- include "otelcol-gpu.overlay" (list $values (dict
  "clusterName" (.Values.clusterName | default "simulated")
  "agent" (dict "prices" (dict "configMap" ""))
  "nvml" (dict "enabled" false)
  "dcgm" (dict "enabled" true "endpoints" $endpoints "discovery" nil)
  "gpu_k8s" (dict "claims" false "budget" nil "kubernetes" (dict "auth_type" "none") "sources" (dict
    "pod_resources" (dict "enabled" false) "dra" (dict "enabled" false)))
  "gpu_events" (dict "enabled" false) "gpu_watchdog" (dict "enabled" false) "gateway" (dict "enabled" false))) }}
{{- include "otelcol-gpu.config.agent" (dict "Values" $values "Release" .Release "Chart" .Chart "Capabilities" .Capabilities "Template" .Template "Files" .Files) }}
{{- end }}

{{/* Reports pending pods, and the capacity of nodes and DRA drivers. */}}
{{- define "otelcol-gpu.config.cluster" -}}
extensions:
  {{- include "otelcol-gpu.config.extensions" . | nindent 2 }}
  {{- if .Values.gpu_memory_resource.enabled }}
  # Every replica runs it, with the same result.
  gpu_memory_resource:
    {{- toYaml (omit .Values.gpu_memory_resource "enabled") | nindent 4 }}
  {{- end }}
receivers:
  gpu_cluster:
    {{- $base := dict "cluster_name" .Values.clusterName
      "leader_election" (dict "name" (printf "%s-cluster" (include "otelcol-gpu.fullname" .))) }}
    {{- if include "otelcol-gpu.flatAttributes" . }}
    {{- $_ := set $base "flat_attributes" true }}
    {{- end }}
    {{- include "otelcol-gpu.merged" (list (toYaml $base) .Values.gpu_cluster) | nindent 4 }}
processors:
  {{- include "otelcol-gpu.config.memoryLimiter" . | nindent 2 }}
exporters:
  # Points describe the current state, so points that are several minutes old are dropped.
  {{- include "otelcol-gpu.config.exporters" (list . "cluster" 0 "5m") | nindent 2 }}
service:
  extensions: [health_check{{ if .Values.gpu_memory_resource.enabled }}, gpu_memory_resource{{ end }}]
  pipelines:
    metrics:
      receivers: [gpu_cluster]
      processors: [memory_limiter]
      exporters: [{{ include "otelcol-gpu.exporterNames" . }}]
  telemetry:
    {{- include "otelcol-gpu.config.telemetry" . | nindent 4 }}
{{- end }}

{{/* Receives samples of the nodes that are routed to it, and sends windows. */}}
{{- define "otelcol-gpu.config.gateway" -}}
extensions:
  {{- include "otelcol-gpu.config.extensions" . | nindent 2 }}
  {{- include "otelcol-gpu.config.fileStorage" . | nindent 2 }}
receivers:
  {{- include "otelcol-gpu.config.otlpReceiver" . | nindent 2 }}
processors:
  {{- include "otelcol-gpu.config.memoryLimiter" . | nindent 2 }}
  gpu_window:
    {{- /* The nodes of a gateway may move to another gateway and back. */}}
    {{- $base := merge (dict "storage" "file_storage" "tier" true "max_series" 1000000)
      (fromYaml (include "otelcol-gpu.config.windowForBackend" .)) }}
    {{- include "otelcol-gpu.overlay" (list $base .Values.gpu_window) }}
    {{- $_ := set $base "grace" .Values.gateway.grace }}
    {{- toYaml $base | nindent 4 }}
exporters:
  # Enough for half an hour of 80 nodes with unpartitioned GPUs. It needs 1.2 GB of the volume.
  {{- include "otelcol-gpu.config.exporters" (list . "gateway" 4000000 "1h") | nindent 2 }}
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

{{/* Receives windows of all nodes and serves a page. */}}
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
    {{- include "otelcol-gpu.merged" (list (toYaml $base) .Values.gpu_view) | nindent 4 }}
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
{{- $config := include "otelcol-gpu.merged" (list (include (printf "otelcol-gpu.config.%s" $name) $root) (index $root.Values $name).config) }}
{{- include "otelcol-gpu.checkPipelines" (list $root $name (fromYaml $config)) }}
{{- $config }}
{{- end }}

{{/* The program of a collector, or empty for the image's default. On a node this is the agent form, which needs
less memory, if it contains all configured components. */}}
{{- define "otelcol-gpu.command" -}}
{{- $root := index . 0 }}
{{- $command := "" }}
{{- if eq (index . 1) "agent" }}
{{- $command = "/otelcol-gpu-agent" }}
{{- $config := include "otelcol-gpu.config" . | fromYaml }}
{{- range $kind, $types := dict
  "receivers" (list "dcgm" "nvml")
  "processors" (list "gpu_synthesizer" "gpu_k8s" "gpu_window" "memory_limiter")
  "exporters" (list "gpu_view" "debug" "otlp_grpc" "otlp_http" "file" "prometheus")
  "connectors" (list "gpu_events")
  "extensions" (list "health_check" "file_storage") }}
{{- range $id, $_ := index $config $kind }}
{{- if not (has (index (splitList "/" $id) 0) $types) }}
{{- $command = "" }}
{{- end }}
{{- end }}
{{- end }}
{{- $command = $root.Values.agent.command | default $command }}
{{- end }}
{{- $command }}
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
