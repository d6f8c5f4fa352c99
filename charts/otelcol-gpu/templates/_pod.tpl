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
{{- if and .Values.attribution.enabled .Values.attribution.podResources }}true{{ end }}
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

{{/*
A pod template. A dict of root, name (the component), rootUser, serviceAccount and token, and as
YAML texts env, ports, mounts, volumes and spec, which is put into the pod's spec.
*/}}
{{- define "otelcol-gpu.podTemplate" -}}
{{- $root := .root }}
{{- $v := index $root.Values .name -}}
metadata:
  labels:
    {{- include "otelcol-gpu.selectorLabels" (list $root .name) | nindent 4 }}
    {{- with $v.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    # A changed configuration counts from the next start on, so it makes one.
    checksum/config: {{ include "otelcol-gpu.config" (list $root .name) | sha256sum }}
    {{- with $v.podAnnotations }}
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
  {{- with $v.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $v.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $v.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    {{- $user := ternary (dict "runAsUser" 0)
      (dict "runAsNonRoot" true "runAsUser" 10001 "runAsGroup" 10001 "fsGroup" 10001) (.rootUser | default false) }}
    {{- $user = set $user "seccompProfile" (dict "type" "RuntimeDefault") }}
    {{- include "otelcol-gpu.merged" (list (toYaml $user) $v.podSecurityContext) | nindent 4 }}
  containers:
    - name: otelcol-gpu
      {{- $tag := $root.Values.image.tag | default $root.Chart.AppVersion }}
      image: {{ $root.Values.image.repository }}:{{ $tag }}
      {{- if and (eq .name "agent") $root.Values.nvml.enabled (not (contains "@" $tag)) }}-nvml{{ end }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
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
      resources:
        {{- toYaml $v.resources | nindent 8 }}
      securityContext:
        {{- $closed := dict "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true "capabilities" (dict "drop" (list "ALL")) }}
        {{- include "otelcol-gpu.merged" (list (toYaml $closed) $v.securityContext) | nindent 8 }}
      volumeMounts:
        - {name: config, mountPath: /etc/otelcol-gpu, readOnly: true}
        {{- if include "otelcol-gpu.usesTLS" (list $root .name) }}
        - {name: tls, mountPath: /etc/otelcol-gpu-tls, readOnly: true}
        {{- end }}
        {{- with .mounts }}
        {{- . | nindent 8 }}
        {{- end }}
  volumes:
    - name: config
      configMap: {name: {{ include "otelcol-gpu.fullname" $root }}-{{ .name }}}
    {{- if include "otelcol-gpu.usesTLS" (list $root .name) }}
    - name: tls
      secret: {secretName: {{ include "otelcol-gpu.tlsSecret" $root }}}
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
