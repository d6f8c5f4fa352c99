{{/* Checks of the values. Each error is one line that says what to change. */}}

{{/* Values that contradict each other. Runs before any object is rendered. */}}
{{- define "otelcol-gpu.check" -}}
{{- include "otelcol-gpu.checkNames" . }}
{{- $v := .Values }}
{{- if not (or $v.backend.endpoint $v.prometheus.enabled $v.view.enabled) }}
{{- fail "backend.endpoint is empty, prometheus.enabled and view.enabled are false: no data would be sent or shown; set backend.endpoint to an OTLP URL such as http://otel-gateway.monitoring:4318, or set one of the others to true" }}
{{- end }}
{{- if not (or $v.dcgm.enabled $v.nvml.enabled) }}
{{- fail "dcgm.enabled and nvml.enabled are false: no GPU would be read; set one of them to true" }}
{{- end }}
{{- if and $v.agent.prices.configMap (not (kindIs "map" $v.gpu_k8s.usage)) }}
{{- fail (printf "agent.prices.configMap is %q and gpu_k8s.usage is not set: the prices would not be used; set gpu_k8s.usage to {}" $v.agent.prices.configMap) }}
{{- end }}
{{- if and $v.gpu_events.kubernetes_events (not $v.gpu_events.enabled) }}
{{- fail "gpu_events.kubernetes_events is set and gpu_events.enabled is false: no Event would be written; set gpu_events.enabled to true" }}
{{- end }}
{{- if and $v.gpu_events.enabled (not $v.backend.logsEndpoint) (not $v.backend.endpoint) (not (include "otelcol-gpu.writesEvents" .)) }}
{{- fail "gpu_events.enabled is true and backend.logsEndpoint and backend.endpoint are empty: log records would not be sent; set backend.logsEndpoint to an OTLP URL such as http://otel-gateway.monitoring:4318, or to none for the collector's own log" }}
{{- end }}
{{- if and (kindIs "map" $v.gpu_k8s.usage) (not $v.gpu_k8s.enabled) }}
{{- fail "gpu_k8s.usage is set and gpu_k8s.enabled is false: no usage would be counted; set gpu_k8s.enabled to true" }}
{{- end }}
{{- if and $v.gpu_watchdog.enabled (not (and $v.gpu_k8s.enabled (kindIs "map" $v.gpu_k8s.budget))) }}
{{- fail "gpu_watchdog.enabled is true and gpu_k8s reports no budgets: the watchdog acts only on budgets; set gpu_k8s.budget to {}" }}
{{- end }}
{{- if and (include "otelcol-gpu.watchdogActs" .) (not $v.gpu_watchdog.namespaces) }}
{{- fail "gpu_watchdog.dry_run is false and gpu_watchdog.namespaces is empty: no pod could be evicted; list the namespaces whose pods it may evict" }}
{{- end }}
{{- if and $v.gpu_memory_resource.enabled (not $v.cluster.enabled) }}
{{- fail "gpu_memory_resource.enabled is true and cluster.enabled is false: the cluster collector advertises the resource; set cluster.enabled to true" }}
{{- end }}
{{- if and $v.gpu_memory_resource.enabled (not $v.gpu_memory_resource.resource) (not (hasKey $v.gpu_memory_resource "shared")) }}
{{- fail "gpu_memory_resource.enabled is true and gpu_memory_resource.resource is empty: set it to a name in your own domain, such as example.com/gpumem, or set shared" }}
{{- end }}
{{- include "otelcol-gpu.checkAdmission" . }}
{{- include "otelcol-gpu.checkEndpoints" . }}
{{- include "otelcol-gpu.checkSecrets" . }}
{{- include "otelcol-gpu.checkPorts" . }}
{{- include "otelcol-gpu.checkTLS" . }}
{{- include "otelcol-gpu.checkFiles" . }}
{{- include "otelcol-gpu.checkMemory" . }}
{{- include "otelcol-gpu.checkSimulator" . }}
{{- include "otelcol-gpu.checkLimits" . }}
{{- include "otelcol-gpu.checkGateway" . }}
{{- $account := include "otelcol-gpu.serviceAccount" (list . "agent") }}
{{- if and $v.cluster.enabled (eq $account (include "otelcol-gpu.serviceAccount" (list . "cluster"))) }}
{{- fail (printf "agent.serviceAccount and cluster.serviceAccount are both the account %q: each would have the other's permissions; set agent.serviceAccount.name and cluster.serviceAccount.name to different names" $account) }}
{{- end }}
{{- if and $v.agent.stateHostPath (not (has (toString (dig "rollingUpdate" "maxSurge" 0 $v.agent.updateStrategy)) (list "0" "0%"))) }}
{{- fail "agent.updateStrategy sets maxSurge and agent.stateHostPath is set: two agents on a node cannot open the same state, so the new agent would never be ready; use maxUnavailable" }}
{{- end }}
{{- if and $v.gpu_k8s.enabled $v.gpu_k8s.claims (not (include "otelcol-gpu.readsSlices" .)) }}
{{- fail "gpu_k8s.claims is true and gpu_k8s.sources.dra.enabled is false: claims refer to devices in ResourceSlices; set gpu_k8s.sources.dra.enabled to true" }}
{{- end }}
{{- end }}

