{{/* Pods: all collectors run alike but for what they mount, ask for and listen on. */}}

{{/* 80% of the memory limit, so that the collector frees memory before it is ended; empty where the
limit is none. Of a component's values. */}}
{{- define "otelcol-gpu.gomemlimit" -}}
{{- $limit := toString (dig "limits" "memory" "" (.resources | default dict)) }}
{{- if regexMatch "^[0-9]+Mi$" $limit }}
{{- div (mul (trimSuffix "Mi" $limit | int) 4) 5 }}MiB
{{- else if regexMatch "^[0-9]+Gi$" $limit }}
{{- div (mul (trimSuffix "Gi" $limit | int) 4096) 5 }}MiB
{{- end }}
{{- end }}

{{- define "otelcol-gpu.asksKubelet" -}}
{{- if and .Values.gpu_k8s.enabled (ne (((.Values.gpu_k8s.sources).pod_resources).enabled | toString) "false") }}true{{ end }}
{{- end }}

{{/* Whether a collector has the page for Prometheus: a list of root and component. */}}
{{- define "otelcol-gpu.hasMetricsPort" -}}
{{- $v := (index . 0).Values }}
{{- $windows := ternary "gateway" "agent" $v.gateway.enabled }}
{{- if and $v.prometheus.enabled (has (index . 1) (list $windows "cluster" "simulator")) }}true{{ end }}
{{- end }}

{{/* Whether the agent is root: the kubelet's socket is root's and nobody else can open it, and so
is a new directory of the host. */}}
{{- define "otelcol-gpu.agentIsRoot" -}}
{{- if or .Values.agent.stateHostPath (include "otelcol-gpu.asksKubelet" .) }}true{{ end }}
{{- end }}

{{/* Whether the agent needs what Pod Security admits at its level privileged only. */}}
{{- define "otelcol-gpu.agentNeedsHost" -}}
{{- if or (include "otelcol-gpu.agentIsRoot" .) .Values.nvml.enabled }}true{{ end }}
{{- end }}

{{/* The image of a collector: a list of root and component. A digest names one image, so the form with
NVML cannot be derived from it. */}}
{{- define "otelcol-gpu.image" -}}
{{- $root := index . 0 }}
{{- $image := $root.Values.image }}
{{- with $image.registry }}{{ . }}/{{ end }}
{{- $image.repository }}
{{- if $image.digest }}@{{ $image.digest }}
{{- else }}
{{- $tag := $image.tag | default $root.Chart.AppVersion }}
{{- printf ":%s" $tag }}
{{- if and (eq (index . 1) "agent") $root.Values.nvml.enabled (not (contains "@" $tag)) }}-nvml{{ end }}
{{- end }}
{{- end }}

