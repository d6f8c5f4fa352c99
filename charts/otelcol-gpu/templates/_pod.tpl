{{/* Pods. The collectors' pods differ only in mounts, resources, and ports. */}}

{{/* 80% of a component's memory limit, so that the collector frees memory before it is killed, or empty if
there is no limit. The argument is the component's values. */}}
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

{{/* Whether a collector has the page for Prometheus. The argument is a list of root and component. */}}
{{- define "otelcol-gpu.hasMetricsPort" -}}
{{- $v := (index . 0).Values }}
{{- $windows := ternary "gateway" "agent" $v.gateway.enabled }}
{{- if and $v.prometheus.enabled (has (index . 1) (list $windows "cluster" "simulator")) }}true{{ end }}
{{- end }}

{{/* Whether the agent must run as root. Only root can open the kubelet's socket, and root owns new directories
on the host. */}}
{{- define "otelcol-gpu.agentIsRoot" -}}
{{- if or .Values.agent.stateHostPath (include "otelcol-gpu.asksKubelet" .) }}true{{ end }}
{{- end }}

{{/* Whether the agent needs the Pod Security level privileged. */}}
{{- define "otelcol-gpu.agentNeedsHost" -}}
{{- if or (include "otelcol-gpu.agentIsRoot" .) .Values.nvml.enabled }}true{{ end }}
{{- end }}

{{/* The image of a collector. The argument is a list of root and component. A digest identifies a single image,
so the image with NVML cannot be derived from it. */}}
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

{{/* The security context of a pod that does not run as root. OpenShift assigns the user. */}}
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

{{/* Whether the agent runs on a node. The argument is a list of nodeSelector, gpuNodeLabels, and the node's labels. */}}
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

{{/* One term for each label of GPU nodes, of which a node needs only one. The user's affinity is merged into it. */}}
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

{{/* A pod template. The argument is a dict of root, name (the component), rootUser, serviceAccount, token, and
the following as YAML text: env, ports, mounts, volumes, lifecycle, additional containers, and spec, which is
added to the pod's spec. */}}
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
    # A change of the configuration restarts the pod, because the program reads it only at startup.
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
        {{- /* Other types may not open host directories. */}}
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

{{/* Schedules replicas on different nodes if possible. The argument is a list of root and component. */}}
{{- define "otelcol-gpu.spread" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "otelcol-gpu.selectorLabels" . | nindent 8 }}
{{- end }}

{{/* A PodDisruptionBudget, so that a drain waits until the evicted pod has been replaced. The argument is a
list of root and component. */}}
{{- define "otelcol-gpu.disruptionBudget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "otelcol-gpu.metadata" . | nindent 2 }}
spec:
  maxUnavailable: 1
  # A pod that does not start must not block the drain of its node.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "otelcol-gpu.selectorLabels" . | nindent 6 }}
{{- end }}