{{/* Webhooks that the API server could not call. */}}
{{- define "otelcol-gpu.checkAdmission" -}}
{{- $v := .Values.admission }}
{{- if $v.enabled }}
{{- if and $v.certManager.enabled (or $v.secretName $v.caBundle) }}
{{- fail "admission.certManager.enabled is true and admission.secretName or caBundle is set: remove one of them" }}
{{- end }}
{{- if not (or $v.certManager.enabled (and $v.secretName $v.caBundle)) }}
{{- fail "admission.enabled is true and the webhooks have no certificate: set admission.certManager.enabled, or admission.secretName and caBundle" }}
{{- end }}
{{- range list "endpoint" "transport" "tls" }}
{{- if hasKey ($.Values.gpu_share_admission | default dict) . }}
{{- fail (printf "gpu_share_admission.%s is %s: must not be set, because the chart sets the webhooks' address and certificate" . (toJson (get $.Values.gpu_share_admission .))) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Endpoints to which an OTLP exporter could not send. */}}
{{- define "otelcol-gpu.checkEndpoints" -}}
{{- $grpc := eq .Values.backend.protocol "grpc" }}
{{- range $name, $endpoint := dict "backend.endpoint" .Values.backend.endpoint "backend.logsEndpoint" .Values.backend.logsEndpoint }}
{{- if and $endpoint (ne $endpoint "none") (not (hasPrefix "${" $endpoint)) }}
{{- if and (not $grpc) (not (regexMatch "^https?://[^/[:space:]]+(/[^[:space:]]*)?$" $endpoint)) }}
{{- fail (printf "%s is %q and backend.protocol is http: it must be a URL such as http://otel-gateway.monitoring:4318; for host:port set backend.protocol to grpc" $name $endpoint) }}
{{- end }}
{{- if and (not $grpc) (regexMatch "/v1/(metrics|logs)/?$" $endpoint) }}
{{- fail (printf "%s is %q: leave out /v1/metrics or /v1/logs, which the exporter adds" $name $endpoint) }}
{{- end }}
{{- if and $grpc (not (regexMatch "^(https?://|dns:///?)?[^/[:space:]]+:[0-9]+$" $endpoint)) }}
{{- fail (printf "%s is %q and backend.protocol is grpc: it must be host:port such as otel-gateway.monitoring:4317; for a URL with a path set backend.protocol to http" $name $endpoint) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Secrets in the values. The configuration is stored in a ConfigMap, which more people can read than a Secret. */}}
{{- define "otelcol-gpu.checkSecrets" -}}
{{- $v := .Values }}
{{- range $where, $headers := dict "backend.headers" $v.backend.headers "dcgm.http.headers" ($v.dcgm.http).headers }}
{{- if kindIs "map" $headers }}
{{- range $name, $value := $headers }}
{{- if and (regexMatch "(?i)(auth|api-?key|token|secret|password|license|honeycomb-team)" $name) (not (contains "${" (toString $value))) }}
{{- fail (printf "%s.%s contains a plain value, which would be stored in a ConfigMap: put it into a Secret, add the Secret to extraEnvFrom, [{secretRef: {name: backend}}], and use the variable in the header, \"${env:BACKEND_TOKEN}\"" $where $name) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- range $where, $url := dict "backend.endpoint" $v.backend.endpoint "backend.logsEndpoint" $v.backend.logsEndpoint
  "dcgm.endpoints" (toString ($v.dcgm.endpoints | default "")) }}
{{- if regexMatch "[a-z]+://[^/$ ]*@" $url }}
{{- fail (printf "%s contains a user or password, which would be stored in a ConfigMap: set a header instead, {Authorization: \"Basic ${env:BACKEND_BASIC}\"}, from a Secret in extraEnvFrom" $where) }}
{{- end }}
{{- end }}
{{- end }}