{{/* The security context of a pod that is not root. OpenShift assigns the users. */}}
{{- define "otelcol-gpu.unprivileged" -}}
runAsNonRoot: true
{{- if not .Values.openshift.enabled }}
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
{{- end }}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* The security context of a container. */}}
{{- define "otelcol-gpu.closed" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* Whether the agent runs on a node: a list of nodeSelector, gpuNodeLabels and the node's labels. */}}
{{- define "otelcol-gpu.isGPUNode" -}}
{{- $labels := index . 2 }}
{{- $selected := true }}
{{- range $key, $value := index . 0 }}
{{- if ne (get $labels $key) $value }}{{ $selected = false }}{{ end }}
{{- end }}
{{- $found := not (index . 1) }}
{{- range index . 1 }}
{{- if and (hasKey $labels .key) (or (eq .operator "Exists") (has (get $labels .key) .values)) }}{{ $found = true }}{{ end }}
{{- end }}
{{- if and $selected $found }}true{{ end }}
{{- end }}

{{/* One term for each label of nodes with a GPU: a node needs one of them. The user's affinity is laid
over it. */}}
{{- define "otelcol-gpu.affinity" -}}
{{- $root := index . 0 }}
{{- $v := index $root.Values (index . 1) }}
{{- $affinity := dict }}
{{- if eq (index . 1) "agent" }}
{{- $terms := list }}
{{- range $v.gpuNodeLabels }}
{{- $terms = append $terms (dict "matchExpressions" (list .)) }}
{{- end }}
{{- if $terms }}
{{- $affinity = dict "nodeAffinity" (dict "requiredDuringSchedulingIgnoredDuringExecution" (dict "nodeSelectorTerms" $terms)) }}
{{- end }}
{{- end }}
{{- include "otelcol-gpu.overlay" (list $affinity ($v.affinity | default dict)) }}
{{- with $affinity }}{{ toYaml . }}{{ end }}
{{- end }}

{{/*
A pod template. A dict of root, name (the component), rootUser, serviceAccount and token, and as
YAML texts env, ports, mounts, volumes, lifecycle, further containers, and spec, which is put into the pod's spec.
*/}}
{{- define "otelcol-gpu.podTemplate" -}}
{{- $root := .root }}
{{- $v := index $root.Values .name -}}
metadata:
  labels:
    {{- include "otelcol-gpu.selectorLabels" (list $root .name) | nindent 4 }}
    {{- with merge (dict) ($v.podLabels | default dict) $root.Values.additionalLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    # A changed configuration counts from the next start on, so it makes one.
    checksum/config: {{ include "otelcol-gpu.config" (list $root .name) | sha256sum }}
    {{- with merge (dict) ($v.podAnnotations | default dict) $root.Values.additionalAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  {{- with .serviceAccount }}
  serviceAccountName: {{ . }}
  {{- end }}
  automountServiceAccountToken: {{ .token | default false }}
  {{- with $root.Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .spec }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- with $v.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  nodeSelector:
    {{- merge (dict) ($v.nodeSelector | default dict) (dict "kubernetes.io/os" "linux") | toYaml | nindent 4 }}
  {{- with $v.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with include "otelcol-gpu.affinity" (list $root .name) }}
  affinity:
    {{- . | nindent 4 }}
  {{- end }}
  securityContext:
    {{- $asRoot := "runAsUser: 0\nseccompProfile: {type: RuntimeDefault}" }}
    {{- $user := ternary $asRoot (include "otelcol-gpu.unprivileged" $root) (.rootUser | default false) }}
    {{- include "otelcol-gpu.merged" (list $user $v.podSecurityContext) | nindent 4 }}
  containers:
    - name: otelcol-gpu
      image: {{ include "otelcol-gpu.image" (list $root .name) }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      {{- with include "otelcol-gpu.command" (list $root .name) }}
      command: [{{ . }}]
      {{- end }}
      args: [--config=/etc/otelcol-gpu/{{ .name }}.yaml]
      env:
        - name: POD_IP
          valueFrom: {fieldRef: {fieldPath: status.podIP}}
        {{- with .env }}
        {{- . | nindent 8 }}
        {{- end }}
        {{- with include "otelcol-gpu.gomemlimit" $v }}
        - {name: GOMEMLIMIT, value: {{ . }}}
        {{- end }}
        {{- with $root.Values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with $root.Values.extraEnvFrom }}
      envFrom:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      ports:
        - {name: health, containerPort: 13133}
        - {name: telemetry, containerPort: 8888}
        {{- if include "otelcol-gpu.hasMetricsPort" (list $root .name) }}
        - {name: metrics, containerPort: {{ $root.Values.prometheus.port }}}
        {{- end }}
        {{- with $v.extraPorts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        {{- with .ports }}
        {{- . | nindent 8 }}
        {{- end }}
      livenessProbe:
        httpGet: {path: /, port: health}
        periodSeconds: 15
        failureThreshold: 4
      readinessProbe:
        httpGet: {path: /, port: health}
        periodSeconds: 5
      {{- with .lifecycle }}
      lifecycle:
        {{- . | nindent 8 }}
      {{- end }}
      resources:
        {{- toYaml $v.resources | nindent 8 }}
      securityContext:
        {{- $closed := fromYaml (include "otelcol-gpu.closed" $root) }}
        {{- if and $root.Values.openshift.enabled .rootUser }}
        {{- /* Other types may not open directories of the host. */}}
        {{- $_ := set $closed "seLinuxOptions" (dict "type" "spc_t") }}
        {{- end }}
        {{- include "otelcol-gpu.merged" (list (toYaml $closed) $v.securityContext) | nindent 8 }}
      volumeMounts:
        - {name: config, mountPath: /etc/otelcol-gpu, readOnly: true}
        {{- if include "otelcol-gpu.usesTLS" (list $root .name) }}
        - {name: tls, mountPath: /etc/otelcol-gpu-tls, readOnly: true}
        {{- end }}
        {{- with $root.Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        {{- with .mounts }}
        {{- . | nindent 8 }}
        {{- end }}
    {{- with .containers }}
    {{- . | nindent 4 }}
    {{- end }}
  volumes:
    - name: config
      configMap: {name: {{ include "otelcol-gpu.fullname" $root }}-{{ .name }}}
    {{- if include "otelcol-gpu.usesTLS" (list $root .name) }}
    - name: tls
      secret: {secretName: {{ include "otelcol-gpu.tlsSecret" $root }}}
    {{- end }}
    {{- with $root.Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    {{- with .volumes }}
    {{- . | nindent 4 }}
    {{- end }}
{{- end }}

{{/* Replicas on different nodes where that is possible: a list of root and component. */}}
{{- define "otelcol-gpu.spread" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "otelcol-gpu.selectorLabels" . | nindent 8 }}
{{- end }}

{{/* A drain waits until the one that it took is back: a list of root and component. */}}
{{- define "otelcol-gpu.disruptionBudget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "otelcol-gpu.metadata" . | nindent 2 }}
spec:
  maxUnavailable: 1
  # One that does not start must not hold up the drain of its node.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "otelcol-gpu.selectorLabels" . | nindent 6 }}
{{- end }}