{{/* Two listeners in a pod cannot use the same port, and monitors must match the listener. */}}
{{- define "otelcol-gpu.checkPorts" -}}
{{- if and .Values.prometheus.enabled (has (int .Values.prometheus.port) (list 13133 8888)) }}
{{- fail (printf "prometheus.port is %d, which the collectors use for probes or their own metrics: use another port, such as 9464" (int .Values.prometheus.port)) }}
{{- end }}
{{- if and .Values.prometheus.enabled .Values.gateway.enabled (eq (int .Values.prometheus.port) 4317) }}
{{- fail "prometheus.port is 4317, on which gateways receive samples from agents: use another port, such as 9464" }}
{{- end }}
{{- $monitored := or .Values.monitoring.podMonitor.enabled .Values.monitoring.serviceMonitor.enabled }}
{{- range list "tls" "auth" }}
{{- if and $monitored $.Values.prometheus.enabled (hasKey $.Values.prometheus .) }}
{{- fail (printf "prometheus.%s is set, but this chart's monitors support neither certificates nor passwords: set monitoring.podMonitor.enabled and monitoring.serviceMonitor.enabled to false, and add your own monitor to extraObjects" .) }}
{{- end }}
{{- end }}
{{- if and .Values.monitoring.podMonitor.enabled .Values.monitoring.serviceMonitor.enabled }}
{{- fail "monitoring.podMonitor.enabled and monitoring.serviceMonitor.enabled are true: each series would be scraped twice; set one of them to false" }}
{{- end }}
{{- end }}

{{/* Listeners that accept everyone on the network. The values must explicitly allow that. */}}
{{- define "otelcol-gpu.checkTLS" -}}
{{- $v := .Values }}
{{- $secured := include "otelcol-gpu.tlsSecret" . }}
{{- if and $v.tls.certManager.enabled (not $v.tls.certManager.issuerRef.name) }}
{{- fail "tls.certManager.enabled is true and tls.certManager.issuerRef has no name: set it to the name of an Issuer or ClusterIssuer" }}
{{- end }}
{{- if and $v.tls.insecure $secured }}
{{- fail "tls.insecure is true and a certificate is set: remove one of them" }}
{{- end }}
{{- if not (or $secured $v.tls.insecure) }}
{{- if $v.gateway.enabled }}
{{- fail "gateway.enabled is true and TLS is not configured: set tls.secretName or tls.certManager.enabled, or set tls.insecure to true" }}
{{- end }}
{{- if and $v.view.enabled (not $v.networkPolicy.enabled) }}
{{- fail "view.enabled is true, networkPolicy.enabled is false and TLS is not configured: anyone could send data to the page; set networkPolicy.enabled to true, tls.secretName or tls.certManager.enabled, or tls.insecure to true" }}
{{- end }}
{{- end }}
{{- range list "endpoint" "transport" "tls" }}
{{- if and $v.view.enabled (hasKey ($v.gpu_view | default dict) .) }}
{{- fail (printf "gpu_view.%s is %s: must not be set, because the chart sets the page's address and certificate; use view.expose, tls.secretName or tls.certManager, and gpu_view.auth" . (toJson (get $v.gpu_view .))) }}
{{- end }}
{{- end }}
{{- if and $v.view.enabled $v.view.expose (not ($v.gpu_view).auth) (not $v.view.anonymous) }}
{{- fail "view.expose is true and gpu_view.auth is not set: anyone who can reach the Service could read everything; set gpu_view.auth, or view.anonymous to true" }}
{{- end }}
{{- end }}

{{/* Files for TLS to the backend must be in the image or in a mounted volume. If their Secret or ConfigMap
already exists, it must contain the keys. */}}
{{- define "otelcol-gpu.checkFiles" -}}
{{- $v := .Values }}
{{- with $v.backend.tls }}
{{- if ne (empty .cert_file) (empty .key_file) }}
{{- fail (printf "backend.tls sets only %s: a client certificate needs both cert_file and key_file" (ternary "key_file" "cert_file" (empty .cert_file))) }}
{{- end }}
{{- end }}
{{- $mounts := concat $v.extraVolumeMounts (ternary (list) $v.agent.extraVolumeMounts $v.gateway.enabled) }}
{{- range $key, $file := $v.backend.tls | default dict }}
{{- if and (has $key (list "ca_file" "cert_file" "key_file")) $file (not (regexMatch "^(/etc/ssl/|/etc/otelcol-gpu-tls/|\\$\\{)" $file)) }}
{{- $found := dict }}
{{- range $mount := $mounts }}
{{- $dir := printf "%s/" (trimSuffix "/" .mountPath) }}
{{- if or (eq $file .mountPath) (hasPrefix $dir $file) }}
{{- $_ := set $found "here" true }}
{{- range $volume := concat $v.extraVolumes $v.agent.extraVolumes }}
{{- if and (eq .name $mount.name) (not $mount.subPath) }}
{{- range $kind, $source := dict "Secret" (.secret | default dict) "ConfigMap" (.configMap | default dict) }}
{{- $name := .secretName | default .name }}
{{- if and $name (not .items) }}
{{- with lookup "v1" $kind $.Release.Namespace $name }}
{{- $has := merge (dict) (.data | default dict) (.binaryData | default dict) }}
{{- if not (hasKey $has (trimPrefix $dir $file)) }}
{{- fail (printf "backend.tls.%s is %q and the %s %s, which is mounted there, has no key %s: use one of its keys: %s" $key $file $kind $name (trimPrefix $dir $file) (keys $has | sortAlpha | join ", ")) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- if not $found.here }}
{{- fail (printf "backend.tls.%s is %q and no volume is mounted there: add its Secret or ConfigMap to extraVolumes, and its mount path to extraVolumeMounts" $key $file) }}
{{- end }}
{{- end }}
{{- end }}
{{- if and $v.tls.secretName (or $v.gateway.enabled $v.view.enabled) }}
{{- with lookup "v1" "Secret" .Release.Namespace $v.tls.secretName }}
{{- $data := .data | default dict }}
{{- range list "tls.crt" "tls.key" "ca.crt" }}
{{- if not (hasKey $data .) }}
{{- fail (printf "tls.secretName is %q, a Secret without %s: it must have tls.crt, tls.key and ca.crt" $v.tls.secretName .) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* The chart computes GOMEMLIMIT from the memory limit, so it must be able to parse it. */}}
{{- define "otelcol-gpu.checkMemory" -}}
{{- range $section := list "agent" "cluster" "gateway" "view" "simulator" "admission" }}
{{- $limit := dig "limits" "memory" nil ((index $.Values $section).resources | default dict) }}
{{- if and (not (kindIs "invalid" $limit)) (not (regexMatch "^[1-9][0-9]*[MG]i$" (toString $limit))) }}
{{- fail (printf "%s.resources.limits.memory is %s: must be none, or a whole number of Mi or Gi such as 512Mi, because GOMEMLIMIT is computed from it" $section (toJson $limit)) }}
{{- end }}
{{- end }}
{{- end }}

{{/* The collector skips scrapes while its heap is above 64% of its memory limit, which is 80% of GOMEMLIMIT. A
node's series depend on the scenario. A series needs 5 KB. */}}
{{- define "otelcol-gpu.checkSimulator" -}}
{{- with .Values.simulator }}
{{- $goal := include "otelcol-gpu.gomemlimit" . }}
{{- if and .enabled $goal }}
{{- $each := get (dict "mig-7x1g" 34 "time-sliced" 17) .scenario | default 12 }}
{{- $needed := add 64 (mul $each (int .nodes)) }}
{{- if lt (div (mul (trimSuffix "MiB" $goal | int) 5) 4) $needed }}
{{- fail (printf "simulator.nodes is %d and simulator.resources.limits.memory is %s: scrapes would be skipped; with this scenario, set simulator.resources.limits.memory to at least %dMi, or reduce simulator.nodes" (int .nodes) .resources.limits.memory $needed) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Settings with which a collector would not start, or would have no observed time. The collector checks
values that the chart cannot resolve, such as ${env:WINDOW}. */}}
{{- define "otelcol-gpu.checkLimits" -}}
{{- $v := .Values }}
{{- $limits := list (list "gpu_window" "window" "1s" "24h") (list "gpu_window" "max_gap" "100ms" "") }}
{{- if $v.dcgm.enabled }}
{{- $limits = concat $limits (list (list "dcgm" "collection_interval" "10ms" "") (list "dcgm" "timeout" "1ms" "")) }}
{{- end }}
{{- if $v.nvml.enabled }}
{{- $limits = append $limits (list "nvml" "collection_interval" "1s" "") }}
{{- end }}
{{- if $v.cluster.enabled }}
{{- $limits = append $limits (list "gpu_cluster" "collection_interval" "1s" "") }}
{{- end }}
{{- if $v.view.enabled }}
{{- $limits = append $limits (list "gpu_view" "retention" "1m" "168h") }}
{{- end }}
{{- range $limit := $limits }}
{{- $value := get (get $v (index $limit 0) | default dict) (index $limit 1) }}
{{- $seconds := include "otelcol-gpu.seconds" $value }}
{{- $least := index $limit 2 }}
{{- $most := index $limit 3 }}
{{- if $seconds }}
{{- if or (lt (float64 $seconds) (float64 (include "otelcol-gpu.seconds" $least))) (and $most (gt (float64 $seconds) (float64 (include "otelcol-gpu.seconds" $most)))) }}
{{- fail (printf "%s.%s is %q: must be %s" (index $limit 0) (index $limit 1) $value (ternary (printf "between %s and %s" $least $most) (printf "at least %s" $least) (ne $most ""))) }}
{{- end }}
{{- end }}
{{- end }}
{{- $usage := dig "usage" dict ($v.gpu_k8s | default dict) | default dict }}
{{- range list (list "gpu_window" ($v.gpu_window | default dict)) (list "gpu_k8s.usage" (ternary $usage dict (kindIs "map" $usage))) }}
{{- $section := index . 1 }}
{{- $idle := include "otelcol-gpu.seconds" (get $section "idle_timeout") }}
{{- $gap := get $section "max_gap" | default "90s" }}
{{- if and $idle (include "otelcol-gpu.seconds" $gap) (lt (float64 $idle) (float64 (include "otelcol-gpu.seconds" $gap))) }}
{{- fail (printf "%s.idle_timeout is %q: must be at least max_gap, %s, because a series that ends restarts its counters" (index . 0) (get $section "idle_timeout") $gap) }}
{{- end }}
{{- end }}
{{- $threshold := ($v.gpu_window).memory_pressure_threshold }}
{{- if and (or (kindIs "float64" $threshold) (kindIs "int64" $threshold)) (or (le (float64 $threshold) 0.0) (gt (float64 $threshold) 1.0)) }}
{{- fail (printf "gpu_window.memory_pressure_threshold is %v: must be above 0 and at most 1" $threshold) }}
{{- end }}
{{- range $i, $endpoint := ternary $v.dcgm.endpoints list (kindIs "slice" $v.dcgm.endpoints) }}
{{- if not (regexMatch "^https?://[^/[:space:]]|\\$\\{" (toString $endpoint)) }}
{{- fail (printf "dcgm.endpoints[%d] is %q: must be a URL such as http://localhost:9400/metrics" $i (toString $endpoint)) }}
{{- end }}
{{- end }}
{{- end }}

{{/* Settings that would leave agents without a gateway, or with which gateways would not start. */}}
{{- define "otelcol-gpu.checkGateway" -}}
{{- $v := .Values }}
{{- if $v.gateway.enabled }}
{{- if not $v.gateway.replicas }}
{{- fail "gateway.replicas is null: must be a whole number, at least 1, because agents compute the gateways' addresses from it" }}
{{- end }}
{{- if ge (int $v.gateway.draining) (int $v.gateway.replicas) }}
{{- fail (printf "gateway.draining is %d: must be less than gateway.replicas, which is %d, so that agents have a gateway to send to" (int $v.gateway.draining) (int $v.gateway.replicas)) }}
{{- end }}
{{- $grace := include "otelcol-gpu.seconds" $v.gateway.grace }}
{{- if or (not $grace) (lt (float64 $grace) 45.0) }}
{{- fail (printf "gateway.grace is %s: must be at least 45s, because an agent resolves a changed address 30 s after it lost the old one" (toJson $v.gateway.grace)) }}
{{- end }}
{{- $window := include "otelcol-gpu.seconds" ($v.gpu_window).window }}
{{- if and $window (gt (float64 $grace) (mulf 10 $window)) }}
{{- fail (printf "gateway.grace is %q and gpu_window.window is %q: must be at most ten times the window" $v.gateway.grace ($v.gpu_window).window) }}
{{- end }}
{{- end }}
{{- end }}
